"""compat_tests/wire_diff/same.py: what is masked in answers that are compared with Kafka's, and what just beside it is not."""

from __future__ import annotations

import re
import time
from importlib import import_module
from inspect import get_annotations
from typing import Any

import pytest

from compat_tests.wire_diff.same import IN_ORDER, MASKS, differences, masked, normalise
from ottla.wire.messages.fetch import AbortedTransaction, FetchResponse, PartitionData
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from ottla.wire.primitives import WireStruct

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
        ("session_id", 5, "<session 1>"),
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
    assert masked(value, dict(LABELS), field) == shown


def test_an_id_of_a_session_that_comes_again_is_the_same() -> None:
    labels = dict(LABELS)
    found = normalise([FetchResponse(session_id=each) for each in (77, 0, 5, 77)], labels)
    assert [each["session_id"] for each in found] == ["<session 1>", 0, "<session 2>", "<session 1>"]
    assert masked(5, labels, "session_id") == "<session 2>", "also in what is asked later"


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
def test_each_list_whose_order_is_compared(name: str) -> None:
    """By two structures of which the second comes first."""
    _, owner, entry, field = list_of(name)
    first, second = entry(), entry()
    scalar = next(each for each in entry.__slots__ if type(getattr(first, each)) in (int, str, bytes))
    setattr(second, scalar, {int: 1, str: "1", bytes: b"1" * 16}[type(getattr(first, scalar))])
    shown = [normalise(owner(**{field: order}), {}) for order in ([first, second], [second, first])]
    assert differences(*shown) != []


def test_lists_of_a_scenario_keep_their_order() -> None:
    answers = [MetadataResponseBroker(node_id=node_id, host="h", port=1) for node_id in (2, 1)]
    assert [each["node_id"] for each in normalise({"answers": answers}, {})["answers"]] == [2, 1]


def list_of(name: str) -> tuple[Any, Any, Any, str]:
    """Returns the module of a list in IN_ORDER, the class that has it, that of its structures, and the field."""
    module, _, field = name.rpartition(".")
    message = import_module(f"ottla.wire.messages.{module}")
    ((owner, entry),) = [(owner, kind) for owner in vars(message).values() for kind in structures_in(owner, field)]
    return message, owner, entry, field


def structures_in(owner: Any, field: str) -> list[type[WireStruct]]:
    """Returns the class of the structures in a list of this class, in a list; none if it has no such list or is no answer."""
    if not isinstance(owner, type) or field not in getattr(owner, "__slots__", ()):
        return []
    if not owner.__module__.startswith("ottla.wire.messages.internal."):
        return [kind for each, kind, is_list in getattr(owner, "NESTED", ()) if each == field and is_list]
    told = re.fullmatch(r"list\[(\w+)\]", str(get_annotations(vars(owner)["__init__"])[field]))
    return [] if told is None else [vars(import_module(owner.__module__))[told[1]]]


@pytest.mark.parametrize("name", sorted(IN_ORDER))
def test_a_list_whose_order_is_compared_is_of_structures_of_that_message(name: str) -> None:
    """Else a field that was renamed would no longer be compared, and nothing would say so."""
    message, _, entry, _ = list_of(name)
    assert entry.__module__ == message.__name__


def test_every_mask_says_why() -> None:
    assert all(mask.what and mask.why for mask in MASKS)
