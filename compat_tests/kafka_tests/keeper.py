"""Starts and ends the brokers that Kafka's tests ask for, over a local socket: one connection, one cluster.

Requests are JSON objects, one a line, answered in order by a line (compat_tests/kafka_tests/java/ottla/kafkatests/Brokers.java):

    {"create": [settings of each broker], "controller": settings, "release": null or a metadata version,
     "features": {name: level}, "disks": n, "standalone": bool}
    {"start": id}        null: all that do not run
    {"stop": id}         as SIGTERM does; it may be started again

The answer is where they are: bootstrap, controllers, cluster_id, and of each broker bootstrap and settings; or {"error": text}.
When the connection ends the brokers are killed and their directories removed, then this side closes as well. A single broker is
its own controller; several have a controller of Apache Kafka beside them.

Settings are the test's, on top of what every such broker has (_settings), none of what the other compat tests like. A metadata
version or levels of features that are not the newest are written by Kafka's own storage tool, for ottla too: it takes directories
that Kafka formatted.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import shutil
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from compat_tests.brokers import CLASSES
from compat_tests.class_archives import archive_jars
from compat_tests.reference.kafka import (
    CLUSTER_ID,
    CONTROLLER_ID,
    BrokerFailed,
    BrokerProcess,
    KafkaController,
    RealKafka,
    free_port,
)

NODE_ID: Final = 0
"""Kafka's test kit counts its brokers from 0, and tests know that."""

_DEFAULTS: Final = {
    "process.roles": "broker,controller",
    "node.id": str(NODE_ID),
    "inter.broker.listener.name": "EXTERNAL",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "2000",
}
_OF_SEVERAL: Final = {"broker.session.timeout.ms": "9000"}
"""Nobody waits for the session of a broker that was stopped in order, and on a busy machine a short one ends by itself."""
_DIRECTORY_AGAIN: Final = ("log.dirs", "log.dir", "metadata.log.dir", "listeners", "advertised.listeners")
"""The settings about the place in which a broker lives, which is not for a test to say: they name what is of their own
machine."""


class Kafka(RealKafka):
    """Apache Kafka for hundreds of short lives: one format serves many."""

    def format(self) -> None:
        """As Kafka's tool does it; where the result does not depend on this broker's ports, once for each set of options."""
        if "--standalone" in self.format_options or "," in self.settings["log.dirs"]:
            super().format()
            return
        kept = _formatted() / " ".join((self.settings["node.id"], *self.format_options))
        with open(_formatted() / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                super().format()
                shutil.copytree(self.data_dir, kept)
        if not self.data_dir.exists():
            shutil.copytree(kept, self.data_dir)


@cache
def _formatted() -> Path:
    directory = tempfile.TemporaryDirectory(prefix="kafka-tests-formatted-")
    atexit.register(directory.cleanup)
    return Path(directory.name)


_CLASSES: Final = CLASSES | {"kafka": Kafka}


class Cluster:
    """The brokers of one test. `address` is the controller's, which is a process of its own where `beside` is one."""

    def __init__(self, brokers: list[BrokerProcess], address: str, beside: BrokerProcess | None = None) -> None:
        self.brokers, self.address, self.beside = brokers, address, beside

    @property
    def processes(self) -> list[BrokerProcess]:
        return self.brokers if self.beside is None else [*self.brokers, self.beside]

    def start(self, node: int | None) -> None:
        """Starts a broker, or all that do not run, and the controller before them. Raises BrokerFailed."""
        if self.beside is not None and self.beside.process is None:
            self.beside.start()
        chosen = self.brokers if node is None else [self.brokers[node]]
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            for _ in pool.map(BrokerProcess.start, [broker for broker in chosen if broker.process is None]):
                pass

    def stop(self, node: int | None) -> None:
        for broker in self.brokers if node is None else [self.brokers[node]]:
            broker.stop()

    def place(self) -> dict[str, Any]:
        """Returns what a test gets to know."""
        brokers = [{"bootstrap": f"localhost:{broker.port}", "settings": broker.settings} for broker in self.brokers]
        bootstrap = ",".join(f"localhost:{broker.port}" for broker in self.brokers)
        return {"bootstrap": bootstrap, "controllers": self.address, "cluster_id": CLUSTER_ID, "brokers": brokers}


def made(kind: str, directory: Path, request: Mapping[str, Any]) -> Cluster:
    """Returns the brokers that a test asks for, formatted where that is not their own matter. Raises BrokerFailed."""
    if len(request["create"]) > 1:
        return _several(kind, directory, request)
    broker = _CLASSES[kind](directory)
    controller = f"localhost:{free_port()}"
    broker.settings = (
        _DEFAULTS
        | {
            "listeners": f"EXTERNAL://localhost:{broker.port},CONTROLLER://{controller}",
            "advertised.listeners": f"EXTERNAL://localhost:{broker.port}",
            "log.dirs": _disks(directory, request),
        }
        | _quorum(request, NODE_ID, controller)
        | _allowed(request["create"][NODE_ID])
    )
    options = _format_options(request)
    if isinstance(broker, RealKafka):
        broker.format_options = options
    elif request["release"] or request["features"]:
        formatter = Kafka(directory, port=broker.port)
        formatter.settings, formatter.format_options = broker.settings, options
        directory.mkdir(parents=True, exist_ok=True)
        formatter.properties.write_text("".join(f"{key}={value}\n" for key, value in broker.settings.items()))
        formatter.format()
    return Cluster([broker], controller)


def _several(kind: str, directory: Path, request: Mapping[str, Any]) -> Cluster:
    controller = KafkaController(directory / "controller")
    address = f"localhost:{controller.port}"
    common = _DEFAULTS | _OF_SEVERAL | _quorum(request, CONTROLLER_ID, address)
    controller.format_options = _format_options(request)
    controller.settings = common | _allowed(request["controller"]) | _node("controller", CONTROLLER_ID, f"CONTROLLER://{address}")
    controller.settings["log.dirs"] = str(controller.data_dir)
    for key in ("advertised.listeners", "inter.broker.listener.name"):
        controller.settings.pop(key, None)
    brokers = []
    for node in range(len(request["create"])):
        place = directory / f"broker-{node}"
        broker = _CLASSES[kind](place)
        listener = f"EXTERNAL://localhost:{broker.port}"
        broker.settings = (
            common | _allowed(request["create"][node]) | _node("broker", node, listener) | {"log.dirs": _disks(place, request)}
        )
        if isinstance(broker, RealKafka):
            broker.format_options = ()
        brokers.append(broker)
    return Cluster(brokers, address, controller)


def _node(role: str, node: int, listener: str) -> dict[str, str]:
    return {"process.roles": role, "node.id": str(node), "listeners": listener, "advertised.listeners": listener}


def _allowed(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns those of a test's settings that are for a test to say."""
    return {key: value for key, value in settings.items() if key not in _DIRECTORY_AGAIN}


def _quorum(request: Mapping[str, Any], node: int, address: str) -> dict[str, str]:
    """Returns the setting by which the controller is found: one that is in its log, or one that is in the configuration."""
    if request["standalone"]:
        return {"controller.quorum.bootstrap.servers": address}
    return {"controller.quorum.voters": f"{node}@{address}"}


def _format_options(request: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the options of Kafka's storage tool for the quorum and the features that a test asks for."""
    options = ["--standalone"] if request["standalone"] else []
    options += ["--release-version", request["release"]] if request["release"] else []
    return (*options, *(word for name, level in request["features"].items() for word in ("--feature", f"{name}={level}")))


def _disks(directory: Path, request: Mapping[str, Any]) -> str:
    return ",".join(str(directory / f"data{number or ''}") for number in range(request["disks"]))


class _OneCluster(socketserver.StreamRequestHandler):
    """A connection from a test's JVM."""

    server: Keeper

    def handle(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix=f"kafka-tests-{self.server.kind}-"))
        cluster: Cluster | None = None
        try:
            for line in self.rfile:
                request = json.loads(line)
                try:
                    if "create" in request:
                        cluster = made(self.server.kind, directory / "broker", request)
                    assert cluster is not None, "brokers are created before all else"
                    if "start" in request:
                        cluster.start(request["start"])
                    elif "stop" in request:
                        cluster.stop(request["stop"])
                except (BrokerFailed, OSError, subprocess.SubprocessError) as error:
                    answer: dict[str, Any] = {"error": str(error)[-4000:]}
                else:
                    answer = cluster.place()
                self.wfile.write(json.dumps(answer).encode() + b"\n")
                self.wfile.flush()
        finally:
            for process in [] if cluster is None else cluster.processes:
                process.kill()
                self.server.keep_log(process)
            shutil.rmtree(directory, ignore_errors=True)


class Keeper(socketserver.ThreadingTCPServer):
    """Serves brokers of one kind on `port`, as a context. `logs`: a directory for what the brokers said."""

    daemon_threads = True
    block_on_close = True

    def __init__(self, kind: str, logs: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _OneCluster)
        self.kind, self.logs = kind, logs
        self._count = 0
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def keep_log(self, broker: BrokerProcess) -> None:
        if self.logs is not None and broker.log_file.exists():
            self._count += 1
            shutil.copy(broker.log_file, self.logs / f"{broker.kind}-{self._count:04}.log")

    def __enter__(self) -> Self:
        if self.kind == "kafka":
            archive_jars()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that a killed JVM left is its end; anything else is a bug, and said."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)
