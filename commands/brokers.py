"""All brokers of a cluster by connections of our own (direct.py says what these can do), each made when it is first needed."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from ottla.commands import client, direct
from ottla.commands.output import Failure

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata


class Brokers:
    """A context manager: its end closes the connections. Everything raises Failure."""

    def __init__(self, cluster: client.Cluster, metadata: ClusterMetadata | None = None) -> None:
        self._cluster = cluster
        self._stack = ExitStack()
        self._connections: dict[int, direct.Connection] = {}
        self.metadata = cluster.reach(cluster.admin()) if metadata is None else metadata

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def at(self, broker: int) -> direct.Connection:
        if broker not in self._connections:
            if broker not in self.metadata.brokers:
                raise Failure(f"broker {broker} is not available")
            place = self.metadata.brokers[broker]
            made = direct.connect(self._cluster, str(place.host), place.port)
            self._connections[broker] = self._stack.enter_context(made)
        return self._connections[broker]

    def partitions(self, topic: str) -> int:
        """How many there are; none of a topic that is gone."""
        found = self.metadata.topics.get(topic)
        return 0 if found is None else len(found.partitions)


def check(code: int, message: str | None = None) -> None:
    """Failure for an error code."""
    if code:
        raise Failure(direct.words(code, message))
