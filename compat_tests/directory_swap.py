"""A data directory that brokers take over from each other: one set of settings, one port, one broker at a time."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compat_tests.brokers import CLASSES, Address
from compat_tests.directory_history import HISTORY_SETTINGS
from compat_tests.reference import jvm
from compat_tests.reference.kafka import CLUSTER_ID, BrokerProcess
from compat_tests.wire import Wire

PREFIX: Final = "swap"  # of topics and groups; the directory is the test's own
STOP, KILL = "stop", "kill -9"


@dataclass
class Served:
    """A broker while it has the directory."""

    broker: BrokerProcess
    address: Address
    wire: Wire

    @property
    def bootstrap(self) -> str:
        return self.address.bootstrap


class Directory:
    """`path` holds server.properties, the log of all brokers, and two log directories. `copy` makes another of the same state."""

    def __init__(self, path: Path, settings: dict[str, str] | None = None, *, static_voters: bool = False) -> None:
        """`static_voters`: the quorum stands in the settings, as before kraft.version 1, instead of in the directory."""
        self.path = path
        self._static_voters = static_voters
        self._own = settings or {}
        self._port: int | None = None
        self._addresses: dict[str, str] | None = None

    @property
    def log_dirs(self) -> list[Path]:
        return [self.path / "data" / name for name in ("one", "two")]

    def broker(self, kind: str) -> BrokerProcess:
        """Not started. The addresses are those of the first: a voter is known by its address."""
        broker = CLASSES[kind](self.path, HISTORY_SETTINGS | self._own, self._port)
        if self._addresses is None:
            self._port, self._addresses = broker.port, {name: text for name, text in broker.settings.items() if _says_where(name)}
        broker.settings |= self._addresses | {"log.dirs": ",".join(str(path) for path in self.log_dirs)}
        if self._static_voters:
            broker.settings["controller.quorum.voters"] = f"1@{broker.settings.pop('controller.quorum.bootstrap.servers')}"
        return broker

    @contextmanager
    def served_by(self, kind: str, end: str = STOP) -> Iterator[Served]:
        """A running broker of this kind, which ends in the given way. Raises BrokerFailed."""
        broker = self.broker(kind)
        broker.start()
        assert broker.process is not None
        address = Address(kind, broker.port, broker.process.pid, str(broker.log_file))
        wire = Wire(address, PREFIX)
        try:
            yield Served(broker, address, wire)
        finally:
            wire.close()
            if end == KILL:
                broker.kill()
            else:
                broker.stop()

    def format(self, *options: str) -> None:
        """By Apache Kafka's StorageTool, with its options. Raises CalledProcessError."""
        broker = self.broker("kafka")
        self.path.mkdir(parents=True)
        broker.properties.write_text("".join(f"{name}={text}\n" for name, text in broker.settings.items()))
        tool = [*jvm.java("kafka"), "kafka.tools.StorageTool", "format"]
        subprocess.run([*tool, "-t", CLUSTER_ID, "-c", str(broker.properties), *options], check=True, capture_output=True)

    def copy(self, path: Path) -> Directory:
        shutil.copytree(self.path, path)
        copied = Directory(path, self._own, static_voters=self._static_voters)
        copied._port, copied._addresses = self._port, self._addresses
        return copied


def _says_where(name: str) -> bool:
    return name in ("listeners", "advertised.listeners") or name.startswith("controller.quorum.")
