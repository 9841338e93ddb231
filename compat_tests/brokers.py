"""The two brokers under test, as processes: ottla, and Apache Kafka from compat_tests/reference/kafka.py.

Both read the same server.properties, for ottla takes Kafka's file as it is, and carry the same cluster id.

`SharedBrokers` gives one broker of each kind to a whole test run, however many pytest-xdist workers it has: the worker that first
needs one starts it under a file lock and leaves a note in the run's directory; the others read the note; the run's first process
stops what the notes name when all workers are done.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compat_tests.reference.kafka import CLUSTER_ID, HOST, BrokerProcess, KafkaController, RealKafka, end_process

KINDS: Final = ("ottla", "kafka")


class Ottla(BrokerProcess):
    """Our broker, run as a user runs it, by the interpreter of the tests."""

    kind = "ottla"

    def environment(self) -> dict[str, str]:
        return super().environment() | {"CLUSTER_ID": CLUSTER_ID}

    def command(self) -> list[str]:
        return [sys.executable, "-m", "ottla", "serve", str(self.properties)]


class OttlaInQuorum(Ottla):
    """Our broker as the only one of a cluster whose controller is Apache Kafka's. The controller starts with the broker, survives
    its `kill` and stops with it. It gets the same settings, since it is the one that creates topics."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None, port: int | None = None) -> None:
        given = {key: value for key, value in (settings or {}).items() if key not in OF_THE_PLACE}
        self.controller = KafkaController(directory / "controller", given)
        super().__init__(directory, settings, port)

    def place(self) -> dict[str, str]:
        return {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "controller.quorum.bootstrap.servers": self.controller.bootstrap,
            "log.dirs": str(self.data_dir),
        }

    def beside(self) -> list[BrokerProcess]:
        return [self.controller]

    def start(self) -> None:
        if self.controller.process is None:
            self.controller.start()
        super().start()

    def stop(self) -> int:
        try:
            return super().stop()
        finally:
            self.controller.stop()


IN_QUORUM: Final = bool(os.environ.get("OTTLA_COMPAT_QUORUM"))
"""True if tests of this run that ask for ottla get a broker of a real quorum, and no Apache Kafka beside it."""
OF_THE_PLACE: Final = frozenset(
    ("process.roles", "node.id", "listeners", "advertised.listeners", "log.dirs", "metadata.log.dir", "controller.quorum.voters")
)
CLASSES: Final[dict[str, type[BrokerProcess]]] = {"ottla": OttlaInQuorum if IN_QUORUM else Ottla, "kafka": RealKafka}


@dataclass(frozen=True)
class Address:
    """A running broker of the whole run: where it listens and where its log is."""

    kind: str
    port: int
    pid: int
    log_file: str
    host: str = HOST

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"


@contextmanager
def one_of_each(directory: Path, settings: dict[str, str] | None = None) -> Iterator[list[Address]]:
    """Starts a fresh broker of each kind for the block, in the order of KINDS. Raises BrokerFailed."""
    brokers = [CLASSES[kind](directory / kind, settings) for kind in KINDS]
    try:
        addresses = []
        for broker in brokers:
            broker.start()
            assert broker.process is not None
            addresses.append(Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file)))
        yield addresses
    finally:
        for broker in brokers:
            broker.stop()


NEVER_KILLED: Final = {"broker.session.timeout.ms": "9000"}
"""Kafka's default in place of what SETTINGS has for brokers that are killed. On a busy machine, Kafka would give
up a broker of its own process whose heartbeats are two seconds late."""


class SharedBrokers:
    """The brokers of one test run, by their notes in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def get(self, kind: str, purpose: str = "") -> Address:
        """Returns the run's broker of this kind, or one for this purpose; starts it if it is not running. Raises BrokerFailed."""
        name = f"{kind}{purpose}"
        note = self.directory / f"{name}.json"
        with open(self.directory / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not note.exists():
                broker = CLASSES[kind](self.directory / name, NEVER_KILLED)
                broker.start()
                assert broker.process is not None
                for process in (*broker.beside(), broker):
                    assert process.process is not None
                    process.process.returncode = 0  # not ours to wait for: it outlives this worker, and stop_all ends it
                    of_it = note if process is broker else note.with_suffix(f".{process.kind}.json")
                    of_it.write_text(json.dumps([process.kind, process.port, process.process.pid, str(process.log_file)]))
        return Address(*json.loads(note.read_text()))

    def stop_all(self) -> None:
        for note in sorted(self.directory.glob("*.json"), reverse=True):  # a broker before what is beside it
            address = Address(*json.loads(note.read_text()))
            end_process(address.pid, signal.SIGTERM)
            reap(address.pid)
            note.unlink()


def reap(pid: int) -> None:
    """Takes the exit status of a child that has ended, if it is ours (without xdist, worker and first process are one)."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
