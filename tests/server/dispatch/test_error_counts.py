"""Tests of where error codes stand in answers, and how many there are."""

from __future__ import annotations

from importlib import import_module

import pytest

from ottla.server.dispatch.error_counts import count_errors, places_in
from ottla.wire.api import BY_MODULE
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.wire.primitives import WireStruct


def counted(answer: WireStruct) -> dict[int, int]:
    counts: dict[int, int] = {}
    count_errors(answer, places_in(type(answer)), counts)
    return counts


def test_every_code_counts_wherever_it_stands() -> None:
    topic = MetadataResponseTopic(3, "gone")
    partitions = [MetadataResponsePartition(code, index) for index, code in enumerate((0, 5, 9, 5))]
    answer = MetadataResponse(
        brokers=[MetadataResponseBroker()], topics=[topic, MetadataResponseTopic(0, "here", partitions=partitions)]
    )
    assert counted(answer) == {3: 1, 5: 2, 9: 1}
    assert counted(FetchResponse(error_code=70)) == {70: 1}
    assert counted(FindCoordinatorResponse(error_code=15, coordinators=[Coordinator("a", error_code=15)])) == {15: 2}


def test_a_good_answer_has_none() -> None:
    parts = [PartitionProduceResponse(index) for index in range(3)]
    assert counted(ProduceResponse([TopicProduceResponse("t", partition_responses=parts)])) == {}


def test_parts_without_codes_are_not_walked() -> None:
    places = places_in(MetadataResponse)
    assert [name for name, _ in places.lists] == ["topics"]
    assert not places_in(MetadataResponseBroker)


@pytest.mark.parametrize("module", sorted(BY_MODULE))
def test_every_answer_can_be_looked_through(module: str) -> None:
    messages = import_module(f"ottla.wire.messages.{module}")
    answer = getattr(messages, f"{BY_MODULE[module].name}Response")
    source = answer.__module__
    has_codes = any(
        "error_code" in each.__slots__
        for each in vars(messages).values()
        if isinstance(each, type) and issubclass(each, WireStruct) and each.__module__ == source
    )
    assert bool(places_in(answer)) == has_codes
