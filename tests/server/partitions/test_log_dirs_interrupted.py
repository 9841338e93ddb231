"""These tests interrupt moves between log directories by a stop, a kill or a power cut: no record is lost, and the moves are
finished later.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from ottla.log.disk.checkpoint import encode_partition_metadata
from ottla.server.broker.broker import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.fakes import CALLER
from tests.log.support import batch
from tests.memdisk import PowerCut
from tests.server.broker.whole_broker import config
from tests.server.partitions.two_directories import (
    ONE,
    TWO,
    alter,
    append,
    contents,
    created,
    described,
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


@pytest.mark.parametrize("clean", [True, False])
def test_a_move_survives_a_restart(clean: bool) -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage, replica_alter_log_dirs_io_max_bytes_per_second="1")
        await created(broker)
        for _ in range(3):
            append(broker, batch(3, value=b"x" * 300_000))
        was, before = place(broker), contents(log_of(broker))
        alter(broker, other(was))
        await until(lambda: described(broker)[other(was)][0].offset_lag < 9)
        if clean:
            await broker.stop()
        else:
            await broker._close(clean=False)
        broker = await started(storage)
        await moved(broker, other(was))
        assert contents(log_of(broker)) == before
        assert directory_in_metadata(broker) == other(was)
        await broker.stop()
        assert not names(storage, was, "-future") + names(storage, other(was), "-future")

    run(scenario)


@pytest.mark.parametrize("how", ["called off", "deleted"])
def test_a_move_that_a_start_found_ends_at_once(how: str) -> None:
    """Whatever the start has done with the copy by then, its removal does no harm to a directory."""

    async def one(count: int) -> None:
        storage = disk()
        broker = await started(storage, replica_alter_log_dirs_io_max_bytes_per_second="1")
        await created(broker)
        for _ in range(3):
            append(broker, batch(3, value=b"x" * 300_000))
        was = place(broker)
        alter(broker, other(was))
        await until(lambda: described(broker)[other(was)][0].offset_lag < 9)
        await broker.stop()
        broker = Broker(config(log_dirs=f"{ONE},{TWO}", replica_alter_log_dirs_io_max_bytes_per_second="1"), disk=storage)
        await broker.start()
        await turns(count)
        assert broker.context is not None
        if how == "deleted":
            await broker.context.controller.delete_topics(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000), CALLER)
        else:
            assert alter(broker, was) == [0]
            assert place(broker) == was
        assert broker.context.log_dirs is not None
        moves = list(broker.context.log_dirs._moves.values())
        await broker.stop()
        assert not [error for move in moves if not move.cancelled() and (error := move.exception()) is not None]
        assert [directory.failed for directory in broker.context.replicas.logs.directories] == [None, None]
        assert not [name for path in (ONE, TWO) for name in names(storage, path, "-future")]

    async def scenario() -> None:
        for count in range(4):
            await one(count)

    run(scenario)


@pytest.mark.parametrize("losing", [None, 1])
def test_a_power_cut_at_any_step_of_a_move_loses_nothing(losing: int | None) -> None:
    """The records were synced before; wherever the move was interrupted, the next starts have all of them, once,
    and finish it.
    """

    async def one(step: int) -> bool:
        storage = disk()
        broker = await started(storage)
        await created(broker)
        append(broker, batch(3, value=b"x" * 1000))
        append(broker, batch(3, value=b"y" * 1000))
        log_of(broker).flush()
        was, before = place(broker), contents(log_of(broker))
        await broker.stop()
        broker = await started(storage)
        storage.stop_after(step)
        done = False
        try:
            alter(broker, other(was))
            assert broker.context is not None
            assert broker.context.log_dirs is not None
            task = next(iter(broker.context.log_dirs._moves.values()))
            await asyncio.wait([task])
            error = task.exception()
            if error is not None:
                raise error
            done = place(broker) == other(was)
        except PowerCut:
            pass
        storage.stop_after(None)
        for listener in broker.listeners:
            listener.stop_accepting()
            await listener.close(0)
        assert broker._scheduler is not None
        await broker._scheduler.stop()
        storage.crash(None if losing is None else Random(losing + step))
        broker = await started(storage)
        assert broker.context is not None
        logs = broker.context.replicas.logs
        await until(lambda: not logs.futures)
        assert contents(log_of(broker)) == before
        assert directory_in_metadata(broker) == place(broker)
        await broker.stop()
        assert not [name for path in (ONE, TWO) for name in names(storage, path, "-future")]
        return done

    async def scenario() -> None:
        for step in range(1, 400):
            if await one(step):
                assert step > 20
                return
        raise AssertionError("it never came to its end")

    run(scenario)


@pytest.mark.parametrize("how", ["it is another's", "its disk fails"])
def test_a_copy_that_should_be_the_log_and_cannot_be_opened_keeps_nobody_else_from_starting(how: str) -> None:
    async def scenario() -> None:
        storage = disk()
        broker = await started(storage)
        await created(broker, partitions=2)
        index = next(index for index in range(2) if place(broker, index=index) == TWO)  # the metadata is in the other
        await broker.stop()
        copy = f"{TWO}/t-{index}.{'5' * 32}-future"  # a crash came before it had its name
        storage.rename(f"{TWO}/t-{index}", copy)
        if how == "it is another's":
            storage.write_bytes(f"{copy}/partition.metadata", encode_partition_metadata(b"another's topic."))
        else:
            storage.fail("list", path=copy)
        broker = await started(storage)
        assert broker.context is not None
        assert broker.context.replicas.get("t", index) is None
        assert broker.context.replicas.why_missing("t", index) is ErrorCode.KAFKA_STORAGE_ERROR
        assert place(broker, index=1 - index) == ONE
        assert storage.is_dir(copy)
        await broker._close(clean=False)

    run(scenario)
