"""ListOffsets at every version: the special timestamps and since when, timestamps, isolation, epochs, refusals."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.log.validate import QUICK_DECOMPRESSED_BYTES
from ottla.server.base.clock import TURN_NS
from ottla.server.base.turns import MAX_THREADS
from ottla.server.partitions.replica import Replica
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.records import Record, build_batch
from tests.fakes import NODE_ID, NOW_MS, MemoryBroker
from tests.followers import TWO, Led
from tests.log.support import batch, count_decompressed
from tests.server.handlers.data_calls import call, produce, read, versions

NEWEST = 11


@pytest.fixture
def broker() -> MemoryBroker:
    """Six records in three batches, the greatest timestamp in the second: offsets 0-1 at +0, 2-3 at +4000, 4-5 at +2000."""
    broker = MemoryBroker({"t": 1, "empty": 1})
    for delay_ms in (0, 4000, 2000):
        records = [Record(0, NOW_MS - 10_000 + delay_ms, None, b"v", []) for _ in range(2)]
        assert produce(broker, "t", build_batch(records)).error_code == 0
    return broker


def ask(
    broker: MemoryBroker, timestamp: int, topic: str = "t", version: int = NEWEST, epoch: int = -1, times: int = 1
) -> list[ListOffsetsPartitionResponse]:
    partitions = [ListOffsetsPartition(0, epoch, timestamp)] * times
    answer = call(broker, "list_offsets", version, ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, partitions)]))
    ((topic_answer,),) = (answer.topics,)
    return list(topic_answer.partitions)


def found(broker: MemoryBroker, timestamp: int, **options: Any) -> tuple[int, int]:
    (answer,) = ask(broker, timestamp, **options)
    assert answer.error_code == 0
    return answer.timestamp, answer.offset


@pytest.mark.parametrize("version", versions("list_offsets"))
def test_latest_and_earliest_at_every_version(broker: MemoryBroker, version: int) -> None:
    assert found(broker, -1, version=version) == (-1, 6)
    assert found(broker, -2, version=version) == (-1, 0)


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_a_special_timestamp_needs_its_version(broker: MemoryBroker, timestamp: int, since: int) -> None:
    assert ask(broker, timestamp, version=since - 1)[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ask(broker, timestamp, version=since)[0].error_code == ErrorCode.NONE


def test_what_the_special_timestamps_find(broker: MemoryBroker) -> None:
    assert found(broker, -3) == (NOW_MS - 6_000, 2)  # the first of equals
    assert found(broker, -4) == (-1, 0)
    assert found(broker, -5) == found(broker, -6) == (-1, -1)


def test_an_undefined_negative_timestamp_is_refused(broker: MemoryBroker) -> None:
    assert ask(broker, -7)[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def test_by_timestamp_the_first_record_from_it_on(broker: MemoryBroker) -> None:
    assert found(broker, 0) == (NOW_MS - 10_000, 0)
    assert found(broker, NOW_MS - 9_999) == (NOW_MS - 6_000, 2)
    assert found(broker, NOW_MS) == (-1, -1)


@pytest.mark.parametrize("timestamp", [-3, 0])
def test_an_empty_partition_has_nothing_at_any_time(broker: MemoryBroker, timestamp: int) -> None:
    assert found(broker, timestamp, topic="empty") == (-1, -1)


def test_nothing_is_found_beyond_the_high_watermark(broker: MemoryBroker) -> None:
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    replica.log.high_watermark = 2
    assert found(broker, -1) == (-1, 2)
    assert found(broker, NOW_MS - 9_999) == (-1, -1)


def test_the_leader_epoch_is_checked_and_answered(broker: MemoryBroker) -> None:
    assert ask(broker, -1, epoch=9)[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    broker.elect("t", 1)
    assert ask(broker, -1, epoch=0)[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    (answer,) = ask(broker, -1, epoch=1)
    assert (answer.error_code, answer.leader_epoch) == (ErrorCode.NONE, 1)
    assert ask(broker, -2)[0].leader_epoch == 0


def test_a_partition_asked_for_twice_is_refused_once(broker: MemoryBroker) -> None:
    assert [answer.error_code for answer in ask(broker, -1, times=2)] == [ErrorCode.INVALID_REQUEST]


def test_each_topic_is_answered_once(broker: MemoryBroker) -> None:
    topics = [ListOffsetsTopic("t", [ListOffsetsPartition(index, -1, -1) for index in indexes]) for indexes in ([0], [], [0, 9])]
    answer = call(broker, "list_offsets", NEWEST, ListOffsetsRequest(-1, 0, [*topics, ListOffsetsTopic("nope")]))
    ((first, second),) = (each.partitions for each in answer.topics)
    assert (first.error_code, second.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_unknown_topics_and_other_leaders(broker: MemoryBroker) -> None:
    assert ask(broker, -1, topic="nope")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.elect("t", 2)
    assert ask(broker, -1)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# What takes longer than a turn


def test_a_large_batch_is_searched_in_a_thread(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, taken = broker.hold_threads(), count_decompressed(monkeypatch)
    assert produce(broker, "empty", batch(900, timestamp_ms=NOW_MS - 5000, step_ms=1, value=bytes(1000), codec=4)).error_code == 0
    large = batch(9000, timestamp_ms=NOW_MS - 4000, step_ms=1, value=bytes(1000), codec=4)
    broker.replica("empty").log.append_as_leader(large, leader_epoch=0)
    before = taken()
    assert found(broker, NOW_MS - 4500, topic="empty") == (NOW_MS - 4500, 500)
    promise: Any = asked(broker, NOW_MS - 100)
    for _ in range(2):
        assert not promise.done()
        assert 0 < taken() - before <= 2 * QUICK_DECOMPRESSED_BYTES
        broker.clock.advance()
    assert len(threads.jobs) == 1
    threads.end_first()
    assert not promise.done(), "the thread's end is no turn"
    broker.clock.advance()
    ((answer,),) = (each.partitions for each in read("list_offsets", NEWEST, promise.result()).topics)
    assert (answer.timestamp, answer.offset) == (NOW_MS - 100, 900 + 3900)


def asked(broker: MemoryBroker, timestamp: int) -> Any:
    """Returns what is answered for "empty" 0, or a promise."""
    partitions = [ListOffsetsPartition(0, -1, timestamp)]
    return call(broker, "list_offsets", NEWEST, ListOffsetsRequest(-1, 0, [ListOffsetsTopic("empty", partitions)]))


def test_what_a_thread_finds_damaged_is_refused(broker: MemoryBroker) -> None:
    threads = broker.hold_threads()
    records = bytearray(batch(2, timestamp_ms=NOW_MS, value=Random(1).randbytes(90_000), codec=1))
    broker.replica("empty").log.append_as_leader(bytes(records), leader_epoch=0)
    path = broker.replica("empty").log.segments.active.path(".log")
    broker.disk.write_bytes(path, bytes(records[:70]) + bytes(len(records) - 70))
    broker.replica("empty").log.segments.active.release_file()
    promise = asked(broker, NOW_MS)
    threads.end_first()
    broker.clock.advance()
    ((answer,),) = (each.partitions for each in read("list_offsets", NEWEST, promise.result()).topics)
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE


def test_nobody_searches_for_a_client_that_has_gone(broker: MemoryBroker) -> None:
    threads = broker.hold_threads()
    broker.replica("empty").log.append_as_leader(batch(1, value=Random(1).randbytes(90_000), codec=1), leader_epoch=0)
    promises = [asked(broker, NOW_MS) for _ in range(MAX_THREADS + 1)]
    promises[-1].cancel()
    for _ in range(MAX_THREADS):
        threads.end_first()
    assert not threads.jobs


def test_many_partitions_are_answered_in_turns(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create_topic("wide", 10)
    looked: list[int] = []

    def slowly(replica: Replica, epoch: int) -> None:
        looked.append(replica.partition)
        broker.clock.spend(TURN_NS / 2 / 1e9)

    monkeypatch.setattr(Replica, "check_epoch", slowly)
    topics = [ListOffsetsTopic("wide", [ListOffsetsPartition(index, -1, -1) for index in range(10)])]
    promise = call(broker, "list_offsets", NEWEST, ListOffsetsRequest(-1, 0, topics))
    for turns in range(1, 4):
        assert len(looked) == 3 * turns
        assert not promise.done()
        broker.clock.advance()
    ((partitions,),) = ((each.partitions for each in read("list_offsets", NEWEST, promise.result()).topics),)
    assert [(each.partition_index, each.error_code, each.offset) for each in partitions] == [(index, 0, 0) for index in range(10)]


# With followers


def ask_led(led: Led, timestamp: int, version: int = NEWEST, replica_id: int = -1) -> tuple[ErrorCode, int]:
    partitions = [ListOffsetsPartition(0, -1, timestamp)]
    request = ListOffsetsRequest(replica_id, 0, [ListOffsetsTopic("t", partitions)])
    ((answer,),) = (topic.partitions for topic in call(led.broker, "list_offsets", version, request).topics)
    return ErrorCode(answer.error_code), answer.offset


def elected() -> Led:
    """A leader that has just been elected, with 3 records of an earlier leader, 2 of which it knows to be replicated."""
    led = Led()
    led.append(3)
    led.fetched(two=2, three=2)
    led.broker.elect("t", TWO)
    led.broker.elect("t", NODE_ID)
    return led


@pytest.mark.parametrize(("version", "wanted"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)])
@pytest.mark.parametrize("timestamp", [-1, NOW_MS + 10_000])
def test_a_new_leader_does_not_answer_a_latest_offset_that_is_unknown(timestamp: int, version: int, wanted: ErrorCode) -> None:
    assert ask_led(elected(), timestamp, version) == (wanted, -1)


def test_but_what_it_knows() -> None:
    led = elected()
    assert ask_led(led, -2) == (ErrorCode.NONE, 0)
    assert ask_led(led, NOW_MS) == (ErrorCode.NONE, 0)


def test_it_knows_it_when_the_followers_have_all_of_the_epochs_before() -> None:
    led = elected()
    led.append(1)
    led.fetched(two=3, three=2)
    assert ask_led(led, -1)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    led.fetched(three=3)
    assert ask_led(led, -1) == (ErrorCode.NONE, 3)
    assert ask_led(led, NOW_MS + 10_000) == (ErrorCode.NONE, -1)


def test_replicas_may_know_the_end_of_the_log() -> None:
    led = elected()
    assert ask_led(led, -1, replica_id=TWO) == (ErrorCode.NONE, 3)
    led.broker.elect("t", TWO)
    assert ask_led(led, -1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert ask_led(led, -1, replica_id=TWO) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert ask_led(led, -1, replica_id=-2) == (ErrorCode.NONE, 3)
