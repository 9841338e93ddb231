"""A start that is given up: by the task that awaits it while the logs are recovered, and by a signal to `ottla serve`."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ottla.log.disk.files import File
from ottla.server.broker.broker import Broker
from ottla.server.program import serve
from tests.fakes import NOW_MS
from tests.log.support import batch
from tests.memdisk import MemDisk
from tests.server.broker.whole_broker import config, run


async def killed() -> MemDisk:
    """The disk of a broker that ended without a clean stop; topic "t" has three records."""
    disk = MemDisk(lambda: NOW_MS)
    broker = Broker(config(), disk=disk)
    await broker.start()
    assert broker.context is not None
    assert broker._logs is not None
    log = broker._logs.create("t", 0, bytes(range(16)), next(iter(broker._logs.logs.values())).config)
    for _ in range(3):
        log.append_as_leader(batch(), leader_epoch=0)
    await broker._close(clean=False)
    return disk


class StuckDisk:
    """A disk on which the log of t-0 cannot be read until `free` is set."""

    def __init__(self, disk: MemDisk, reached: threading.Event) -> None:
        self._disk = disk
        self._reached = reached
        self.free = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def open(self, path: str, create: bool = False) -> File:
        if path.endswith("t-0/00000000000000000000.log"):
            self._reached.set()
            assert self.free.wait(20)
        return self._disk.open(path, create)


def test_a_start_can_be_given_up_while_logs_are_recovered() -> None:
    async def scenario() -> None:
        disk, reached = await killed(), threading.Event()
        stuck = StuckDisk(disk, reached)
        starting = asyncio.ensure_future(Broker(config(), disk=stuck).start())
        await asyncio.get_running_loop().run_in_executor(None, reached.wait, 20)  # so the loop is free meanwhile
        assert reached.is_set()
        assert not starting.done()
        starting.cancel()
        await asyncio.sleep(0)
        stuck.free.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not disk.exists("/data/.kafka_cleanshutdown")
        again = Broker(config(), disk=disk)  # the lock is free
        await again.start()
        assert again._logs is not None
        assert any(name.startswith("t-0.") and name.endswith("-stray") for name in disk.list("/data"))  # no topic has that id
        await again.stop()

    run(scenario)


class Starting:
    """A broker whose start ends when the test wants, if at all."""

    def __init__(self, error: Exception | None = None, *, ready: bool = False) -> None:
        self._error = error
        self._ready = ready
        self.given_up = False

    async def start(self) -> None:
        if self._error is not None:
            raise self._error
        try:
            await asyncio.Event().wait() if not self._ready else None
        except asyncio.CancelledError:
            self.given_up = True
            raise


async def begin(broker: Any, stop: asyncio.Event) -> bool:
    return await serve._start(broker, stop)


def test_a_signal_ends_a_start() -> None:
    async def scenario() -> None:
        stop, broker = asyncio.Event(), Starting()
        stop.set()
        assert not await begin(broker, stop)
        assert broker.given_up

    run(scenario)


def test_without_a_signal_the_start_is_as_it_is() -> None:
    async def scenario() -> None:
        assert await begin(Starting(ready=True), asyncio.Event())
        with pytest.raises(OSError, match="no disk"):
            await begin(Starting(OSError("no disk")), asyncio.Event())

    run(scenario)
