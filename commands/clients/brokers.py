"""Connections of our own to all brokers of a cluster, each opened when it is first needed (direct.py says what they can do)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from ottla.commands.clients import client, direct
from ottla.commands.output import Failure

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata


class Brokers:
    """A context manager that closes its connections at the end. Whatever asks a broker raises Failure."""

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
        """Returns how many partitions the topic has; 0 if it has been deleted."""
        found = self.metadata.topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def by_leader(self, wanted: Iterable[tuple[str, int]]) -> dict[int, dict[str, list[int]]]:
        """Returns these partitions, as topic and number, by leader and topic. Those that are not in the metadata, or have no
        leader, are left out."""
        found: dict[int, dict[str, list[int]]] = {}
        for topic, number in wanted:
            there = self.metadata.topics.get(topic)
            place = None if there is None else there.partitions.get(number)
            if place is not None and place.leader >= 0:
                found.setdefault(place.leader, {}).setdefault(topic, []).append(number)
        return found


def by_broker(pairs: Iterable[tuple[int, str]]) -> dict[int, list[str]]:
    """Returns the names by the broker that each comes with, so that a broker is asked for all of its own at once."""
    found: dict[int, list[str]] = {}
    for broker, name in pairs:
        found.setdefault(broker, []).append(name)
    return found


def check(code: int, message: str | None = None) -> None:
    """Raises direct.Refused, a Failure, if the answer carries an error code."""
    if code:
        raise direct.Refused(code, direct.words(code, message))
