"""The lives of the broker of one test: it is restarted, reset to nothing and put back to a snapshot, and keeps its address.

Each life is a Broker of its own, with a clock of its own, so that nothing of an earlier one can come back. A life that goes on
(`restart`) begins with the same files at the same time; one that begins anew (`reset`) has none, and the clock shows real time
again.

A broker that is killed here is closed without a word to its clients, and writes nothing more: its files are what `kill -9` would
leave, and the next start recovers them. If its power is cut, it also loses what was not synced, for which its disk has to be in
memory (memory_disk.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.server.base.clock import wait_at_most
from ottla.server.base.randomness import from_system
from ottla.server.broker.broker import Broker
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.testkit.disk.disk_faults import DiskFaults
from ottla.server.testkit.disk.faulty_disk import FaultyDisk
from ottla.server.testkit.disk.memory_disk import MemoryDisk, remove_for_good
from ottla.server.testkit.fields import Refused, nearest
from ottla.server.testkit.lives.copies import copy_tree
from ottla.server.testkit.lives.ports import KeptPorts
from ottla.server.testkit.lives.steered import Moment, SteeredClock

if TYPE_CHECKING:
    from random import Random

    from ottla.log.disk.files import Disk
    from ottla.server.base.clock import Clock
    from ottla.server.broker.broker import Around
    from ottla.server.requests.context import BrokerContext
    from ottla.server.testkit.lives.archives import Archive
    from ottla.server.testkit.lives.copies import Link
    from ottla.server.testkit.lives.homes import Home
    from ottla.server.testkit.nodes.nodes import Nodes

COPY_ATTEMPTS: Final = 3
"""The most times that a copy is begun anew because the cleaner's process has renamed a file meanwhile."""
REAL_TIME: Final = Moment()


class Snapshot(NamedTuple):
    """A copy of the log directories."""

    directories: list[str]
    moment: Moment
    """The moment at which the clock stood."""
    files: int
    readers: set[object]
    """The readers that it has at present, for an archive."""


class Lives:
    """The broker of one test, over all its lives; see the module's docstring.

    `clock` is that of real time; `around` is what each life has around its requests. `config` and `cluster_id` are those of the
    first life; the former says how many nodes the broker simulates. `home` is where its log directories are, `link` gives a file
    a second name if the disk can.
    """

    def __init__(
        self,
        clock: Clock,
        random: Random | None,
        around: Around | None,
        config: BrokerConfig,
        disk: Disk,
        home: Home,
        *,
        cluster_id: str | None = None,
        link: Link | None = None,
    ) -> None:
        self._real_clock = clock
        self._random = random
        self._around = around
        self._config = config
        self._disk = disk
        self.disk_faults = DiskFaults()
        """The faults that a test has given the disk. The copies of snapshots do not meet it."""
        self._home = home
        self._cluster_id = cluster_id
        self._link = link
        self._network = KeptPorts()
        self.nodes: Nodes | None = None
        """The nodes that it simulates; None if it is one broker."""
        if config.values["ottla.test.nodes"] > 1:
            from ottla.server.testkit.nodes import nodes

            self._config = _changed(config, {**nodes.defaults(config.values["ottla.test.nodes"]), **config.texts})
            self.nodes = nodes.Nodes(self._config, self._network)
        self._broker: Broker | None = None
        self._why_down = "it was not started"
        self._clock = SteeredClock(clock)
        self._goes_on_at: Moment | None = None
        """The moment at which the next life begins if it goes on with the files of the last one; None if there is nothing to go
        on with."""
        self._snapshots: dict[str, Snapshot] = {}
        self._made = 0  # so many snapshots, deleted ones included
        self._turn = asyncio.Lock()  # one thing happens to it at a time
        self._stopping = asyncio.Event()
        self.offline = asyncio.Event()
        """Set when any life cannot go on; see Broker.offline."""
        self.failure: str | None = None
        """The reason why the last life that ended could not go on in its cluster."""
        self.on_change: Callable[[], object] | None = None
        """Is called when a life has begun or ended."""

    @property
    def network(self) -> KeptPorts:
        """The network that keeps its ports."""
        return self._network

    @property
    def broker(self) -> Broker:
        """The broker that lives. Raises Refused if none does."""
        if self._broker is None:
            raise Refused(f"the broker is down: {self._why_down}", HTTPStatus.CONFLICT)
        return self._broker

    @property
    def context(self) -> BrokerContext:
        """The context from which the broker that lives serves requests. Raises Refused if none does."""
        context = self.broker.context
        assert context is not None  # it has been started
        return context

    @property
    def clock(self) -> SteeredClock:
        """The clock of the present life."""
        return self._clock

    @property
    def home(self) -> Home:
        """The home in which it lives."""
        return self._home

    @property
    def turn(self) -> asyncio.Lock:
        """Held by whoever moves the broker or its clock."""
        return self._turn

    async def start(self) -> None:
        """Begins the first life. Raises what Broker.start raises; nothing is left open then."""
        try:
            if self.nodes is not None:
                random = self._random or from_system()
                self._cluster_id = self.nodes.choose_cluster_id(
                    self._disk, self._config, self._cluster_id or self._config.cluster_id, random
                )
            await self._begin(REAL_TIME)
        except BaseException:
            self._network.close()
            raise

    async def stop(self, *, clean: bool = True) -> None:
        """Ends the last life, if there is one, and gives up the ports; none begins any more. Raises StorageError if a clean stop
        fails."""
        self._stopping.set()
        async with self._turn:
            try:
                await self._end(clean=clean)
            finally:
                self._network.close()
                await self._home.close()

    async def restart(self, *, clean: bool, down_ms: int = 0, meanwhile: Callable[[], object] | None = None) -> None:
        """Ends the present life, if there is one, and begins another one on the same files, `down_ms` later, in real time;
        `meanwhile` is called when it has ended. Raises what a start raises; the broker is down then, and can be restarted. Raises
        Refused if it is down and its files are no whole life's."""
        async with self._turn:
            if self._broker is not None:
                self._goes_on_at = self.clock.moment
            elif self._goes_on_at is None:
                _ = self.broker  # raises Refused: only a reset or a restore begins anew
            await self._end(clean=clean)
            if meanwhile is not None:
                meanwhile()
            if down_ms:
                await self._stay_down(down_ms)
            await self._begin(self._goes_on_at or REAL_TIME)

    async def _stay_down(self, down_ms: int) -> None:
        """Returns after that time, or as soon as it is being stopped."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await wait_at_most(self._real_clock, down_ms / 1000, (stopping,))
        finally:
            stopping.cancel()

    async def cut_power(self, random: Random, *, down_ms: int = 0) -> None:
        """Restarts it as if the power were cut: what was not synced is lost, as far as `random` says. Raises Refused if the disk
        is not in memory, and what `restart` raises."""
        disk = self._disk
        if not isinstance(disk, MemoryDisk):
            raise Refused(
                "a power cut needs a disk in memory, because the system does not take back what was written to its own; "
                'start the broker with Broker(disk="memory") or --test-disk memory',
                HTTPStatus.CONFLICT,
            )
        await self.restart(clean=False, down_ms=down_ms, meanwhile=lambda: disk.crash(random))

    async def reset(self) -> None:
        """Ends the present life and begins one with nothing in it. Raises Refused if the directories hold data of others."""
        self._home.check()
        async with self._turn:
            await self._move()
            if self.nodes is not None:
                self.nodes.reset()
            await self._begin(REAL_TIME)

    async def restore(self, name: str) -> None:
        """Ends the present life and begins one with the files of a snapshot, at its time. Raises Refused."""
        self._home.check()
        async with self._turn:
            snapshot = self._find(name)
            await self._move()
            for source, target in zip(snapshot.directories, self._config.all_log_dirs, strict=True):
                self._copy(source, target)
            await self._begin(snapshot.moment)

    # Snapshots

    @property
    def snapshots(self) -> Mapping[str, Snapshot]:
        """All snapshots by name."""
        return self._snapshots

    async def snapshot(self, name: str | None = None) -> str:
        """Copies the log directories between two turns of the event loop, and returns the name of the snapshot, a free one if
        none is given. Raises Refused if there is one of this name, and OSError."""
        async with self._turn:
            _, name = self.broker, name or self._free_name()
            if name in self._snapshots:
                raise Refused(f"there is a snapshot {name!r} already; delete it first, or use another name", HTTPStatus.CONFLICT)
            self._made += 1
            place = f"{self._home.snapshots}/{self._made}"
            for attempt in range(COPY_ATTEMPTS):
                directories = [f"{place}-{attempt}-{index}" for index in range(len(self._config.all_log_dirs))]
                try:
                    copied = sum(map(self._copy, self._config.all_log_dirs, directories))
                    break
                except OSError as error:
                    for directory in directories:
                        remove_for_good(self._disk, directory)
                    if not isinstance(error, FileNotFoundError) or attempt + 1 == COPY_ATTEMPTS:
                        raise
            self._snapshots[name] = Snapshot(directories, self.clock.moment, copied, set())
            return name

    def _copy(self, source: str, target: str) -> int:
        """Copies a directory, and returns how many files. No power cut takes the copy away."""
        copied = copy_tree(self._disk, source, target, self._link)
        if isinstance(self._disk, MemoryDisk):
            self._disk.sync_tree(target)
        return copied

    def _free_name(self) -> str:
        numbers = range(1, len(self._snapshots) + 2)
        return next(name for name in map("snapshot-{}".format, numbers) if name not in self._snapshots)

    def check_restore(self, name: str) -> None:
        """Raises Refused if `restore` would."""
        self._home.check()
        self._find(name)

    def archive(self, name: str) -> Archive:
        """Returns an archive of a snapshot. Raises Refused if there is none of this name."""
        from ottla.server.testkit.lives.archives import Archive  # with tarfile, which few tests need

        snapshot = self._find(name)
        return Archive(self._disk, snapshot.directories, snapshot.readers)

    def delete_snapshot(self, name: str) -> Snapshot:
        """Deletes a snapshot and returns it. Raises Refused if there is none of this name, or if it is being archived."""
        snapshot = self._find(name)
        if snapshot.readers:
            raise Refused(
                f"the snapshot {name!r} is being archived; read the archive to its end or close it, and delete it then",
                HTTPStatus.CONFLICT,
            )
        del self._snapshots[name]
        for directory in snapshot.directories:
            remove_for_good(self._disk, directory)
        return snapshot

    def _find(self, name: str) -> Snapshot:
        if name not in self._snapshots:
            raise Refused(f"there is no snapshot {name!r}{nearest(name, self._snapshots)}", HTTPStatus.NOT_FOUND)
        return self._snapshots[name]

    # A life

    async def _move(self) -> None:
        """Ends the present life, if there is one, and makes empty directories the next one's. Raises Refused if there is to be
        no next one."""
        self._check_not_stopping()
        await self._end(clean=False)
        self._goes_on_at = None
        old = self._config.all_log_dirs
        new = dict(zip(old, await self._home.move(old), strict=True))
        texts = {"log.dirs": ",".join(new[path] for path in self._config.log_dirs)}
        if self._config.values["metadata.log.dir"]:
            texts["metadata.log.dir"] = new[self._config.metadata_log_dir]
        self._config = _changed(self._config, texts)

    def _check_not_stopping(self) -> None:
        """Raises Refused if no life is to begin any more."""
        if self._stopping.is_set():
            self._why_down = "it is being stopped"
            raise Refused(f"the broker is down: {self._why_down}", HTTPStatus.CONFLICT)

    async def _begin(self, moment: Moment) -> None:
        self._check_not_stopping()
        self._goes_on_at = moment
        clock = self._clock = SteeredClock(self._real_clock, moment)
        broker = Broker(
            self._config,
            cluster_id=self._cluster_id,
            disk=FaultyDisk(self._disk, self.disk_faults),
            clock=clock,
            random=self._random,
            network=self._network,
            around=self._around,
            nodes=self.nodes,
        )
        broker.offline = self.offline
        try:
            await broker.start()
        except BaseException as error:
            clock.end()
            self._why_down = f"it could not be started: {error}"
            raise
        self._broker = broker
        self.keep_address()
        if self.nodes is not None:
            self.nodes.started()
        self._tell()

    def keep_address(self) -> None:
        """Gives all later lives the cluster id and the ports of this one."""
        broker = self.broker
        self._cluster_id = broker.cluster_id
        ports = {listener.name: listener.port for listener in (*broker.listeners, *broker.controller_listeners)}
        addresses = [address._replace(port=ports.get(address.name, address.port)) for address in self._config.all_listeners]
        texts = {"listeners": ",".join(map(str, addresses))}
        kept = set(ports.values())
        if broker.metrics_url is not None:
            texts["ottla.metrics.port"] = broker.metrics_url.rpartition(":")[2]
            kept.add(int(texts["ottla.metrics.port"]))
        if self.nodes is not None:
            kept |= self.nodes.ports
        self._network.keep_only(kept)
        self._config = _changed(self._config, texts)

    async def _end(self, *, clean: bool) -> None:
        broker, self._broker = self._broker, None
        if broker is None:
            return
        self._why_down, self.failure = "it was stopped", broker.failure
        clock = self._clock
        clock.resume()  # the end waits for running requests, but not for ever
        try:
            await (broker.stop() if clean else broker.drop())
        finally:
            clock.end()
            self._tell()

    def _tell(self) -> None:
        if self.on_change is not None:
            self.on_change()


def _changed(config: BrokerConfig, texts: Mapping[str, str]) -> BrokerConfig:
    """Returns the configuration with some settings changed."""
    return BrokerConfig.from_mapping({**config.texts, **texts}, config.cluster_id)[0]
