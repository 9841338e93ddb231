"""DescribeProducers: what a partition remembers of who wrote to it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.log.management.passes import expiration_steps, run_pass
from ottla.log.producers import ProducerStates
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from ottla.wire.messages.internal.partition_record import PartitionRecord
from tests.fakes import NOW_MS, MemoryBroker
from tests.log.support import batch
from tests.noted import noted
from tests.server.handlers.data_calls import call, produce, versions


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 2})


def ask(broker: MemoryBroker, *topics: tuple[str, list[int]], version: int = 0) -> list[tuple[str, list[Any]]]:
    asked = DescribeProducersRequest([TopicRequest(*topic) for topic in topics])
    return [(topic.name, topic.partitions) for topic in call(broker, "describe_producers", version, asked).topics]


def codes(broker: MemoryBroker, *topics: tuple[str, list[int]]) -> list[tuple[int, bool]]:
    """(code, whether there is a message) of each partition."""
    found = ask(broker, *topics)
    assert all(partition.active_producers == [] for _, partitions in found for partition in partitions)
    return [(partition.error_code, bool(partition.error_message)) for _, partitions in found for partition in partitions]


@pytest.mark.parametrize("version", versions("describe_producers"))
def test_producers_of_a_partition(broker: MemoryBroker, version: int) -> None:
    for producer_id, sequence in ((7, 0), (7, 2), (9, 0)):
        records = batch(2, producer=(producer_id, 3, sequence))
        assert produce(broker, "t", records).error_code == 0
    produce(broker, "t", batch(1))
    ((name, (first, second)),) = ask(broker, ("t", [0, 1]), version=version)
    assert (name, first.error_code, first.error_message, second.active_producers) == ("t", 0, None, [])
    described = {state.producer_id: state for state in first.active_producers}
    assert described.keys() == {7, 9}
    state = broker.replica().log.producers.get(7)
    assert state is not None
    assert described[7] == ProducerState(7, 3, 3, state.last_timestamp_ms, -1, -1)


def test_an_open_transaction(broker: MemoryBroker) -> None:
    produce(broker, "t", batch(4))
    broker.replica().append(batch(2, producer=(7, 0, 0), transactional=True))
    ((_, (partition,)),) = ask(broker, ("t", [0]))
    (state,) = partition.active_producers
    assert (state.current_txn_start_offset, state.last_sequence) == (4, 1)


def test_who_is_forgotten_is_not_shown(broker: MemoryBroker) -> None:
    produce(broker, "t", batch(1, producer=(7, 0, 0)))
    run_pass(expiration_steps(broker.logs, NOW_MS + 365 * 86_400_000))
    ((_, (partition,)),) = ask(broker, ("t", [0]))
    assert partition.active_producers == []


def test_what_is_asked_twice_is_answered_twice(broker: MemoryBroker) -> None:
    assert [(name, [p.partition_index for p in partitions]) for name, partitions in ask(broker, ("t", [1, 1]), ("t", [1]))] == [
        ("t", [1, 1]),
        ("t", [1]),
    ]


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        ("__cluster_metadata", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION, True),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, True),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION, True),
        (".", ErrorCode.INVALID_TOPIC_EXCEPTION, True),
    ],
)
def test_topics_that_are_refused(broker: MemoryBroker, topic: str, code: ErrorCode, message: bool) -> None:
    assert codes(broker, (topic, [0, 5])) == [(code, message)] * 2
    assert ask(broker, (topic, [])) == [(topic, [])]


def test_partitions_that_do_not_exist(broker: MemoryBroker) -> None:
    assert codes(broker, ("t", [2, -1])) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)] * 2


def test_a_follower_answers_with_what_it_has_copied(broker: MemoryBroker) -> None:
    """As Kafka's does; clients may ask any replica (DescribeProducersOptions.brokerId)."""
    produce(broker, "t", batch(1, producer=(7, 0, 0)))
    broker.elect("t", leader=2)
    ((_, (partition,)),) = ask(broker, ("t", [0]))
    assert (partition.error_code, [state.producer_id for state in partition.active_producers]) == (ErrorCode.NONE, [7])


def test_a_partition_of_other_brokers(broker: MemoryBroker) -> None:
    broker.image.apply(PartitionRecord(2, broker.topic_id("t"), [8, 9], [8, 9], leader=8, leader_epoch=0))
    assert codes(broker, ("t", [2])) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, False)]


def test_a_disk_that_failed(broker: MemoryBroker) -> None:
    broker.disk.fail("append")
    with pytest.raises(StorageError):
        broker.replica().append(batch(1))
    assert codes(broker, ("t", [0])) == [(ErrorCode.KAFKA_STORAGE_ERROR, False)]


def test_a_partition_that_is_named_again_is_described_once(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered each time all the same, as by Kafka."""
    produce(broker, "t", batch(1, producer=(7, 0, 0)))
    looked: list[ProducerStates] = []
    monkeypatch.setattr(ProducerStates, "in_kafkas_order", noted(looked, ProducerStates.in_kafkas_order))
    first, empty, second, unknown = ask(broker, ("t", [0, 0, 9, 0]), ("t", []), ("t", [0]), ("nope", [0, 0]))
    assert [partition.partition_index for partition in first[1]] == [0, 0, 9, 0]
    assert first[1][0] == first[1][1] == first[1][3] == second[1][0]
    assert [state.producer_id for state in second[1][0].active_producers] == [7]
    assert (empty[1], [partition.error_code for partition in unknown[1]]) == ([], [3, 3])
    assert len(looked) == 1
