"""A broker inside a test or a program of yours, on a free port and in a directory that goes with it; or a cluster beside it.

    with ottla.testing.Broker(num_partitions=3) as broker:          # a thread of its own
        Producer({"bootstrap.servers": broker.bootstrap}) ...

    async with ottla.testing.Broker() as broker:                    # the loop that is running
        AIOKafkaProducer(bootstrap_servers=broker.bootstrap) ...

It is the same broker as the command's, with the same settings, and serves when it is entered: nothing to wait for. Leaving ends
its connections, closes its logs and removes its directory. Where ottla is installed, pytest has the fixture `kafka_broker`
(ottla/pytest_plugin.py).

Two things differ from production, since nobody keeps this data: a temporary directory is not synced to the disk, so creating
a topic costs no fsync; and three settings of Kafka's that make a first consumer wait are set low (QUICK). Keywords take
precedence over them, and a `data_dir` of yours is synced and kept.

    with ottla.testing.Cluster(nodes=3) as cluster:                 # processes: brokers, and controllers of Apache Kafka
        Producer({"bootstrap.servers": cluster.bootstrap}) ...
        cluster.brokers[0].kill()

A cluster is the one of `ottla cluster`. It needs Java 17 or newer, and Maven to fetch Kafka's jars once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import weakref
from concurrent.futures import Future
from pathlib import Path
from random import Random, SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from ottla.commands.cluster.broker import ClusterBroker
from ottla.commands.cluster.errors import ClusterError
from ottla.log.config_def import ConfigError
from ottla.log.disk.files import OsDisk
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.broker_settings import advice, is_idle
from ottla.server.testkit.given import as_text
from ottla.server.testkit.python.moving import Moving
from ottla.throwaway import TemporaryDirectory, UnsyncedDisk, remove_soon

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.commands.cluster.running import RunningCluster
    from ottla.log.disk.files import Disk
    from ottla.server.base.clock import Clock
    from ottla.server.broker.broker import Broker as ServerBroker
    from ottla.server.testkit.kit import Kit
    from ottla.server.testkit.lives.homes import Home
    from ottla.server.testkit.lives.lives import Lives
    from ottla.server.testkit.port import TestPort
    from ottla.server.testkit.python.handles import AsyncControls, Controls, Fault

__all__ = ["HOST", "QUICK", "Broker", "Cluster", "ClusterBroker", "ClusterError"]

HOST: Final = "127.0.0.1"

QUICK: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",  # Kafka waits 3 s for more members before it gives the first one its partitions
    "offsets.topic.num.partitions": "1",  # of 50, which are 50 directories at the first use of a group
    "transaction.state.log.num.partitions": "1",
}
"""The settings in which a throwaway broker departs from Kafka's defaults."""
MEMORY: Final = "memory"
NODES: Final = "ottla.test.nodes"
SEED: Final = "ottla.test.seed"
_PLACES: Final = frozenset({"log.dir", "log.dirs", "metadata.log.dir"})
"""The settings that say where a broker's data are."""


class Broker(Moving):
    """A broker for `with` or `async with`, or to be started and stopped by hand (`start`, `stop`).

    `data_dir` is kept, and may come from an earlier broker or from Apache Kafka; without it, a temporary directory is made and
    removed. `port` 0 is a free one. `fault` breaks it on purpose (docs/testkit.md); `test_port` (0: a free one) lets other
    programs do so, by HTTP at `test_url`. With `nodes=3` it simulates a cluster: three ids, three ports, leaders that move when
    told, and one copy of each partition behind them. With the same `seed`, whatever is left to chance comes out the same.
    `disk="memory"` keeps everything in memory, where its power can be cut (`restart("power_cut")`). `settings` are Kafka's, as
    keywords with `_` for `.`: `log_retention_ms=1000`. True and False are written as Kafka does; a list or tuple is joined by
    commas.

    Raises ConfigError, before anything is started, for a value that does not parse and for a name that is not a setting. Entering
    raises what the command would have ended with: LogError if the directory is in use or belongs to another cluster, OSError if
    the port is taken.
    """

    def __init__(
        self,
        *,
        data_dir: str | Path | None = None,
        port: int = 0,
        cluster_id: str | None = None,
        nodes: int = 1,
        test_port: int | None = None,
        seed: int | None = None,
        disk: str | None = None,
        **settings: object,
    ) -> None:
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._port = port
        self._cluster_id = cluster_id
        self._test_port = test_port
        self._settings = {name.replace("_", "."): as_text(value) for name, value in settings.items()}
        if nodes != 1:
            self._settings[NODES] = str(nodes)
        super().__init__(lambda name, body=None, **variables: self._under_test().call(name, body, **variables))
        if disk not in (None, MEMORY):
            raise ConfigError(f"disk: there is no {disk!r:.50}; leave it out for the system's files, or give {MEMORY!r}")
        if disk is not None and data_dir is not None:
            raise ConfigError("disk: nothing of a disk in memory is kept; leave out disk, or data_dir")
        self._in_memory = disk is not None
        self._has_place = data_dir is not None or not _PLACES.isdisjoint(self._settings)
        self._keeps = self._has_place and not self._in_memory
        self._temporary: TemporaryDirectory | None = None
        self._kit: Kit | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._controls: Controls | None = None
        self._test_server: TestPort | None = None
        self._thread: _Thread | None = None
        config = self._configured("unused")  # a wrong setting is reported where it was written
        seed = config.values[SEED] if seed is None else seed
        self._seed: int = SystemRandom().getrandbits(32) if seed is None else seed
        self._random = None if seed is None else Random(seed)

    # Where it is

    @property
    def bootstrap(self) -> str:
        """host:port, as clients take it for bootstrap.servers."""
        return self._running().bootstrap

    @property
    def port(self) -> int:
        return self._running().port

    @property
    def metrics_url(self) -> str | None:
        """The URL at which /metrics, /healthz and /readyz are; None unless `ottla_metrics_port` was given (0 for a free port)."""
        return self._running().metrics_url

    @property
    def cluster_id(self) -> str:
        return self._running().cluster_id

    @property
    def data_dir(self) -> Path:
        """The directory of the logs, for a look at the files while it runs. Raises RuntimeError if they are in memory."""
        if self._in_memory:
            raise RuntimeError("the files of this broker are in memory; archive() writes a snapshot of them to a file")
        return Path(self._running().config.log_dirs[0])

    # Under test

    @property
    def test_url(self) -> str | None:
        """The URL of the test port, without a path; None unless `test_port` was given."""
        self._lives()
        return None if self._test_server is None else self._test_server.url

    def fault(self, **given: Any) -> Fault:
        """Installs a fault, and returns it. The keywords are the fields of a fault, without `on` and `do` around them:
        `fault(api="Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=2)`.

        It is in force when this returns, and removed at the end of a `with` block. Raises ValueError for what cannot be, or can
        never match.
        """
        from ottla.server.testkit.python.handles import Fault, fault_body

        return Fault(self._under_test(), self._under_test().call("fault", fault_body(given)))

    @property
    def aio(self) -> AsyncControls:
        """The same calls, to be awaited."""
        from ottla.server.testkit.python.handles import AsyncControls

        return AsyncControls(self._under_test())

    def _under_test(self) -> Controls:
        self._lives()
        if self._controls is None:
            from ottla.server.testkit.python.handles import Controls

            assert self._kit is not None
            assert self._loop is not None
            self._controls = Controls(self._kit, self._loop)
        return self._controls

    def __repr__(self) -> str:
        return f"<ottla.testing.Broker {self.bootstrap if self._kit is not None else 'not running'}>"

    # In a thread of its own

    def start(self) -> Self:
        """Runs the broker in a thread with an event loop of its own; it serves when this returns."""
        self._begin()
        thread = _Thread(self)
        try:
            thread.run_until_ready()
        except BaseException:
            self._end()
            raise
        self._thread = thread
        return self

    def stop(self) -> None:
        """Stops the broker that `start` started; does nothing if none runs."""
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.end()
            finally:
                self._end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    # In the loop that runs

    async def __aenter__(self) -> Self:
        self._begin()
        try:
            await self._serve()
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._stop()
        finally:
            self._end()

    # Inside

    def _running(self) -> ServerBroker:
        return self._lives().broker

    def _lives(self) -> Lives:
        if self._kit is None:
            raise RuntimeError("this broker is not running: enter it with `with` or `async with`, or call start()")
        return self._kit.lives

    def _begin(self) -> None:
        if self._kit is not None or self._temporary is not None:
            raise RuntimeError("this broker is already running")
        self._temporary = TemporaryDirectory()
        if idle := sorted(name for name in self._settings if is_idle(name)):
            logging.getLogger("ottla.testing").info(
                "these settings are accepted but have no effect in ottla: %s", ", ".join(idle)
            )

    async def _serve(self) -> None:
        """Builds the broker in the loop that will run it, and starts it."""
        from ottla.server.base.clock import LoopClock
        from ottla.server.testkit.kit import Kit
        from ottla.server.testkit.lives.homes import Given, Scratch
        from ottla.server.testkit.lives.lives import Lives

        assert self._temporary is not None
        clock = LoopClock()
        disk, remove = self._make_disk(clock)
        scratch = Scratch(self._temporary.path, remove)
        config = self._configured(str(self._data_dir or scratch.first()))
        if (self._test_port is not None or config.values[NODES] > 1) and not self._in_memory:
            self._check_directory(config)
        home: Home = Given(disk, config.all_log_dirs, scratch.snapshots) if self._has_place else scratch
        link = None if self._in_memory else os.link
        kit = Kit(clock, Random(self._seed))
        kit.lives = Lives(clock, self._random, kit.around, config, disk, home, cluster_id=self._cluster_id, link=link)
        await kit.lives.start()
        self._loop, self._kit = asyncio.get_running_loop(), kit
        if self._test_port is not None:
            try:
                await self._open_test_port(kit, config, self._test_port)
            except BaseException:
                await self._stop()
                raise

    def _make_disk(self, clock: Clock) -> tuple[Disk, Callable[[str], None]]:
        """Returns the disk and what removes a directory of it."""
        if self._in_memory:
            from ottla.server.testkit.disk.memory_disk import MemoryDisk

            memory = MemoryDisk(clock.now_ms)
            return memory, memory.forget_tree
        return OsDisk() if self._keeps else UnsyncedDisk(), remove_soon

    def _check_directory(self, config: BrokerConfig) -> None:
        """Raises ConfigError if a test must not touch the directory."""
        from ottla.server.broker.marked_directories import check_directories

        check_directories(OsDisk(), config.all_log_dirs, under_test=True, adopt=False)

    async def _open_test_port(self, kit: Kit, config: BrokerConfig, port: int) -> None:
        from ottla.server.base.network import OsNetwork
        from ottla.server.testkit.port import HOST, TOKEN, TestPort

        token = config.values[TOKEN]
        server = TestPort(kit, OsNetwork(), config.values[HOST], None if token is None else token.reveal())
        await server.open(port)
        self._test_server = server

    async def _stop(self) -> None:
        """Stops the broker, in its loop. Where nobody keeps its data, nothing is written for a next start."""
        if self._test_server is not None:
            self._test_server.close()
            self._test_server = None
        await self._lives().stop(clean=self._keeps)

    def _end(self) -> None:
        self._kit = self._controls = self._loop = None
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.remove_soon()

    def _configured(self, directory: str) -> BrokerConfig:
        place = {"log.dirs": directory, "listeners": f"PLAINTEXT://{HOST}:{self._port}"}
        config, unknown = BrokerConfig.from_mapping({**self._quick(), **place, **self._settings})
        if unknown:
            raise ConfigError("; ".join(advice(name) for name in unknown))
        return config

    def _quick(self) -> Mapping[str, str]:
        """Returns QUICK; where there are several nodes, without the counts of partitions that go with one."""
        if self._settings.get(NODES, "1") == "1":
            return QUICK
        return {name: text for name, text in QUICK.items() if not name.endswith(".num.partitions")}


class Cluster:
    """A cluster for `with` or `async with`, or to be started and stopped by hand: brokers of ottla, each in a process of its own,
    and controllers of Apache Kafka, in a JVM each. They listen on free ports of 127.0.0.1.

    A start takes some seconds, so tests should share a cluster where they can. `data_dir` is kept and may come from an earlier
    cluster, with the same number of brokers or fewer; without it, a temporary directory is made and removed. `kafka` is the
    directory of an unpacked Apache Kafka; without it, Maven fetches the jars and keeps them. `settings` are those of all nodes,
    written as for `Broker`.

    Raises ConfigError for a setting that is wrong, and ClusterError, from the start, if Java or Maven is missing or a node does
    not come up.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        controllers: int = 1,
        data_dir: str | Path | None = None,
        kafka: str | Path | None = None,
        **settings: object,
    ) -> None:
        self._nodes = nodes
        self._controllers = controllers
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._kafka = None if kafka is None else Path(kafka)
        self._settings = {name.replace("_", "."): as_text(value) for name, value in settings.items()}
        self._temporary: TemporaryDirectory | None = None
        self._running: RunningCluster | None = None
        self._kill: weakref.finalize[[int, RunningCluster], Cluster] | None = None
        _, unknown = BrokerConfig.from_mapping({**QUICK, **self._settings})
        if unknown:
            raise ConfigError("; ".join(advice(name) for name in unknown))

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, as clients take them for bootstrap.servers."""
        return self._started().layout.bootstrap

    @property
    def cluster_id(self) -> str:
        return self._started().layout.cluster_id

    @property
    def data_dir(self) -> Path:
        """The directory of the cluster: one directory a node, with its settings, its log and its data."""
        return self._started().layout.directory

    @property
    def brokers(self) -> list[ClusterBroker]:
        """The brokers, in the order of their ids."""
        running = self._started()
        return [ClusterBroker(running, node) for node in running.brokers]

    @property
    def nodes(self) -> dict[int, ClusterBroker]:
        """The brokers by their ids, as a Broker has its nodes."""
        return {broker.node_id: broker for broker in self.brokers}

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Makes a broker the leader of a partition: its replica is put first and elected. Raises ClusterError if it has none that
        is in sync."""
        from ottla.commands.cluster.leaders import move_leader

        running = [broker.bootstrap for broker in self.brokers if broker.is_running]
        move_leader(",".join(running), topic, partition, to)

    def __repr__(self) -> str:
        return f"<ottla.testing.Cluster {self.bootstrap if self._running is not None else 'not running'}>"

    def start(self) -> Self:
        """Starts controllers and brokers; all brokers serve when this returns."""
        from ottla.commands.cluster import layout, running

        if self._running is not None or self._temporary is not None:
            raise RuntimeError("this cluster is already running")
        overrides = [f"{name}={text}" for name, text in {**QUICK, **self._settings}.items()]
        layout.check_overrides(overrides)
        programs = running.find_programs(os.environ, self._kafka)
        self._temporary = TemporaryDirectory() if self._data_dir is None else None
        try:
            directory = self._data_dir if self._temporary is None else Path(self._temporary.path)
            assert directory is not None
            plan = layout.plan(directory, self._nodes, self._controllers, 0, SystemRandom())
            cluster = running.RunningCluster(plan, programs, os.environ, overrides=overrides)
            self._kill = weakref.finalize(self, _kill_in, os.getpid(), cluster)
            cluster.start()
        except BaseException:
            self._end()
            raise
        self._running = cluster
        return self

    def stop(self) -> None:
        """Stops the brokers, then the controllers; does nothing if the cluster does not run."""
        running, self._running = self._running, None
        if running is not None:
            try:
                running.stop()
            finally:
                self._end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _started(self) -> RunningCluster:
        if self._running is None:
            raise RuntimeError("this cluster is not running: enter it with `with` or `async with`, or call start()")
        return self._running

    def _end(self) -> None:
        kill, self._kill = self._kill, None
        if kill is not None:
            kill()  # which has nothing to do unless the stop was interrupted
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.remove()


def _kill_in(process_id: int, cluster: RunningCluster) -> None:
    """Ends the nodes that a program leaves behind when it ends without stopping them."""
    if os.getpid() == process_id:
        cluster.kill()


class _Thread:
    """Runs a broker's loop until it has to end. What the broker raises there is raised by the call that waits for it.

    Whoever waits may be interrupted (Ctrl-C) at any moment, so `_wanted` is for the time before there is a loop to tell.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._ready: Future[None] = Future()
        self._wanted = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._process_id = os.getpid()
        # A daemon: a test run that dies before it leaves the broker must not hang at its end.
        self._thread = threading.Thread(target=self._run, name="ottla-broker", daemon=True)

    def run_until_ready(self) -> None:
        try:
            self._thread.start()
            self._ready.result()
        except BaseException:  # an interrupt, too: the broker may come up all the same
            self._tell_to_leave()
            if self._thread.ident is not None:  # else there is no thread yet, and should there be one, it is not wanted
                self._wait_for_end()
            raise

    def end(self) -> None:
        self._tell_to_leave()
        self._wait_for_end()
        if self._failure is not None:
            raise self._failure

    def _wait_for_end(self) -> None:
        """Waits by an event of our own: a Thread whose join() was interrupted says that it has ended, whether it has or not."""
        if os.getpid() != self._process_id:
            return  # a forked child has no such thread
        try:
            self._ended.wait()
        except BaseException:  # an interrupt; the directory must not go before the broker has
            self._ended.wait()
            raise
        self._thread.join()

    def _tell_to_leave(self) -> None:
        self._wanted = False
        if self._loop is not None and not self._ended.is_set() and os.getpid() == self._process_id:
            assert self._leave is not None
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has left meanwhile
                self._loop.call_soon_threadsafe(self._leave.set)

    def _run(self) -> None:
        try:
            from ottla.server.program.serve import loop_factory

            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - it is raised again in the thread that waits
            if self._ready.done():
                self._failure = error
            else:
                self._ready.set_exception(error)
        finally:
            self._ended.set()

    async def _serve(self) -> None:
        self._leave = asyncio.Event()
        self._loop = asyncio.get_running_loop()  # from here on it can be told; `_wanted` says what it was told before
        if not self._wanted:
            return
        await self._broker._serve()
        self._ready.set_result(None)
        await self._leave.wait()
        await self._broker._stop()
