"""Starts and ends the brokers that Kafka's tests ask for, over a local socket: one connection, one broker.

Requests are JSON objects, one a line, answered in order by a line (compat_tests/kafka_tests/java/ottla/kafkatests/Broker.java):

    {"create": settings, "release": null or a metadata version, "features": {name: level}, "disks": n, "standalone": bool}
    {"start": true}
    {"stop": true}       as SIGTERM does; it may be started again

The answer is the broker's place: bootstrap, controllers, cluster_id, settings; or {"error": text}. When the connection ends the
broker is killed and its directory removed, then this side closes as well.

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
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from compat_tests.brokers import CLASSES
from compat_tests.class_archives import archive_jars
from compat_tests.reference.kafka import CLUSTER_ID, BrokerFailed, BrokerProcess, RealKafka, free_port

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
_DIRECTORY_AGAIN: Final = ("log.dirs", "log.dir", "metadata.log.dir", "listeners", "advertised.listeners")
"""Where a broker lives is not for a test to say: they name what is of their own machine."""


class Kafka(RealKafka):
    """Apache Kafka for hundreds of short lives: one format serves many."""

    def format(self) -> None:
        """As Kafka's tool does it; where the result does not depend on this broker's ports, once for each set of options."""
        if "--standalone" in self.format_options or "," in self.settings["log.dirs"]:
            super().format()
            return
        kept = _formatted() / (" ".join(self.format_options) or "newest")
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


def made(kind: str, directory: Path, request: Mapping[str, Any]) -> BrokerProcess:
    """A broker as the test asks for; formatted where that is not its own matter, not started. Raises BrokerFailed."""
    broker = _CLASSES[kind](directory)
    controller = free_port()
    disks = [directory / f"data{number or ''}" for number in range(request["disks"])]
    own = {key: value for key, value in request["create"].items() if key not in _DIRECTORY_AGAIN}
    quorum = "controller.quorum.bootstrap.servers" if request["standalone"] else "controller.quorum.voters"
    broker.settings = (
        _DEFAULTS
        | {
            "listeners": f"EXTERNAL://localhost:{broker.port},CONTROLLER://localhost:{controller}",
            "advertised.listeners": f"EXTERNAL://localhost:{broker.port}",
            "log.dirs": ",".join(map(str, disks)),
            quorum: f"localhost:{controller}" if request["standalone"] else f"{NODE_ID}@localhost:{controller}",
        }
        | own
    )
    options = ["--standalone"] if request["standalone"] else []
    options += ["--release-version", request["release"]] if request["release"] else []
    for name, level in request["features"].items():
        options += ["--feature", f"{name}={level}"]
    if isinstance(broker, RealKafka):
        broker.format_options = tuple(options)
    elif request["release"] or request["features"]:
        formatter = Kafka(directory, port=broker.port)
        formatter.settings, formatter.format_options = broker.settings, tuple(options)
        directory.mkdir(parents=True, exist_ok=True)
        formatter.properties.write_text("".join(f"{key}={value}\n" for key, value in broker.settings.items()))
        formatter.format()
    return broker


def place(broker: BrokerProcess) -> dict[str, Any]:
    """What a test gets to know about its broker."""
    controller = broker.settings["listeners"].rpartition("//")[2]
    return {
        "bootstrap": f"localhost:{broker.port}",
        "controllers": controller,
        "cluster_id": CLUSTER_ID,
        "settings": broker.settings,
    }


class _OneBroker(socketserver.StreamRequestHandler):
    """A connection from a test's JVM."""

    server: Keeper

    def handle(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix=f"kafka-tests-{self.server.kind}-"))
        broker: BrokerProcess | None = None
        try:
            for line in self.rfile:
                request = json.loads(line)
                try:
                    if "create" in request:
                        broker = made(self.server.kind, directory / "broker", request)
                    assert broker is not None, "a broker is created before all else"
                    if "start" in request and broker.process is None:
                        broker.start()
                    elif "stop" in request:
                        broker.stop()
                except (BrokerFailed, OSError, subprocess.SubprocessError) as error:
                    answer: dict[str, Any] = {"error": str(error)[-4000:]}
                else:
                    answer = place(broker)
                self.wfile.write(json.dumps(answer).encode() + b"\n")
                self.wfile.flush()
        finally:
            if broker is not None:
                broker.kill()
                self.server.keep_log(broker)
            shutil.rmtree(directory, ignore_errors=True)


class Keeper(socketserver.ThreadingTCPServer):
    """Serves one kind of broker on `port`, as a context. `logs`: a directory for what the brokers said."""

    daemon_threads = True
    block_on_close = True

    def __init__(self, kind: str, logs: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _OneBroker)
        self.kind, self.logs = kind, logs
        self._count = 0
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def keep_log(self, broker: BrokerProcess) -> None:
        if self.logs is not None and broker.log_file.exists():
            self._count += 1
            shutil.copy(broker.log_file, self.logs / f"{self.kind}-{self._count:04}.log")

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
