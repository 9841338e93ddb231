"""A real Apache Kafka 4.4.0 on this machine: the oracle of the compat tests, and for a quick question at the shell.

    python -m compat_tests.reference.kafka [--port 29092] [--data-dir DIR] [--override key=value]...

fetches the jars when they are missing, formats a new directory, starts a single KRaft node (broker and controller in one
process), prints its address, and stops it on Ctrl-C or SIGTERM. The data lies in DIR/data and the broker's log is
DIR/broker.log. To run Kafka on a directory that ottla wrote, name it: `--override log.dirs=/home/you/ottla-data`, several with
commas between them.

`BrokerProcess` is what the tests need of any broker: start, kill -9, stop, start again on the same directory and port.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from compat_tests.reference import jvm, maven

HOST = "127.0.0.1"
CLUSTER_ID = "b3R0bGFDb21wYXRUZXN0cw"  # the same for every broker, so that answers can be compared
NODE_ID = 1
CONTROLLER_ID = 3000
START_TIMEOUT_S = 90
STOP_TIMEOUT_S = 60

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": str(NODE_ID),
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.prune.interval.ms": "86400000",  # tests compare all that was written, in long runs
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "true",
    "broker.session.timeout.ms": "2000",  # how long a controller keeps the place of a broker that was killed
    "broker.heartbeat.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": "4194304",  # of 128 MiB: these are small logs
}


class BrokerFailed(RuntimeError):
    """A broker did not start or stop; the text holds the end of its log."""


_GIVEN: Final = deque[int](maxlen=1000)


def free_port() -> int:
    """A port nobody listens on, below the range the kernel gives to outgoing connections: a client that dials a killed broker's
    port from that range can meet itself, or hold the port when the broker wants it back. None of the last thousand is given
    again, for somebody may not listen there yet."""
    while True:
        port = random.randint(15000, 32000)
        if port in _GIVEN:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        _GIVEN.append(port)
        return port


def answers_metadata(port: int, host: str = HOST) -> bool:
    """Returns whether a broker at `port` names at least one broker in a Metadata v0 answer."""
    request = struct.pack(">hhihi", 3, 0, 1, -1, 0)  # key, version, correlation id, no client id, no topics
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(12, socket.MSG_WAITALL)  # size, correlation id, number of brokers
    except OSError:
        return False
    return len(answer) == 12 and struct.unpack(">iii", answer)[2] > 0


def end_process(pid: int, how: signal.Signals, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Signal a process, child or not, and wait until it is gone. Raises BrokerFailed when it stays."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, how)
        if not select.select([handle], [], [], timeout_s)[0]:
            raise BrokerFailed(f"process {pid} is still there {timeout_s} s after {how.name}")
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def answers_api_versions(port: int, host: str = HOST) -> bool:
    """Returns whether a node at `port`, which may be a controller, answers ApiVersions v0 without an error."""
    request = struct.pack(">hhih", 18, 0, 1, -1)  # key, version, correlation id, no client id
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(10, socket.MSG_WAITALL)  # size, correlation id, error code
    except OSError:
        return False
    return len(answer) == 10 and struct.unpack(">iih", answer)[2] == 0


class BrokerProcess(ABC):
    """A broker on one directory and one port: it may be killed and started again, and finds its data.

    `settings` are server.properties entries on top of SETTINGS, `host` is the address where it listens.
    """

    kind: str
    start_timeout_s = START_TIMEOUT_S
    inside: Sequence[str] = ()
    """The words before its command that put it elsewhere on this machine, such as in a network namespace."""

    def __init__(
        self, directory: Path, settings: dict[str, str] | None = None, port: int | None = None, host: str = HOST
    ) -> None:
        self.directory = directory
        self.host = host
        self.port = port or free_port()
        self.data_dir = directory / "data"
        self.log_file = directory / "broker.log"
        self.properties = directory / "server.properties"
        self.settings = SETTINGS | self.place() | (settings or {})
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def place(self) -> dict[str, str]:
        """The settings that say where: addresses and directories."""
        controller = free_port()
        return {
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
            "log.dirs": str(self.data_dir),
        }

    @abstractmethod
    def command(self) -> list[str]:
        """Returns what to run; `server.properties` is written."""

    def format(self) -> None:  # noqa: B027 - not every broker needs it
        """Make an empty data directory usable, where the broker does not do that itself."""

    def beside(self) -> list[BrokerProcess]:
        """The processes that this broker starts and stops with itself."""
        return []

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the process, which writes to `log`."""
        return subprocess.Popen(
            [*self.inside, *self.command()],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self.environment(),
        )

    def answers(self) -> bool:
        """Returns whether the broker has come up."""
        return answers_metadata(self.port, self.host)

    def start(self) -> None:
        """Start and wait until the broker answers. Raises BrokerFailed."""
        assert self.process is None, "already running"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        places = [Path(place) for place in self.settings["log.dirs"].split(",")]
        if not self.data_dir.exists() and not any((place / "meta.properties").exists() for place in places):
            self.format()
        with open(self.log_file, "ab") as log:
            self.process = self.spawn(log)
        deadline = time.monotonic() + self.start_timeout_s
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(f"{self.kind} did not come up on port {self.port}:\n{self.log_tail()}")
            time.sleep(0.02)  # between two attempts to connect: another process's readiness has no event to wait for

    def kill(self) -> None:
        """kill -9, as a power cut would not be kinder to the process (the kernel keeps its page cache, though)."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(how)
        try:
            code = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            self.process.wait()
            self.process = None
            raise BrokerFailed(f"{self.kind} ignores {how.name}:\n{self.log_tail()}") from error
        self.process = None
        return code

    def log_tail(self, lines: int = 40) -> str:
        if not self.log_file.exists():
            return "(no log)"
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])


_STOPPED: Final = 128 + signal.SIGTERM


class RealKafka(BrokerProcess):
    """Apache Kafka from Maven's jars. `jvm_options` come on top of those of every JVM of the tests."""

    kind = "kafka"
    format_options: tuple[str, ...] = ("--standalone",)
    """The voters are in the log."""
    jvm_options: tuple[str, ...] = ()

    def _java(self) -> list[str]:
        return jvm.java("kafka", *self.jvm_options)

    def stop(self) -> int:
        """SIGTERM; returns 0 if it stopped in order, which a JVM says as 143."""
        code = super().stop()
        return 0 if code == _STOPPED else code

    def format(self) -> None:
        command = [
            *self._java(),
            "kafka.tools.StorageTool",
            "format",
            *self.format_options,
            "-t",
            CLUSTER_ID,
            "-c",
            str(self.properties),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.directory)
        if done.returncode != 0:
            raise BrokerFailed(f"format failed:\n{done.stdout}{done.stderr}")

    def command(self) -> list[str]:
        return [*self._java(), "kafka.Kafka", str(self.properties)]


class KafkaController(RealKafka):
    """The one controller of a cluster, which is no broker."""

    kind = "controller"

    def place(self) -> dict[str, str]:
        return {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "listeners": f"CONTROLLER://{self.host}:{self.port}",
            "controller.quorum.bootstrap.servers": self.bootstrap,
            "log.dirs": str(self.data_dir),
        }

    def answers(self) -> bool:
        return answers_api_versions(self.port, self.host)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=29092)
    parser.add_argument("--data-dir", type=Path, help="kept; without it a temporary directory is used and removed")
    parser.add_argument("--override", action="append", default=[], metavar="key=value")
    arguments = parser.parse_args()
    settings = dict(entry.split("=", 1) for entry in arguments.override)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="reference-kafka-") as temporary:
        broker = RealKafka(arguments.data_dir or Path(temporary), settings, arguments.port)
        try:
            broker.start()
            print(f"Apache Kafka 4.4.0 ready: bootstrap {broker.bootstrap}, directory {broker.directory}", flush=True)
            assert broker.process is not None
            return broker.process.wait()
        except KeyboardInterrupt:
            return 0
        except (BrokerFailed, maven.MavenFailed) as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            broker.stop()


if __name__ == "__main__":
    sys.exit(main())
