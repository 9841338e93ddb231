"""One simulated world: a virtual clock, a disk and a network in memory, and the broker that lives and dies on them.

A broker's life ends in one of four ways. `stop`: cleanly. `kill`: the process is gone, the page cache stays. `cut_power`: what
was not synced is lost, as far as the seed says. And the broker itself may find that its disk does not work; then its process
ends. A life that is over leaves code on the loop. It can do no harm: its clock has stopped, its network is dead, and the next
life works on another disk, a copy of what was left at that moment.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import logging
import os
import traceback
from collections.abc import Callable
from random import Random
from typing import Any, Final

from compat_tests.anomalies.history import OF_CLIENTS_ONLY, Recorder
from ottla.log.errors import LogError
from ottla.server.base.randomness import from_seed
from ottla.server.broker.broker import Broker
from ottla.server.settings.broker_config import BrokerConfig
from tests.memdisk import MemDisk
from tests.memloss import random_choice
from tests.sim.client import Client
from tests.sim.loop import LIFE, VirtualClock, VirtualLoop
from tests.sim.network import HOST, Port

CLUSTER_ID: Final = "c2ltdWxhdGVkLWNsdXN0ZQ"
SETTINGS: Final = {
    "node.id": "1",
    "log.dirs": "/data",
    "listeners": f"PLAINTEXT://{HOST}:{Port.NUMBER}",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "num.recovery.threads.per.data.dir": "1",  # no threads, not even when the broker starts or stops
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.cleaner.backoff.ms": "700",
    "log.cleaner.dedupe.buffer.size": "1100000",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.flush.start.offset.checkpoint.interval.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "log.segment.delete.delay.ms": "500",
}
_ALWAYS: Final = ("i", "t", "p", "op", "type", "f")


class World:
    """See the module's docstring. `every_flush`: an append is acknowledged after its fsync, so that not even a power cut may lose
    it.
    """

    def __init__(self, seed: int, loop: VirtualLoop, *, every_flush: bool, settings: dict[str, str] | None = None) -> None:
        self.seed = seed
        self.loop = loop
        self.every_flush = every_flush
        self.recorder = Recorder(self.now_ns, self._note_event)
        self.said: Callable[[str], None] | None = None
        """Called with a line for everything that happens, for people."""
        self.lives = 0
        self.broker: Broker | None = None
        """The broker that serves now; None while there is none."""
        self.quiet = False
        """Set once nothing may be broken any more."""
        self.bugs: list[str] = []
        """What went wrong inside the broker although no client may have seen it: unhandled exceptions."""
        self._settings = SETTINGS | (settings or {}) | ({"log.flush.interval.messages": "1"} if every_flush else {})
        self._disk_random = self.random("disk")
        self._sectors = self._disk_random.choice((64, 512))
        self._ordered = self._disk_random.random() < 0.5
        self.disk = MemDisk(sector_bytes=self._sectors, ordered_names=self._ordered)
        self.port = Port(loop, self.random("network"), contextvars.copy_context())
        self.clock = VirtualClock(loop)
        self._over = asyncio.Event()
        self._skew_ms = 0
        self._processes = 0
        self._done_by_itself: dict[int, bool] = {}
        self.last_ok: dict[int, int] = {}
        """The number of the last event that said that a process had success, by process."""

    def random(self, name: str) -> Random:
        """Returns a generator of its own for each purpose, so that a draw more in one place changes nothing in another."""
        return Random(f"{self.seed}/{name}")

    def now_ns(self) -> int:
        return round(self.loop.time() * 1_000_000_000)

    def say(self, text: str) -> None:
        if self.said is not None:
            self.said(f"{self.loop.time():9.4f}  {text}")

    def _note_event(self, event: dict[str, Any]) -> None:
        if event["type"] == "invoke":
            self._done_by_itself[event["op"]] = event["f"] in OF_CLIENTS_ONLY
        elif event["type"] == "ok" and not self._done_by_itself[event["op"]]:
            self.last_ok[event["p"]] = event["i"]
        if self.said is not None:
            fields = " ".join(f"{name}={value}" for name, value in event.items() if name not in _ALWAYS)
            self.say(f"{event['i']:5} process {event['p']:2}  {event['op']:4} {event.get('f', ''):9} {event['type']:6} {fields}")

    def process(self) -> int:
        """Returns the number of a new process."""
        self._processes += 1
        return self._processes

    def client(self, name: str) -> Client:
        return Client(self.loop, lambda: self.port, name)

    # The broker's lives

    async def keep_running(self) -> None:
        """Starts the broker, and starts it again whenever a life is over, until the task is cancelled."""
        while True:
            await self._live()
            await asyncio.sleep(self._disk_random.choice((0.01, 0.3, 2.0)))

    async def _live(self) -> None:
        """One life, from the start to its end."""
        self.lives += 1
        life = self.lives
        context = contextvars.copy_context()
        context.run(LIFE.set, life)
        self.clock = VirtualClock(self.loop)
        self.clock.skew_ms = self._skew_ms
        self.disk.now_ms = self.clock.now_ms
        self.port = Port(self.loop, self.random(f"network {life}"), context)
        self._over = over = asyncio.Event()
        config, unknown = BrokerConfig.from_mapping(self._settings)
        assert not unknown, unknown
        random = from_seed(self.random(f"broker {life}").getrandbits(64))
        broker = Broker(config, cluster_id=CLUSTER_ID, disk=self.disk, clock=self.clock, random=random, network=self.port)
        self.say(f"life {life} begins")
        starting = self.loop.create_task(broker.start(), context=context)
        starting.add_done_callback(_retrieve)
        ended = asyncio.ensure_future(over.wait())
        await asyncio.wait((starting, ended), return_when=asyncio.FIRST_COMPLETED)
        if not over.is_set():
            error = starting.exception()
            if error is not None:
                self.say(f"life {life} could not begin: {error}")
                if not isinstance(error, LogError | OSError):
                    self.bugs.append(f"the start failed: {error!r}")
                self.kill()
            else:
                self.say(f"life {life} serves")
                self.broker = broker
                offline = self.loop.create_task(broker.offline.wait(), context=context)
                await asyncio.wait((offline, ended), return_when=asyncio.FIRST_COMPLETED)
                if not over.is_set():
                    self.say("the broker ends because its disk does not work")
                    self._end(self.disk.crashed(random_choice(self._disk_random)) if self.every_flush else self.disk.killed())
        self.broker = None

    def _end(self, left: MemDisk) -> None:
        """Ends the life under way now; the next one begins with the disk `left`."""
        self.clock.alive = False
        self.port.die()
        self.disk = left
        self.broker = None
        self._over.set()

    def kill(self) -> None:
        """Kills the process."""
        if not self._over.is_set():
            self.say(f"life {self.lives} is killed")
            self._end(self.disk.killed())

    def cut_power(self) -> None:
        """Cuts the power."""
        if not self._over.is_set():
            self.say(f"the power is cut in life {self.lives}")
            self._end(self.disk.crashed(random_choice(self._disk_random)))

    def crash(self) -> None:
        """Ends the life in the worst way that nothing acknowledged may be lost in."""
        if self.every_flush and self._disk_random.random() < 0.6:
            self.cut_power()
        else:
            self.kill()

    async def stop(self) -> None:
        """Stops the broker cleanly, if it serves; another life may end it on the way."""
        broker, over = self.broker, self._over
        if broker is None:
            return
        self.say(f"life {self.lives} is stopped")
        self.broker = None
        stopping = self.loop.create_task(broker.stop(), context=self.port.context)
        stopping.add_done_callback(_retrieve)
        ended = asyncio.ensure_future(over.wait())
        await asyncio.wait((stopping, ended), return_when=asyncio.FIRST_COMPLETED)
        if over.is_set():
            return
        error = stopping.exception()
        if error is not None and not isinstance(error, LogError | OSError):
            self.bugs.append(f"the stop failed: {error!r}")
        self._end(self.disk.killed())

    # Faults of the disk and the clock

    def crash_at(self, changes: int) -> None:
        """Crashes at the change of the disk after the next `changes` ones."""
        disk, at = self.disk, self.disk.changes + changes

        def before_change(operation: str, path: str) -> None:
            if disk is self.disk and disk.changes >= at and not self.quiet:
                disk.before_change = None
                self.say(f"a crash before {operation} of {path}")
                self.crash()

        disk.before_change = before_change

    def fail_disk(self, random: Random) -> None:
        """Orders a fault for one of the next operations of the disk."""
        if self.every_flush and random.random() < 0.4:
            operation, code = random.choice(("sync", "append", "sync_dir", "rename")), errno.EIO
        elif random.random() < 0.6:
            operation, code = random.choice(("append", "append", "append", "write_bytes")), errno.ENOSPC
        else:
            operation, code = random.choice(("open", "open", "read_bytes", "list", "sync_dir")), errno.EMFILE
        path = random.choice(("", "/t-", "/__consumer_offsets", "/__transaction_state", "/__cluster_metadata"))
        skip, written = random.choice((0, 0, 3, 20)), random.choice((0, 0, 7, 70))
        self.say(f"the next {operation} of *{path}* but {skip} fails with {errno.errorcode[code]} after {written} bytes")
        for _ in range(random.choice((1, 1, 6))):
            self.disk.fail(operation, code, path=path, skip=skip, written=written if operation == "append" else 0)

    def set_clock(self, skew_ms: int) -> None:
        """Sets the wall clock."""
        self._skew_ms = self.clock.skew_ms = skew_ms
        self.say(f"the wall clock is set to {skew_ms:+} ms")

    def heal(self) -> None:
        """Ends all faults, those of the disk and of connections that are still open as well."""
        self.quiet = True
        self.disk._faults.clear()
        self.disk.before_change = None
        for link in list(self.port.links):
            link.cut()


def _retrieve(task: asyncio.Task[None]) -> None:
    """Takes the exception of a start or stop in which nobody may be interested any more."""
    if not task.cancelled():
        task.exception()


class Bugs(logging.Handler):
    """Collects errors of the broker's log that have a traceback: those are bugs, whatever clients see of them."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if LIFE.get() in (0, self._world.lives):
            self._world.say(f"      {record.levelname.lower()}: {record.getMessage()}")
            if record.exc_info and record.exc_info[1] is not None and record.levelno >= logging.ERROR:
                if isinstance(record.exc_info[1].__context__, GeneratorExit):
                    return  # what an earlier life had left on the loop is being collected
                where = traceback.extract_tb(record.exc_info[2])[-1]
                at = f"{os.path.basename(where.filename)}:{where.lineno}"
                self._world.bugs.append(f"{record.getMessage()}: {record.exc_info[1]!r} at {at}")
                self._world.say("".join(traceback.format_exception(record.exc_info[1])))
