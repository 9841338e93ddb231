"""Idempotent producers: sequences, epochs, duplicates, producer ids (docs/kafka-behaviour.md)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from compat_tests.wire import Wire, batch
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.messages import init_producer_id


class Producer:
    """Batches of one producer id to one partition."""

    def __init__(self, wire: Wire, topic: str) -> None:
        self.wire, self.topic = wire, topic
        self.id = wire.new_producer_id()

    def send(self, sequence: int, count: int = 1, epoch: int = 0, producer_id: int | None = None) -> Any:
        records = batch(
            *[b"v"] * count,
            producer_id=self.id if producer_id is None else producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return self.wire.produce(self.topic, records).responses[0].partition_responses[0]


@same_answer("I3")
def test_duplicates_are_answered_with_their_first_offset(wire: Wire) -> Any:
    """The last five batches are remembered; older duplicates are out of order."""
    producer = Producer(wire, wire.create("t"))
    first = [producer.send(0, 3), producer.send(0, 3), producer.send(0, 2), producer.send(2, 2), producer.send(3)]
    more = [producer.send(n) for n in range(4, 9)]
    return first, more, [producer.send(n) for n in (8, 7, 6, 5, 4)], producer.send(3), producer.send(0, 3), producer.send(9)


@same_answer("I4")
def test_gaps_and_overlaps_are_out_of_order(wire: Wire) -> Any:
    producer = Producer(wire, wire.create("t"))
    return [producer.send(n, c) for n, c in [(0, 3), (5, 1), (2, 2), (1, 2), (0, 1), (3, 1), (4, 1), (6, 1), (5, 1)]]


@same_answer("I10")
def test_epochs(wire: Wire) -> Any:
    producer = Producer(wire, wire.create("t"))
    steps = [(0, 0), (1, 0), (5, 1), (0, 1), (2, 0), (1, 1), (0, 1), (0, 3), (0, 2)]
    return [producer.send(sequence, epoch=epoch) for sequence, epoch in steps]


@same_answer("I12")
def test_an_unknown_producer_may_start_anywhere(wire: Wire) -> Any:
    producer = Producer(wire, wire.create("t"))
    return producer.send(7), producer.send(8), producer.send(7), producer.send(10), producer.send(3, epoch=4)


@same_answer("I14")
def test_half_a_producer_identity(wire: Wire) -> Any:
    producer = Producer(wire, wire.create("t"))
    first = producer.send(0)
    halves = [producer.send(1, epoch=-1), producer.send(-1), producer.send(1, producer_id=-1), producer.send(-1, epoch=-1)]
    return first, halves, producer.send(1)


@same_answer("I14b")
def test_half_an_identity_of_an_unknown_producer(wire: Wire) -> Any:
    return Producer(wire, wire.create("t")).send(0, epoch=-1).error_code


@same_answer("I16")
def test_sequences_wrap(wire: Wire) -> Any:
    producer = Producer(wire, wire.create("t"))
    steps = [(2147483646, 2), (0, 1), (1, 1), (2147483646, 2)]
    other = Producer(wire, wire.create("u"))
    across = [(2147483645, 5), (2, 1), (2147483645, 5), (3, 1)]
    return [producer.send(*step) for step in steps], [other.send(*step) for step in across]


@same_answer("producers and partitions that do not mix")
def test_producers_and_partitions_do_not_mix(wire: Wire) -> Any:
    topic = wire.create("t")
    one, two = Producer(wire, topic), Producer(wire, topic)
    return [p.send(n) for n in range(3) for p in (one, two)], one.send(1), two.send(5), one.id != two.id


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        answers = [wire.call(init_producer_id.InitProducerIdRequest(None, 60_000), version) for _ in range(3)]
        ids = [answer.producer_id for answer in answers]
        for number, producer_id in enumerate(ids):
            wire.label(("producer", producer_id), f"producer {number}")
        return answers, [b - a for a, b in pairwise(ids)]

    check(wires, "I1", scenario)


@same_answer("I18")
def test_init_producer_id_with_odd_fields(wire: Wire) -> Any:
    given = wire.call(init_producer_id.InitProducerIdRequest(None, 60_000, 5, 3), 4)
    wire.label(("producer", given.producer_id), "new")
    timeouts = [wire.call(init_producer_id.InitProducerIdRequest(None, t), 4).error_code for t in (0, -1, 3_600_000)]
    half = [wire.call(init_producer_id.InitProducerIdRequest(None, 1000, *p), 4).error_code for p in ((5, -1), (-1, 3))]
    return given, timeouts, half
