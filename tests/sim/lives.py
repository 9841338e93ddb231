"""The lives of one broker, one after the other, on a disk that outlasts them.

A life ends in one of four ways. `stop`: cleanly. `kill`: the process is gone, the page cache stays. `cut_power`: what was not
synced is lost, as far as the seed says. And the broker itself may find that its disk does not work; then its process ends. A life
that is over leaves code on the loop. It can do no harm: its clock has stopped, its network is dead, and the next life works on
another disk, a copy of what was left at that moment.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final

from ottla.log.errors import LogError
from ottla.server.base.randomness import from_seed
from ottla.server.broker.broker import Broker
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.testkit.disk.power_loss import random_choice
from tests.memdisk import MemDisk
from tests.sim.loop import LIFE, VirtualClock
from tests.sim.network import Port
from tests.sim.stage import Stage

CLUSTER_ID: Final = "c2ltdWxhdGVkLWNsdXN0ZQ"
PATHS: Final = ("", "/t-", "/__consumer_offsets", "/__transaction_state", "/__cluster_metadata")
"""Parts of the paths of files whose operations may be made to fail."""
MakePort = Callable[[int, contextvars.Context], Port]
"""Returns the network of a life, of the number and the context that are given."""


class BrokerLives:
    """See the module's docstring. `loses_power`: every append is acknowledged after its fsync, so that not even a power cut may
    lose it, and a failed disk costs what was not synced. `name` tells the broker's generators from those of others.
    `ordered_names` is MemDisk's; None leaves it to chance.
    """

    def __init__(
        self,
        stage: Stage,
        settings: Mapping[str, str],
        make_port: MakePort,
        *,
        loses_power: bool,
        name: str = "",
        ordered_names: bool | None = None,
    ) -> None:
        self.away_s = 0.0
        """The time that it takes longer than usual until the next life."""
        self.life = 0
        """The number of the life under way; 0 before the first."""
        self.broker: Broker | None = None
        """The broker that serves now; None while there is none."""
        self.starting: Broker | None = None
        """The broker of the life under way, also while it does not serve yet."""
        self._stage = stage
        self._name = name
        self._settings = settings
        self._make_port = make_port
        self._loses_power = loses_power
        self.random = stage.random(f"{name}disk")
        self._sectors = self.random.choice((64, 512))
        if ordered_names is None:
            ordered_names = self.random.random() < 0.5
        self.disk = MemDisk(sector_bytes=self._sectors, ordered_names=ordered_names)
        self.port = make_port(0, contextvars.copy_context())
        self.clock = VirtualClock(stage.loop)
        self.clock_rate = 1.0
        self._over = asyncio.Event()
        self._skew_ms = 0

    @property
    def is_over(self) -> bool:
        """Returns whether there is no life under way."""
        return self._over.is_set() or not self.life

    async def keep_running(self) -> None:
        """Starts the broker, and starts it again whenever a life is over, until the task is cancelled."""
        while True:
            await self._live()
            away_s, self.away_s = self.away_s, 0.0
            await asyncio.sleep(self.random.choice((0.01, 0.3, 2.0)) + away_s)

    async def _live(self) -> None:
        """One life, from the start to its end."""
        stage, loop = self._stage, self._stage.loop
        stage.lives += 1
        life = self.life = stage.lives
        context = contextvars.copy_context()
        context.run(LIFE.set, life)
        self.clock = VirtualClock(loop, self.clock_rate)
        self.clock.skew_ms = self._skew_ms
        self.disk.now_ms = self.clock.now_ms
        self.port = self._make_port(life, context)
        self._over = over = asyncio.Event()
        config, unknown = BrokerConfig.from_mapping(self._settings)
        assert not unknown, unknown
        random = from_seed(stage.random(f"{self._name}broker {life}").getrandbits(64))
        broker = Broker(config, cluster_id=CLUSTER_ID, disk=self.disk, clock=self.clock, random=random, network=self.port)
        self.starting = broker
        stage.say(f"{self._name}life {life} begins")
        starting = loop.create_task(broker.start(), context=context)
        starting.add_done_callback(_retrieve)
        ended = asyncio.ensure_future(over.wait())
        await asyncio.wait((starting, ended), return_when=asyncio.FIRST_COMPLETED)
        if not over.is_set():
            error = starting.exception()
            if error is not None:
                stage.say(f"{self._name}life {life} could not begin: {error}")
                if not isinstance(error, LogError | OSError):
                    stage.bugs.append(f"the start failed: {error!r}")
                self.kill()
            else:
                stage.say(f"{self._name}life {life} serves")
                self.broker = broker
                offline = loop.create_task(broker.offline.wait(), context=context)
                await asyncio.wait((offline, ended), return_when=asyncio.FIRST_COMPLETED)
                if not over.is_set():
                    stage.say(
                        f"{self._name}the broker ends because it cannot go on: {broker.failure or 'its disk does not work'}"
                    )
                    self.end(self.disk.crashed(random_choice(self.random)) if self._loses_power else self.disk.killed())
        self.broker = None

    def end(self, left: MemDisk) -> None:
        """Ends the life under way now; the next one begins with the disk `left`."""
        self.clock.alive = False
        self.port.die()
        self.disk = left
        self.broker = self.starting = None
        self._over.set()

    def kill(self) -> None:
        """Kills the process."""
        if not self.is_over:
            self._stage.say(f"{self._name}life {self.life} is killed")
            self.end(self.disk.killed())

    def cut_power(self) -> None:
        """Cuts the power."""
        if not self.is_over:
            self._stage.say(f"{self._name}the power is cut in life {self.life}")
            self.end(self.disk.crashed(random_choice(self.random)))

    def crash(self) -> None:
        """Ends the life in the worst way that nothing acknowledged may be lost in."""
        if self._loses_power and self.random.random() < 0.6:
            self.cut_power()
        else:
            self.kill()

    async def stop(self) -> None:
        """Stops the broker cleanly, if it serves; something else may end it on the way."""
        broker, over = self.broker, self._over
        if broker is None:
            return
        self._stage.say(f"{self._name}life {self.life} is stopped")
        self.broker = None
        stopping = self._stage.loop.create_task(broker.stop(), context=self.port.context)
        stopping.add_done_callback(partial(self._stopped, over))  # also if whoever stops it is cancelled meanwhile
        await over.wait()

    def _stopped(self, over: asyncio.Event, stopping: asyncio.Task[None]) -> None:
        """Ends the life with its stop, unless something else has ended it on the way."""
        error = None if stopping.cancelled() else stopping.exception()
        if over.is_set():
            return
        if error is not None and not isinstance(error, LogError | OSError):
            self._stage.bugs.append(f"the stop failed: {error!r}")
        self.end(self.disk.killed())

    # Faults of the disk and the clock

    def crash_at(self, changes: int, crash: Callable[[], None]) -> None:
        """Calls `crash` at the change of the disk after the next `changes` ones, unless this life is over by then."""
        disk, at = self.disk, self.disk.changes + changes

        def before_change(operation: str, path: str) -> None:
            if disk is self.disk and disk.changes >= at and not self._stage.quiet:
                disk.before_change = None
                self._stage.say(f"{self._name}a crash before {operation} of {path}")
                crash()

        disk.before_change = before_change

    def fail_disk(self, random: Random, paths: Sequence[str] = PATHS) -> None:
        """Orders a fault for one of the next operations of the disk."""
        if self._loses_power and random.random() < 0.4:
            operation, code = random.choice(("sync", "append", "sync_dir", "rename")), errno.EIO
        elif random.random() < 0.6:
            operation, code = random.choice(("append", "append", "append", "write_bytes")), errno.ENOSPC
        else:
            operation, code = random.choice(("open", "open", "read_bytes", "list", "sync_dir")), errno.EMFILE
        path = random.choice(paths)
        skip, written = random.choice((0, 0, 3, 20)), random.choice((0, 0, 7, 70))
        text = f"the next {operation} of *{path}* but {skip} fails with {errno.errorcode[code]} after {written} bytes"
        self._stage.say(f"{self._name}{text}")
        for _ in range(random.choice((1, 1, 6))):
            self.disk.fail(operation, code, path=path, skip=skip, written=written if operation == "append" else 0)

    def set_clock(self, skew_ms: int) -> None:
        """Sets the wall clock."""
        self._skew_ms = self.clock.skew_ms = skew_ms
        self._stage.say(f"{self._name}the wall clock is set to {skew_ms:+} ms")

    def heal(self) -> None:
        """Ends all faults, those of the disk and of connections that are still open as well."""
        self.disk._faults.clear()
        self.disk.before_change = None
        for link in list(self.port.links):
            link.cut()


def _retrieve(task: asyncio.Task[None]) -> None:
    """Takes the exception of a start or stop in which nobody may be interested any more."""
    if not task.cancelled():
        task.exception()
