"""DeleteRecords at every version: the log's start moves up, and what is refused."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import call, fetch, produce, versions


@pytest.fixture
def broker() -> MemoryBroker:
    broker = MemoryBroker({"t": 1})
    for _ in range(5):
        assert produce(broker, "t", batch(2)).error_code == 0
    return broker


def delete(broker: MemoryBroker, offset: int, topic: str = "t", version: int = 2) -> tuple[ErrorCode, int]:
    topics = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])]
    answer = call(broker, "delete_records", version, DeleteRecordsRequest(topics, 1000))
    ((partition,),) = (each.partitions for each in answer.topics)
    return ErrorCode(partition.error_code), partition.low_watermark


@pytest.mark.parametrize("version", versions("delete_records"))
def test_records_below_the_offset_are_gone(broker: MemoryBroker, version: int) -> None:
    assert delete(broker, 4, version=version) == (ErrorCode.NONE, 4)
    assert fetch(broker, "t", 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(broker, "t", 4).error_code == ErrorCode.NONE


def test_the_start_never_moves_back_and_minus_one_is_the_high_watermark(broker: MemoryBroker) -> None:
    assert delete(broker, 4) == (ErrorCode.NONE, 4)
    assert delete(broker, 2) == (ErrorCode.NONE, 4)
    assert delete(broker, -1) == (ErrorCode.NONE, 10)


@pytest.mark.parametrize("offset", [11, -5])
def test_offsets_that_the_log_does_not_have(broker: MemoryBroker, offset: int) -> None:
    assert delete(broker, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_each_partition_is_answered_once_and_the_later_offset_counts(broker: MemoryBroker) -> None:
    asked: tuple[list[tuple[int, int]], ...] = ([(0, 6), (0, 2)], [], [(0, 4), (9, 0)])
    topics = [DeleteRecordsTopic("t", [DeleteRecordsPartition(*each) for each in partitions]) for partitions in asked]
    answer = call(broker, "delete_records", 2, DeleteRecordsRequest([*topics, DeleteRecordsTopic("nope", [])], 1000))
    ((first, second),) = (topic.partitions for topic in answer.topics)
    assert (first.partition_index, first.low_watermark, second.partition_index) == (0, 4, 9)


def test_compacted_internal_unknown_and_foreign_topics(broker: MemoryBroker) -> None:
    broker.create_topic("compacted", cleanup_policy="compact")
    assert delete(broker, 0, "compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    broker.create_topic("__consumer_offsets")
    assert delete(broker, 0, "__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert delete(broker, 0, "nope") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    broker.elect("t", 2)
    assert delete(broker, 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
