"""DeleteRecords at every version: the log's start moves up, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.base.promise import Promise
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.fakes import MemoryBroker
from tests.followers import TWO, Led
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


# With followers


def deletion(led: Led, offset: int, timeout_ms: int = 1000) -> Any:
    """Returns the promise of the answer, or the answer."""
    topics = [DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)])]
    return call(led.broker, "delete_records", 2, DeleteRecordsRequest(topics, timeout_ms))


def result(answer: Any) -> tuple[ErrorCode, int]:
    answer = answer.result() if isinstance(answer, Promise) else answer
    ((partition,),) = (each.partitions for each in answer.topics)
    return ErrorCode(partition.error_code), partition.low_watermark


def followed() -> Led:
    """Broker 2 is alive and has the whole log, which begins at 0; broker 3 is not registered."""
    led = Led()
    led.broker.register_broker(TWO, port=9093)
    led.append(5)
    led.fetched(two=5, three=5)
    led.high_watermark.on_fetch(TWO, 5, 0)
    return led


def test_it_waits_until_the_followers_that_are_alive_begin_there_too() -> None:
    led = followed()
    answer = deletion(led, 3)
    assert led.replica.log.log_start_offset == 3
    led.high_watermark.on_fetch(TWO, 5, 2)
    led.broker.clock.advance()
    assert not answer.done()
    led.high_watermark.on_fetch(TWO, 5, 3)
    led.broker.clock.advance()
    assert result(answer) == (ErrorCode.NONE, 3)


def test_minus_one_waits_for_the_high_watermark_of_the_request() -> None:
    led = followed()
    answer = deletion(led, -1)
    led.append(1)
    led.high_watermark.on_fetch(TWO, 6, 5)
    led.broker.clock.advance()
    assert result(answer) == (ErrorCode.NONE, 5)


def test_followers_that_take_too_long() -> None:
    led = followed()
    answer = deletion(led, 3)
    led.broker.clock.advance(0.999)
    assert not answer.done()
    led.broker.clock.advance(0.001)
    assert result(answer) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert led.replica.log.log_start_offset == 3


def test_no_time_to_wait() -> None:
    assert result(deletion(followed(), 3, timeout_ms=0)) == (ErrorCode.REQUEST_TIMED_OUT, -1)


def test_what_the_followers_have_done_before_is_not_waited_for() -> None:
    led = followed()
    led.high_watermark.on_fetch(TWO, 5, 4)
    assert result(deletion(led, 3)) == (ErrorCode.NONE, 3)


def test_leadership_ends_meanwhile() -> None:
    led = followed()
    answer = deletion(led, 3)
    led.broker.elect("t", TWO)
    led.broker.clock.advance()
    assert result(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
