"""Moves between log directories that a stop, a kill or a power cut interrupted: no record is lost, and they come to their end."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from ottla.log.memdisk import PowerCut
from tests.log.support import batch
from tests.server.two_directories import (
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


@pytest.mark.parametrize("losing", [None, 1])
def test_a_power_cut_at_any_step_of_a_move_loses_nothing(losing: int | None) -> None:
    """The records were synced before; wherever the move was cut, the next starts have all of them, once, and end it."""

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
        await until(lambda: not broker.context.replicas.logs.futures)  # type: ignore[union-attr]
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
