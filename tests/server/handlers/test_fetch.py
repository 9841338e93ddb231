"""Fetch at every version: what comes back, limits, long polls, epochs, sessions, and each refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.log.disk.files import FileSlice
from ottla.log.transactions import append_marker
from ottla.server.base.promise import Promise
from ottla.server.handlers import fetch as handler
from ottla.wire.batch import iter_batches
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchPartition, FetchResponse, FetchTopic
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import call, fetch, fetch_request, produce, read, versions

ONE = batch(1)
BIG = batch(1, value=b"x" * 50_000)


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 3})


def offsets(data: Any) -> list[int]:
    """Base offsets of the whole batches."""
    return [header.base_offset for header, _ in iter_batches(data.records)]


def watermarks(data: Any) -> tuple[int, int, int]:
    return data.high_watermark, data.last_stable_offset, data.log_start_offset


def in_loop(test: Callable[[MemoryBroker], Coroutine[Any, Any, None]]) -> Callable[[MemoryBroker], None]:
    def run(broker: MemoryBroker) -> None:
        asyncio.run(test(broker))

    run.__name__ = test.__name__
    return run


@pytest.mark.parametrize("version", versions("fetch"))
def test_every_version_reads(broker: MemoryBroker, version: int) -> None:
    for _ in range(3):
        produce(broker, "t", ONE)
    data = fetch(broker, "t", 1, version)
    assert data.error_code == ErrorCode.NONE
    assert offsets(data) == [1, 2]
    assert watermarks(data) == (3, 3, 0 if version >= 5 else -1)
    assert data.aborted_transactions is None
    assert data.preferred_read_replica == -1


def test_records_are_regions_of_the_file(broker: MemoryBroker) -> None:
    produce(broker, "t", ONE)
    answer = handler.handle(fetch_request("t", {0: 0}), broker.request(12, 1))
    assert isinstance(answer, FetchResponse)
    assert isinstance(answer.responses[0].partitions[0].records, FileSlice)


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_the_end_and_an_empty_log(broker: MemoryBroker, isolation_level: int) -> None:
    empty = fetch(broker, "t", isolation_level=isolation_level)
    assert (empty.error_code, watermarks(empty), bytes(empty.records)) == (ErrorCode.NONE, (0, 0, 0), b"")
    assert empty.aborted_transactions == ([] if isolation_level else None)


@pytest.mark.parametrize("offset", [-1, 2, 100])
def test_out_of_range(broker: MemoryBroker, offset: int) -> None:
    produce(broker, "t", ONE)
    data = fetch(broker, "t", offset)
    assert (data.error_code, watermarks(data)) == (ErrorCode.OFFSET_OUT_OF_RANGE, (-1, -1, -1))
    assert data.aborted_transactions is None
    assert bytes(data.records) == b""


def test_below_the_start_after_delete_records(broker: MemoryBroker) -> None:
    for _ in range(3):
        produce(broker, "t", ONE)
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    replica.log.delete_records_before(2)
    assert fetch(broker, "t", 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert watermarks(fetch(broker, "t", 2)) == (3, 3, 2)


# What is not there


def test_damage_is_answered_and_logged_once(broker: MemoryBroker, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        produce(broker, "t", ONE)
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    file = replica.log.segments.active.open_file()
    file.truncate(len(ONE) + 5)
    file.append([b"\xff" * (2 * len(ONE) - 5)])
    for _ in range(5):
        assert fetch(broker, "t", 2).error_code == ErrorCode.CORRUPT_MESSAGE
    told = [record.getMessage() for record in caplog.records]
    assert all("t-0 is damaged" in line for line in told)
    assert 1 <= len(told) == len(set(told)) < 5


def test_unknown_topics(broker: MemoryBroker) -> None:
    for topic, version, wanted in (
        ("nope", 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nope", 13, ErrorCode.UNKNOWN_TOPIC_ID),
        ("nope", 18, ErrorCode.UNKNOWN_TOPIC_ID),
    ):
        data = fetch(broker, topic, version=version)
        assert (data.error_code, watermarks(data), data.aborted_transactions) == (wanted, (-1, -1, -1), [])
    answer = call(broker, "fetch", 13, fetch_request("t", {7: 0}, 13))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [12, 15, 16, 17])
def test_another_broker_leads(broker: MemoryBroker, version: int) -> None:
    broker.register_broker(2, port=9093)
    broker.image.apply(PartitionChangeRecord(0, broker.topic_id("t"), leader=2, replicas=[2], isr=[2]))
    answer = call(broker, "fetch", version, fetch_request("t", {0: 0}, version))
    (data,) = answer.responses[0].partitions
    assert (data.error_code, watermarks(data)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (-1, -1, -1))
    if version >= 16:
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
        assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == [(2, "host2", 9093)]
    else:
        assert (data.current_leader, answer.node_endpoints) == (None, [])


@pytest.mark.parametrize("version", [12, 15])
def test_a_follower_that_is_no_replica(broker: MemoryBroker, version: int) -> None:
    produce(broker, "t", ONE)
    assert fetch(broker, "t", version=version, replica_id=99).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = call(broker, "fetch", 16, fetch_request("t", {0: 0}, 16, replica_id=99))
    assert answer.responses[0].partitions[0].current_leader.leader_id == 1
    assert answer.node_endpoints == []  # brokers know where brokers are
    known = fetch(broker, "t", version=version, replica_id=99, current_leader_epoch=0)
    assert known.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


# Epochs


def test_leader_epochs(broker: MemoryBroker) -> None:
    produce(broker, "t", ONE)
    broker.elect("t", leader=1)
    for epoch, wanted in (
        (-1, ErrorCode.NONE),
        (1, ErrorCode.NONE),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        data = fetch(broker, "t", current_leader_epoch=epoch)
        assert data.error_code == wanted
        assert data.aborted_transactions is None
    fenced = fetch(broker, "t", version=16, current_leader_epoch=0)
    assert (fenced.current_leader.leader_id, fenced.current_leader.leader_epoch) == (1, 1)


def test_where_logs_part(broker: MemoryBroker) -> None:
    """Rows R6 and R6b: epoch 0 ended at 5."""
    for _ in range(5):
        produce(broker, "t", ONE)
    broker.elect("t", leader=1)
    produce(broker, "t", ONE)
    parted = fetch(broker, "t", 6, last_fetched_epoch=0)
    assert (parted.error_code, watermarks(parted), bytes(parted.records)) == (ErrorCode.NONE, (6, 6, 0), b"")
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (0, 5)
    together = fetch(broker, "t", 5, last_fetched_epoch=0)
    assert (together.diverging_epoch, offsets(together)) == (None, [5])
    assert fetch(broker, "t", 5, last_fetched_epoch=1).diverging_epoch is None
    assert fetch(broker, "t", 5, last_fetched_epoch=7).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_epoch_in_which_nothing_was_written_ends_where_the_log_begins(broker: MemoryBroker) -> None:
    broker.elect("t", leader=1)
    produce(broker, "t", ONE)
    together = fetch(broker, "t", 0, last_fetched_epoch=0)
    assert (together.error_code, together.diverging_epoch, offsets(together)) == (ErrorCode.NONE, None, [0])
    parted = fetch(broker, "t", 1, last_fetched_epoch=0)
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (0, 0)


# Limits


def three_partitions(broker: MemoryBroker, records: bytes) -> None:
    for index in range(3):
        produce(broker, "t", records, index=index)


def sizes(broker: MemoryBroker, **limits: Any) -> dict[int, int]:
    answer = call(broker, "fetch", 12, fetch_request("t", {0: 0, 1: 0, 2: 0}, **limits))
    return {data.partition_index: len(data.records) for topic in answer.responses for data in topic.partitions}


def test_only_the_first_partition_gives_a_batch_beyond_the_limit(broker: MemoryBroker) -> None:
    three_partitions(broker, BIG)
    assert sizes(broker, max_bytes=2000) == {0: len(BIG), 1: 0, 2: 0}
    assert sizes(broker, max_bytes=0) == {0: len(BIG), 1: 0, 2: 0}
    assert sizes(broker, partition_max_bytes=0) == {0: len(BIG), 1: 0, 2: 0}
    assert sizes(broker, partition_max_bytes=-5) == {0: len(BIG), 1: 0, 2: 0}


def test_an_empty_partition_leaves_the_right_to_the_next(broker: MemoryBroker) -> None:
    produce(broker, "t", BIG, index=1)
    produce(broker, "t", BIG, index=2)
    assert sizes(broker, max_bytes=2000) == {0: 0, 1: len(BIG), 2: 0}


def test_the_limit_is_for_all_partitions_together(broker: MemoryBroker) -> None:
    three_partitions(broker, BIG)
    assert sizes(broker, max_bytes=2 * len(BIG) + 100) == {0: len(BIG), 1: len(BIG), 2: 0}
    assert sizes(broker) == {0: len(BIG), 1: len(BIG), 2: len(BIG)}


def test_fetch_max_bytes_of_the_broker() -> None:
    broker = MemoryBroker({"t": 3}, {"fetch.max.bytes": str(60_000)})
    three_partitions(broker, BIG)
    assert sizes(broker) == {0: len(BIG), 1: 0, 2: 0}


def test_a_partition_named_twice_is_answered_once(broker: MemoryBroker) -> None:
    produce(broker, "t", ONE)
    request = fetch_request("t", {0: 0})
    request.topics.append(FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)]))
    answer = call(broker, "fetch", 12, request)
    assert [len(topic.partitions) for topic in answer.responses] == [1]


# Waiting


def wait(broker: MemoryBroker, *asked: dict[int, int], **options: Any) -> Promise[Any]:
    answer = call(broker, "fetch", 12, fetch_request("t", asked[0] if asked else {0: 0}, max_wait_ms=500, **options))
    assert isinstance(answer, Promise), answer
    return answer


def result(answer: Promise[Any]) -> Any:
    """The data of its one partition."""
    ((data,),) = (topic.partitions for topic in read("fetch", 12, answer.result()).responses)
    return data


@in_loop
async def test_a_long_poll_is_woken_by_a_produce(broker: MemoryBroker) -> None:
    answer = wait(broker)
    broker.clock.advance(0.3)
    produce(broker, "t", ONE, index=1)  # not what it waits for
    broker.clock.advance()
    assert not answer.done()
    produce(broker, "t", ONE)
    produce(broker, "t", ONE)
    broker.clock.advance()
    assert offsets(result(answer)) == [0, 1]
    assert watermarks(result(answer)) == (2, 2, 0)


@in_loop
async def test_a_long_poll_ends_with_nothing_when_its_time_is_over(broker: MemoryBroker) -> None:
    answer = wait(broker)
    broker.clock.advance(0.499)
    assert not answer.done()
    broker.clock.advance(0.002)
    assert bytes(result(answer).records) == b""


@in_loop
async def test_min_bytes_count_over_all_partitions(broker: MemoryBroker) -> None:
    answer = wait(broker, {0: 0, 1: 0}, min_bytes=2 * len(ONE))
    produce(broker, "t", ONE)
    broker.clock.advance()
    assert not answer.done()
    produce(broker, "t", ONE, index=1)
    broker.clock.advance()
    data = read("fetch", 12, answer.result()).responses[0].partitions
    assert [offsets(each) for each in data] == [[0], [0]]


@in_loop
async def test_too_little_is_answered_at_the_end(broker: MemoryBroker) -> None:
    produce(broker, "t", ONE)
    answer = wait(broker, min_bytes=1 << 19)
    broker.clock.advance(0.6)
    assert offsets(result(answer)) == [0]


@pytest.mark.parametrize(
    "options", [{"max_wait_ms": 0}, {"min_bytes": 0, "max_wait_ms": 500}, {"max_bytes": 0, "max_wait_ms": 500}]
)
def test_no_reason_to_wait(broker: MemoryBroker, options: dict[str, int]) -> None:
    assert fetch(broker, "t", **options).error_code == ErrorCode.NONE


def test_an_error_is_answered_at_once(broker: MemoryBroker) -> None:
    produce(broker, "t", ONE)
    broker.elect("t", leader=1)
    produce(broker, "t", ONE)
    assert fetch(broker, "t", 99, max_wait_ms=500).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(broker, "t", 2, max_wait_ms=500, last_fetched_epoch=0).diverging_epoch is not None
    assert fetch(broker, "nope", max_wait_ms=500).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # nothing else to wait for
    assert call(broker, "fetch", 12, fetch_request("t", {}, max_wait_ms=500)).responses == []


@in_loop
async def test_an_unknown_topic_beside_a_known_one_waits(broker: MemoryBroker) -> None:
    request = fetch_request("t", {0: 0}, max_wait_ms=500)
    request.topics.append(FetchTopic("nope", partitions=[FetchPartition(0)]))
    answer = call(broker, "fetch", 12, request)
    assert isinstance(answer, Promise)
    produce(broker, "t", ONE)
    broker.clock.advance()
    found = read("fetch", 12, answer.result()).responses
    assert [(topic.topic, topic.partitions[0].error_code) for topic in found] == [("t", 0), ("nope", 3)]


@in_loop
async def test_deletion_and_a_new_leader_end_the_waiting(broker: MemoryBroker) -> None:
    answer = wait(broker)
    broker.delete_topic("t")
    broker.clock.advance()
    assert result(answer).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create_topic("u")
    answer = call(broker, "fetch", 12, fetch_request("u", {0: 0}, max_wait_ms=500, current_leader_epoch=0))
    broker.elect("u", leader=2)
    broker.clock.advance()
    assert result(answer).error_code == ErrorCode.FENCED_LEADER_EPOCH


# Sessions, through the handler


@in_loop
async def test_an_incremental_fetch_waits_on_the_whole_session(broker: MemoryBroker) -> None:
    full = call(broker, "fetch", 12, fetch_request("t", {0: 0, 1: 0}, session=(0, 0)))
    assert full.session_id > 0
    answer = wait(broker, {}, session=(full.session_id, 1))
    produce(broker, "t", ONE, index=1)
    broker.clock.advance()
    news = read("fetch", 12, answer.result())
    assert news.session_id == full.session_id
    assert [[data.partition_index for data in topic.partitions] for topic in news.responses] == [[1]]


def test_a_session_that_is_not_there(broker: MemoryBroker) -> None:
    answer = call(broker, "fetch", 12, fetch_request("t", {0: 0}, session=(12345, 1)))
    assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])


def test_a_session_remembers_the_name_of_a_topic_that_is_gone(broker: MemoryBroker) -> None:
    """As Kafka's: without a session the id is unknown, in one that knew the topic its partition is."""
    full = call(broker, "fetch", 13, fetch_request("t", {0: 0}, 13, session=(0, 0)))
    broker.delete_topic("t")
    gone = call(broker, "fetch", 13, fetch_request("t", {}, 13, session=(full.session_id, 1)))
    assert gone.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(broker, "t", version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_small_limits_give_every_partition_its_turn(broker: MemoryBroker) -> None:
    for _ in range(4):
        three_partitions(broker, BIG)
    session = call(broker, "fetch", 12, fetch_request("t", {0: 0, 1: 0, 2: 0}, session=(0, 0), max_bytes=0)).session_id
    turns = []
    for epoch in range(1, 7):
        answer = call(broker, "fetch", 12, fetch_request("t", {}, session=(session, epoch), max_bytes=0))
        turns += [data.partition_index for topic in answer.responses for data in topic.partitions if data.records]
    assert turns == [0, 1, 2, 0, 1, 2]


def test_what_went_out_is_counted_by_topic_once_it_is_answered(broker: MemoryBroker) -> None:
    async def scenario() -> None:
        records = batch(3)
        produce(broker, "t", records)
        traffic = broker.replicas.traffic["t"]
        waiting = call(broker, "fetch", 12, fetch_request("t", {0: 0}, max_wait_ms=1000, min_bytes=len(records) + 1))
        assert (traffic.bytes_out, traffic.fetches) == (0, 1)
        produce(broker, "t", records)
        broker.clock.advance()
        assert waiting.done()
        assert (traffic.bytes_out, traffic.fetches, traffic.failed_fetches) == (2 * len(records), 2, 0)
        fetch(broker, "t", offset=99)
        assert (traffic.bytes_out, traffic.failed_fetches) == (2 * len(records), 1)

    asyncio.run(scenario())


def test_which_transactions_are_listed_as_aborted(broker: MemoryBroker) -> None:
    """As in Kafka also where no bytes are left for a partition; null where its first batch does not fit."""
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    replica.append(batch(3, producer=(7, 0, 0), transactional=True))
    append_marker(replica.log, producer_id=7, producer_epoch=0, commit=False, coordinator_epoch=0, leader_epoch=0)
    produce(broker, "t", ONE, index=1)

    def aborted_with(*, max_bytes: int = 1 << 20, partition_max_bytes: int = 1 << 20) -> list[tuple[int, int]] | None:
        """Of partition 0, after partition 1, which gets its batch in any case."""
        wanted = fetch_request("t", {1: 0, 0: 0}, isolation_level=1, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes)
        (topic,) = call(broker, "fetch", 12, wanted).responses
        (data,) = (each for each in topic.partitions if each.partition_index == 0)
        aborted = data.aborted_transactions
        return None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted]

    assert aborted_with() == [(7, 0)]
    assert aborted_with(max_bytes=1) == [(7, 0)]
    assert aborted_with(partition_max_bytes=0) == [(7, 0)]
    assert aborted_with(max_bytes=len(ONE) + 1) is None
