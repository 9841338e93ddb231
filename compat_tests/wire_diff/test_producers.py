"""DescribeProducers: who wrote to a partition, as its leader remembers it."""

from __future__ import annotations

from typing import Any

from compat_tests.wire import Wire, batch
from compat_tests.wire_diff.same import same_answer
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest

ONLY_VERSION = 0


def ask(wire: Wire, *topics: tuple[str, list[int]]) -> Any:
    return wire.call(DescribeProducersRequest([TopicRequest(*topic) for topic in topics]), ONLY_VERSION)


def labelled_producer(wire: Wire, name: str) -> int:
    producer_id = wire.new_producer_id()
    wire.labels["producer", producer_id] = f"<{name}>"
    return producer_id


@same_answer("I22")
def test_producers_and_their_last_sequence(wire: Wire) -> Any:
    topic = wire.create("t", 2)
    first, second = labelled_producer(wire, "first"), labelled_producer(wire, "second")
    wire.produce(topic, batch(b"plain"))
    seen = [ask(wire, (topic, [0]))]
    for producer_id, epoch, sequence, partition in (
        (first, 0, 0, 0),
        (first, 0, 2, 0),
        (first, 1, 0, 0),
        (second, 5, 7, 0),
        (second, 0, 0, 1),
    ):
        records = batch(b"a", b"b", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        wire.produce(topic, records, partition=partition)
        seen.append(ask(wire, (topic, [0, 1])))
    return seen


@same_answer("DP2")
def test_refusals(wire: Wire) -> Any:
    topic = wire.create("t", 2)
    invalid = ["", "a b", "x" * 250, ".", "..", "é"]
    return [
        ask(wire, (topic, [0, 1, 2, -1]), ("nope", [0, 1]), *((name, [0, 7]) for name in invalid)),
        ask(wire, ("__consumer_offsets", [99]), ("__cluster_metadata", [0])),
    ]


@same_answer("producers of a partition twice")
def test_duplicates_and_empty_arrays(wire: Wire) -> Any:
    topic = wire.create("t", 2)
    return ask(wire, (topic, [1, 1]), (topic, [1])), ask(wire), ask(wire, (topic, []), ("nope", []))
