"""These tests cover several log directories: the metadata records where each partition is, and partitions move between them."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from ottla.log.management.moving import create_future
from ottla.server.base.answers import wait_for
from ottla.server.metadata.image import BROKER, NO_LEADER, UNASSIGNED
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsPartition
from ottla.wire.messages.internal.config_record import ConfigRecord
from tests.fakes import CALLER, NOW_MS
from tests.log.support import batch
from tests.server.partitions.two_directories import (
    ONE,
    THREE,
    TWO,
    alter,
    append,
    contents,
    created,
    described,
    directory_at,
    directory_in_metadata,
    disk,
    log_of,
    moved,
    names,
    other,
    place,
    run,
    started,
    turns,
    until,
)

# Who lies where


def test_the_metadata_learns_where_new_partitions_lie() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage)
        await created(broker, partitions=6)
        places = [place(broker, index=index) for index in range(6)]
        assert sorted(places) == [ONE] * 3 + [TWO] * 3
        assert [directory_in_metadata(broker, index=index) for index in range(6)] == places
        assert broker.context is not None
        epochs = [partition.partition_epoch for partition in broker.context.metadata.topics["t"].partitions.values()]
        assert epochs == [1] * 6  # one change each: the directory
        await broker.stop()
        broker = await started(storage)
        assert [place(broker, index=index) for index in range(6)] == places
        await broker.stop()

    run(scenario)


def test_a_partition_moved_by_hand_is_found_and_reported() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage)
        await created(broker)
        append(broker, batch(3))
        was = place(broker)
        await broker.stop()
        storage.rename(f"{was}/t-0", f"{other(was)}/t-0")
        broker = await started(storage)
        assert place(broker) == directory_in_metadata(broker) == other(was)
        assert log_of(broker).log_end_offset == 3
        await broker.stop()

    run(scenario)


def test_a_directory_that_is_gone_leaves_its_partitions_without_leader_until_it_is_back() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage)
        await created(broker, partitions=2)
        for index in range(2):
            append(broker, batch(3), index=index)
        gone = next(index for index in range(2) if place(broker, index=index) == TWO)
        await broker.stop()
        broker = await started(storage, ONE)
        assert broker.context is not None
        partitions = broker.context.metadata.topics["t"].partitions
        assert (partitions[gone].leader, partitions[1 - gone].leader) == (NO_LEADER, 1)
        assert broker.context.replicas.get("t", gone) is None
        assert not storage.exists(f"{ONE}/t-{gone}")
        await broker.stop()
        broker = await started(storage, ONE, TWO)
        assert place(broker, index=gone) == TWO
        assert log_of(broker, index=gone).log_end_offset == 3
        assert broker.context is not None
        assert broker.context.metadata.topics["t"].partitions[gone].leader == 1
        await broker.stop()

    run(scenario)


def test_a_crash_before_the_directories_are_in_the_metadata() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage)
        assert broker.context is not None
        assert broker.context.log_dirs is not None
        broker.context.log_dirs._stopped = True  # or a slow machine makes one partition and assigns it before it makes the other
        await broker.context.controller.create_topics(CreateTopicsRequest([CreatableTopic("t", 2, 1)]), CALLER)
        await wait_for(broker.context.replicas.settled())
        partitions = broker.context.metadata.topics["t"].partitions.values()
        assert [partition.directories for partition in partitions] == [(UNASSIGNED,)] * 2
        places = [place(broker, index=index) for index in range(2)]
        await broker._close(clean=False)
        broker = await started(storage)
        assert [place(broker, index=index) for index in range(2)] == places
        assert [directory_in_metadata(broker, index=index) for index in range(2)] == places
        await broker.stop()

    run(scenario)


# Moving


@pytest.mark.parametrize("version", [1, 2])
def test_a_partition_moves_with_all_it_has(version: int) -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage)
        await created(broker, segment_bytes="1048576")
        for number in range(40):
            append(broker, batch(3, value=bytes([number]) * 30_000))
        append(broker, batch(2, producer=(77, 0, 0)))
        before, was = contents(log_of(broker)), place(broker)
        old = log_of(broker)
        bases = [segment.base_offset for segment in old.segments]
        assert len(bases) > 2
        assert alter(broker, other(was), version=version) == [0]
        assert names(storage, other(was), "-future")
        await moved(broker, other(was))
        log = log_of(broker)
        assert contents(log) == before
        assert [segment.base_offset for segment in log.segments] == bases
        assert log.producers.get(77) is not None
        assert (log.leader_epoch, log.topic_id, log.high_watermark) == (old.leader_epoch, old.topic_id, old.log_end_offset)
        assert directory_in_metadata(broker) == other(was)
        assert old.closed
        assert names(storage, was, "-delete")
        assert storage.is_dir(f"{other(was)}/t-0")
        append(broker, batch(2, producer=(77, 0, 2)))
        await broker.stop()
        broker = await started(storage)
        assert place(broker) == other(was)
        assert contents(log_of(broker))[:-1] == before
        await broker.stop()

    run(scenario)


def test_what_is_written_meanwhile_comes_along_and_a_parked_reader_is_woken() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage)
        await created(broker)
        append(broker, batch(3, value=b"x" * 300_000))
        was = place(broker)
        woken: list[bool] = []
        assert broker.context is not None
        replica = broker.context.replicas.get("t", 0)
        assert replica is not None
        alter(broker, other(was))
        total = 3
        while place(broker) == was:
            append(broker, batch(1, value=b"y" * 1000))
            replica.watchers["reader"] = lambda: woken.append(True)
            total += 1
            await asyncio.sleep(0.001)
        assert log_of(broker).log_end_offset == total
        assert woken
        append(broker, batch(1))
        assert log_of(broker).high_watermark == total + 1
        await broker.stop()

    run(scenario)


def test_answers_that_wait_for_an_fsync_have_it_in_the_copy() -> None:
    async def scenario() -> None:
        broker = await started(disk())
        await created(broker, flush_messages="1")
        old, was = log_of(broker), place(broker)
        assert broker.context is not None
        replica = broker.context.replicas.get("t", 0)
        assert replica is not None
        future = create_future(
            directory_at(broker, other(was)), old, broker.context.replicas.logs.opening_of_future("t", 0, None)
        )
        broker.context.replicas.logs.futures["t", 0] = future
        replica.append(batch(3))
        told: list[Any] = []
        broker.context.flushing().when_durable(replica, 3, told.append)
        while (found := future.next_read()) is not None:
            list(future.take(found.read()))
        assert broker.context.log_dirs is not None
        broker.context.log_dirs._swap(future)
        await until(lambda: told)
        assert told == [None]
        log = log_of(broker)
        assert log is not old
        assert (log.recovery_point, log.high_watermark) == (3, 3)
        broker.context.flushing().when_durable(replica, 3, told.append)
        await until(lambda: len(told) == 2)
        await broker.stop()

    run(scenario)


def test_many_moves_take_turns() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage, num_replica_alter_log_dirs_threads="1")
        await created(broker, partitions=12)
        for index in range(12):
            append(broker, batch(3, value=bytes([index])), index=index)
        for path in (ONE, TWO):
            alter(broker, path, *range(12))
        for index in range(12):
            await moved(broker, TWO, index=index)
            assert contents(log_of(broker, index=index))[0].count(bytes([index])) >= 3
            assert directory_in_metadata(broker, index=index) == TWO
        await broker.stop()

    run(scenario)


def test_the_copy_is_described_as_a_future_one() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage, replica_alter_log_dirs_io_max_bytes_per_second="1")
        await created(broker)
        append(broker, batch(3, value=b"x" * 300_000))
        append(broker, batch(3, value=b"x" * 300_000))
        was = place(broker)
        size = log_of(broker).size_bytes
        alter(broker, other(was))
        await until(lambda: described(broker)[other(was)][0].offset_lag == 3)
        assert described(broker)[was] == [DescribeLogDirsPartition(0, size, 0, False)]
        (copy,) = described(broker)[other(was)]
        assert copy.is_future_key
        assert 0 < copy.partition_size < size
        await broker.stop()

    run(scenario)


def test_a_move_is_called_off_and_sent_elsewhere() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage, ONE, TWO, THREE, replica_alter_log_dirs_io_max_bytes_per_second="1")
        await created(broker)
        for _ in range(3):
            append(broker, batch(3, value=b"x" * 300_000))
        was = place(broker)
        first, second = [path for path in (ONE, TWO, THREE) if path != was]
        assert alter(broker, first) == [0]
        assert alter(broker, first) == [0]  # again: nothing changes
        assert len(names(storage, first, "-future")) == 1
        assert alter(broker, second) == [0]
        assert not names(storage, first, "-future")
        assert names(storage, second, "-future")
        assert alter(broker, was) == [0]
        await turns()
        assert not names(storage, second, "-future")
        assert broker.context is not None
        assert not broker.context.replicas.logs.futures
        assert place(broker) == was
        await broker.stop()

    run(scenario)


def test_refusals() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage, ONE, TWO, THREE)
        await created(broker)
        was = place(broker)
        long = "x" * 230
        assert alter(broker, "/nowhere") == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert alter(broker, f"{other(was)}/") == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert alter(broker, ONE, 0, name=long) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert alter(broker, THREE, 1, name="later") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await created(broker, "later", 2)
        assert place(broker, "later", 1) == THREE  # it was remembered
        assert broker.context is not None
        logs = broker.context.replicas.logs
        failed = next(directory for directory in logs.directories if directory.path not in (was, ONE))
        failed.fail("testing", OSError("broken"))
        assert alter(broker, failed.path) == [ErrorCode.KAFKA_STORAGE_ERROR]
        target = next(path for path in (ONE, TWO, THREE) if path not in (was, failed.path))
        assert alter(broker, target) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert alter(broker, was) == [0]
        await broker.stop()

    run(scenario)


def test_no_room_for_a_copy_leaves_nothing_and_the_next_request_begins_anew() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage)
        await created(broker)
        was = place(broker)
        target = other(was)
        storage.fail("open", errno.ENOSPC, path=f"{target}/t-0.")
        assert alter(broker, target) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert [name for name in storage.list(target) if "future" in name] == []
        append(broker, batch(3))
        storage.fail("append", errno.ENOSPC, path=f"{target}/t-0.")
        assert alter(broker, target) == [0]
        await turns(50)
        assert place(broker) == was
        assert alter(broker, target) == [0]
        await moved(broker, target)
        assert [name for name in storage.list(target) if "future" in name] == []
        await broker.stop()

    run(scenario)


@pytest.mark.parametrize("has_log", [True, False])
def test_of_several_copies_none_is_taken_for_the_log(*, has_log: bool) -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage)
        await created(broker)
        was = place(broker)
        append(broker, batch(3))
        await broker.stop()
        for digit in "ab":
            storage.makedirs(f"{was}/t-0.{digit * 32}-future")
        if not has_log:
            storage.rename(f"{was}/t-0", f"{was}/t-0.{'c' * 32}-future")
        again = await started(storage)
        assert again.context is not None
        copies = [name for name in storage.list(was) if name.endswith("-future")]
        if has_log:
            assert log_of(again).log_end_offset == 3
            assert copies == []
        else:
            assert ("t", 0) in again.context.replicas.logs.unavailable
            assert not storage.exists(f"{was}/t-0")
            assert len(copies) == 3
        await again.stop()

    run(scenario)


def test_one_directory_has_nowhere_to_go() -> None:
    async def scenario() -> None:
        broker = await started(disk(), ONE)
        await created(broker)
        assert alter(broker, ONE) == [0]
        assert alter(broker, TWO) == [ErrorCode.LOG_DIR_NOT_FOUND]
        await broker.stop()

    run(scenario)


def test_a_topic_deleted_in_the_middle() -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage, replica_alter_log_dirs_io_max_bytes_per_second="1")
        await created(broker)
        for _ in range(3):
            append(broker, batch(3, value=b"x" * 300_000))
        was = place(broker)
        alter(broker, other(was))
        assert broker.context is not None
        await broker.context.controller.delete_topics(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000), CALLER)
        assert not names(storage, other(was), "-future")
        assert not broker.context.replicas.logs.futures
        await broker.stop()

    run(scenario)


def test_the_throttle_follows_the_setting() -> None:
    async def scenario() -> None:
        broker = await started(disk(), replica_alter_log_dirs_io_max_bytes_per_second="1")
        await created(broker)
        for _ in range(3):
            append(broker, batch(3, value=b"x" * 300_000))
        was = place(broker)
        alter(broker, other(was))
        await turns(100)
        assert place(broker) == was
        assert broker.context is not None
        setting = ConfigRecord(BROKER, "1", "replica.alter.log.dirs.io.max.bytes.per.second", "100000000")
        broker.context.metadata.apply(setting)
        await moved(broker, other(was))
        await broker.stop()

    run(scenario)


def test_records_deleted_before_they_were_copied() -> None:
    async def scenario() -> None:
        broker = await started(disk(), replica_alter_log_dirs_io_max_bytes_per_second="1000000000")
        await created(broker)
        for _ in range(6):
            append(broker, batch(3, value=b"x" * 300_000))
            log_of(broker).roll()
        was = place(broker)
        alter(broker, other(was))
        log_of(broker).delete_records_before(15)
        log_of(broker).apply_retention(NOW_MS)
        await moved(broker, other(was))
        log = log_of(broker)
        assert (log.log_start_offset, log.log_end_offset) == (15, 18)
        assert len(contents(log)) == 1
        alter(broker, was)
        log.delete_records_before(18)
        await moved(broker, was)
        assert (log_of(broker).log_start_offset, log_of(broker).log_end_offset) == (18, 18)
        append(broker, batch(1))
        assert log_of(broker).log_end_offset == 19
        await broker.stop()

    run(scenario)
