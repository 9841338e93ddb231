"""The nodes of a cluster as processes: controllers of Apache Kafka, and brokers of ottla that join them.

Both read Kafka's own server.properties. The quorum is a dynamic one (kraft.version 1), whose voter is in the metadata log.
"""

from __future__ import annotations

from pathlib import Path

from compat_tests.brokers import Address, Ottla
from compat_tests.reference.kafka import CONTROLLER_ID, HOST, BrokerProcess, KafkaController, RealKafka
from compat_tests.wire import Connection

__all__ = ["CONTROLLER_ID", "KafkaBroker", "KafkaController", "OttlaBroker", "connect"]


class _Joining(BrokerProcess):
    """A broker whose controllers are others; `controllers` is the address of one of them."""

    def __init__(
        self,
        directory: Path,
        node_id: int,
        controllers: str,
        settings: dict[str, str] | None = None,
        host: str = HOST,
        port: int | None = None,
    ) -> None:
        self.node_id = node_id
        self.controllers = controllers
        super().__init__(directory, settings, port, host)

    def place(self) -> dict[str, str]:
        return {
            "process.roles": "broker",
            "node.id": str(self.node_id),
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "controller.quorum.bootstrap.servers": self.controllers,
            "log.dirs": str(self.data_dir),
        }


class KafkaBroker(_Joining, RealKafka):
    """A broker of Apache Kafka under controllers elsewhere."""

    format_options = ()


class OttlaBroker(_Joining, Ottla):
    """A broker of ottla under controllers elsewhere."""


def connect(broker: BrokerProcess) -> Connection:
    """Returns a new connection to the listener of a broker."""
    return Connection(Address(broker.kind, broker.port, 0, str(broker.log_file), broker.host))
