"""compat_tests/wire_diff/same.py: what is masked in answers that are compared with Kafka's, and what just beside it is not."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

import pytest

from compat_tests.wire_diff.same import IN_ORDER, MASKS, differences, masked, normalise
from ottla.wire.messages.fetch import AbortedTransaction, PartitionData
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseBroker

LABELS: dict[Any, str] = {("port", 9092): "<port>", ("producer", 7): "<producer>", "m-1": "<member>", b"\1" * 16: "<topic>"}


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("port", 9092, "<port>"),
        ("port", 9093, "<another port>"),
        ("port", 0, 0),
        ("port", -1, -1),
        ("error_message", "why", "<text>"),
        ("error_message", "", ""),
        ("error_message", None, None),
        ("name", "why", "why"),
        ("session_id", 5, "<chosen>"),
        ("session_id", 0, 0),
        ("producer_id", 7, "<producer>"),
        ("producer_id", 8, 8),
        ("first_offset", 7, 7),
        ("member_id", "m-1", "<member>"),
        ("member_id", "m-2", "m-2"),
        ("topic_id", b"\1" * 16, "<topic>"),
        ("port", "<another port>", "<another port>"),  # a scenario may mask what it returns
        ("log_append_time_ms", "<now>", "<now>"),
        ("log_append_time_ms", -1, -1),
        ("log_append_time_ms", 0, 0),
        ("log_append_time_ms", 1_700_000_000_000, 1_700_000_000_000),
    ],
)
def test_what_a_field_becomes(field: str, value: Any, shown: Any) -> None:
    assert masked(value, LABELS, field) == shown


@pytest.mark.parametrize(("late_s", "is_now"), [(0, True), (-60, True), (60, True), (-3600, False), (3600, False)])
def test_a_time_of_append_is_that_of_the_test(late_s: float, is_now: bool) -> None:
    time_ms = round((time.time() + late_s) * 1000)
    assert masked(time_ms, {}, "log_append_time_ms") == ("<now>" if is_now else time_ms)


def test_an_order_that_means_something_is_compared_and_any_other_is_not() -> None:
    def fetched(*offsets: int) -> Any:
        aborted = [AbortedTransaction(producer_id=1, first_offset=offset) for offset in offsets]
        return normalise(PartitionData(aborted_transactions=aborted), {})

    def brokers(*ids: int) -> Any:
        found = [MetadataResponseBroker(node_id=node_id, host="h", port=1) for node_id in ids]
        return normalise(MetadataResponse(brokers=found), {})

    assert differences(fetched(1, 2), fetched(1, 2)) == []
    assert len(differences(fetched(1, 2), fetched(2, 1))) == 2
    assert differences(brokers(1, 2), brokers(2, 1)) == []
    assert differences(brokers(1, 2), brokers(1, 3)) != []


@pytest.mark.parametrize("name", sorted(IN_ORDER))
def test_a_list_whose_order_is_compared_is_of_structures_of_that_message(name: str) -> None:
    """Else a field that was renamed would no longer be compared, and nothing would say so."""
    module, _, field = name.partition(".")
    message = import_module(f"ottla.wire.messages.{module}")
    nested = [entry for owner in vars(message).values() if isinstance(owner, type) for entry in getattr(owner, "NESTED", ())]
    assert [kind.__module__ for each, kind, is_list in nested if each == field and is_list] == [message.__name__]


def test_every_mask_says_why() -> None:
    assert all(mask.what and mask.why for mask in MASKS)
