"""`RunningCluster`: brings the nodes of a cluster up, controllers first, and takes them down, brokers first and one by one.

One by one, because a broker that leaves in order waits until the controllers have given its leaderships to others.

A lock on the directory is held by whoever runs the cluster and inherited by each node, so a cluster cannot be started while a
node of it is still there, as after `kill -9` of the command. A node that ends is reported and not started again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ottla.commands.cluster import jars
from ottla.commands.cluster import layout as layouts
from ottla.commands.cluster.cores import shared_out
from ottla.commands.cluster.errors import ClusterError
from ottla.commands.cluster.java import find_java
from ottla.commands.cluster.layout import Layout, Place
from ottla.commands.cluster.process import NodeProcess

READY_SECONDS: Final = 120.0
"""The time that nodes may take until they serve. Brokers wait for controllers, and for the end of their own session if they were
killed."""
_LOOK_SECONDS: Final = 0.02
LOCK: Final = "cluster.lock"
_LOGGING: Final = "log4j2.properties"
_LOG4J: Final = """\
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
"""
"""The configuration of the log of an unpacked Kafka, which has Log4j; Maven's jars come with a logger that needs no file."""
JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A controller has little to do, and its JVM should take little."""


class Interrupted(Exception):
    """The start was given up, because somebody asked for a stop."""


class Programs(NamedTuple):
    """The programs that the nodes run on: the path of `java`, the directory with Kafka's jars, and the command that is
    `ottla`."""

    java: str
    jars: Path
    ottla: tuple[str, ...] = (sys.executable, "-m", "ottla")

    def kafka(self, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """Returns the command that runs a main class of Kafka's."""
        return [self.java, *JVM_OPTIONS, *options, "-cp", f"{self.jars}/*", *arguments]


def find_programs(environment: Mapping[str, str], kafka: Path | None = None, version: str = jars.NEWEST) -> Programs:
    """Returns what this machine has: its Java, and the jars of the unpacked Kafka or those that Maven fetches. Raises
    ClusterError."""
    java = find_java(environment)
    return Programs(java, jars.unpacked(kafka) if kafka is not None else jars.fetched(version))


class RunningCluster:
    """A cluster; see the module's docstring. `overrides` are settings for all nodes, `key=value`. `should_stop` is asked while
    nodes are waited for, and `stop_fd` becomes readable when its answer changes. `cores` are those that brokers are bound to, one
    each; none leaves them where the kernel puts them.
    """

    def __init__(
        self,
        layout: Layout,
        programs: Programs,
        environment: Mapping[str, str],
        *,
        overrides: Sequence[str] = (),
        rack: str | None = None,
        ready_seconds: float = READY_SECONDS,
        should_stop: Callable[[], bool] = lambda: False,
        stop_fd: int | None = None,
        cores: Sequence[int] = (),
    ) -> None:
        self.layout = layout
        self.controllers: list[NodeProcess] = []
        self.brokers: list[NodeProcess] = []
        self._programs = programs
        self._environment = node_environment(environment)
        self._overrides = overrides
        self._rack = rack
        self._ready_seconds = ready_seconds
        self._should_stop = should_stop
        self._stop_fd = stop_fd
        self._cores: Sequence[int | None] = shared_out(cores, len(layout.brokers)) if cores else [None] * len(layout.brokers)
        self._lock = -1

    @property
    def nodes(self) -> list[NodeProcess]:
        """All nodes, in the order of their start."""
        return [*self.controllers, *self.brokers]

    # Up

    def start(self) -> None:
        """Starts all nodes and returns when they serve. Raises ClusterError, or Interrupted if somebody asked for a stop: then no
        node runs. Nothing is written if the directory or a port is in use."""
        self._begin()
        try:
            self._write()
            for place in self.layout.controllers:
                self.controllers.append(self._node(place, self._controller_command(place)))
            for place, core in zip(self.layout.brokers, self._cores, strict=True):
                self.brokers.append(self._node(place, self._broker_command(place), core))
            for group in (self.controllers, self.brokers):
                for node in group:
                    node.start()
                self.wait_until_ready(group)
        except BaseException:
            self.stop()
            raise

    def _begin(self) -> None:
        """Makes the directory and takes its lock. Raises ClusterError."""
        directory = self.layout.directory
        is_new = not directory.exists()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ClusterError(f"--dir: {error.filename}: {error.strerror}; choose another directory") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._unlock()
            raise ClusterError(
                f"--dir: the cluster in {directory} runs already{_pids(directory)}; stop it, or choose another directory"
            ) from error
        try:
            layouts.check_ports(self.layout)
        except ClusterError:
            self._unlock()
            if layouts.load(directory) is None:
                (directory / LOCK).unlink()
            if is_new:
                directory.rmdir()
            raise

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _write(self) -> None:
        """Writes the files of the cluster and of its nodes, and formats the controllers. Raises ClusterError."""
        layout = self.layout
        try:
            layouts.save(layout)
            for place in (*layout.controllers, *layout.brokers):
                folder = layout.folder(place)
                folder.mkdir(exist_ok=True)
                layouts.write_properties(folder / layouts.PROPERTIES, layout.settings(place, self._rack))
            (layout.directory / _LOGGING).write_text(_LOG4J)
        except OSError as error:
            raise ClusterError(f"--dir: {error.filename}: {error.strerror}; make room, or choose another directory") from error
        self._format_all([place for place in layout.controllers if not self._is_formatted(place)])

    def _format_all(self, places: Sequence[Place]) -> None:
        """Formats controllers, at the same time. Raises ClusterError and Interrupted."""
        formatting = [(place, self._format(place)) for place in places]
        try:
            for place, process in formatting:
                output = self._output(process)
                if process.returncode != 0:
                    raise ClusterError(f"{place.name} cannot be formatted: {' '.join(output.split())[-1000:]}")
        finally:
            for _, process in formatting:
                if process.poll() is None:
                    process.kill()
                process.communicate()

    def _output(self, process: subprocess.Popen[str]) -> str:
        """Returns what a process printed, when it has ended. Raises Interrupted."""
        while not self._should_stop():
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=_LOOK_SECONDS)[0]
        raise Interrupted

    def _is_formatted(self, place: Place) -> bool:
        return (self.layout.folder(place) / "data" / "meta.properties").exists()

    def _format(self, place: Place) -> subprocess.Popen[str]:
        """Begins to format a controller, for a quorum whose voters are kept in its log (KIP-853)."""
        voters = ",".join(f"{each.node_id}@{each.address}:{each.directory_id}" for each in self.layout.controllers)
        arguments = ("format", "-t", self.layout.cluster_id, "-c", self._properties(place), "--initial-controllers", voters)
        command = self._programs.kafka("kafka.tools.StorageTool", *arguments, options=self._java_logging())
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self._environment,
            process_group=0,
        )

    def _properties(self, place: Place) -> str:
        return str(self.layout.folder(place) / layouts.PROPERTIES)

    def _java_logging(self) -> tuple[str, ...]:
        return (f"-Dlog4j2.configurationFile={self.layout.directory / _LOGGING}",)

    def _controller_command(self, place: Place) -> list[str]:
        overrides = [word for text in self._overrides for word in ("--override", text)]
        return self._programs.kafka("kafka.Kafka", self._properties(place), *overrides, options=self._java_logging())

    def _broker_command(self, place: Place) -> list[str]:
        overrides = [word for text in self._overrides for word in ("--override", text)]
        return [*self._programs.ottla, "serve", self._properties(place), "--cluster-id", self.layout.cluster_id, *overrides]

    def _node(self, place: Place, command: Sequence[str], core: int | None = None) -> NodeProcess:
        return NodeProcess(place, command, self._environment, self.layout.folder(place) / layouts.LOG, self._lock, core)

    def wait_until_ready(self, nodes: Iterable[NodeProcess]) -> None:
        """Returns when all of them serve. Raises ClusterError if one ends or takes too long, and Interrupted."""
        waiting = list(nodes)
        until = time.monotonic() + self._ready_seconds
        while waiting:
            if self._should_stop():
                raise Interrupted
            for node in waiting:
                if not node.is_running:
                    raise ClusterError(f"{node.name} did not start: it {node.how_it_ended()} (its log is {node.log})")
            waiting = [node for node in waiting if not node.is_ready()]
            if waiting and time.monotonic() > until:
                names = ", ".join(node.name for node in waiting)
                raise ClusterError(
                    f"{names} not ready after {self._ready_seconds:.0f} s; {waiting[0].log} says what it waits for"
                )
            if waiting:
                self._rest([node.fileno() for node in waiting], _LOOK_SECONDS)

    def _rest(self, descriptors: Iterable[int], seconds: float | None) -> None:
        """Waits until one of the descriptors has something to say, or somebody asks for a stop."""
        own = [] if self._stop_fd is None else [self._stop_fd]
        readable, _, _ = select.select([*descriptors, *own], [], [], seconds)
        if self._stop_fd in readable:
            assert self._stop_fd is not None
            os.read(self._stop_fd, 64)

    # While it runs

    def ended(self) -> Iterator[NodeProcess]:
        """Yields each node that ends, when it does, until somebody asks for a stop or none is left."""
        running = self.nodes
        while running and not self._should_stop():
            for node in [node for node in running if not node.is_running]:
                running.remove(node)
                yield node
            if running and not self._should_stop():
                self._rest([node.fileno() for node in running], None)

    # Down

    def stop(self) -> list[NodeProcess]:
        """Stops the brokers, the last one first, and then the controllers. Returns those that had to be killed or failed."""
        failed = [node for node in (*reversed(self.brokers), *reversed(self.controllers)) if node.is_running and not node.stop()]
        self._unlock()
        return failed

    def kill(self) -> None:
        """Ends all nodes at once."""
        for node in self.nodes:
            node.kill()
        for node in self.nodes:
            node.wait(None)
        self._unlock()


def node_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a node: without the KAFKA_* variables and CLUSTER_ID, which are settings of one broker."""
    return {name: text for name, text in environment.items() if not name.startswith("KAFKA_") and name != "CLUSTER_ID"}


def _pids(directory: Path) -> str:
    """Returns, for a message, which processes have the lock of a directory, as far as the system says."""
    path = str(directory / LOCK)
    found = []
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(entry) == path:
                found.append(entry.parts[2])
        except OSError:
            continue
    others = [pid for pid in dict.fromkeys(found) if pid != str(os.getpid())]
    return f" (pid {', '.join(others)})" if others else ""
