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

from compat_tests.reference.kafka import CLUSTER_ID, HOST, BrokerProcess, RealKafka, end_process

KINDS = ("ottla", "kafka")


class Ottla(BrokerProcess):
    """Our broker, run as a user runs it, by the interpreter of the tests."""

    kind = "ottla"

    def environment(self) -> dict[str, str]:
        return super().environment() | {"CLUSTER_ID": CLUSTER_ID}

    def command(self) -> list[str]:
        return [sys.executable, "-m", "ottla", "serve", str(self.properties)]


CLASSES: dict[str, type[BrokerProcess]] = {"ottla": Ottla, "kafka": RealKafka}


@dataclass(frozen=True)
class Address:
    """A running broker of the whole run: where it listens and where its log is."""

    kind: str
    port: int
    pid: int
    log_file: str

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"


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
                broker = CLASSES[kind](self.directory / name)
                broker.start()
                assert broker.process is not None
                broker.process.returncode = 0  # not ours to wait for: it outlives this worker, and stop_all ends it
                note.write_text(json.dumps([kind, broker.port, broker.process.pid, str(broker.log_file)]))
        return Address(*json.loads(note.read_text()))

    def stop_all(self) -> None:
        for note in sorted(self.directory.glob("*.json")):
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
