"""The cluster of a broker that simulates several: it registers all nodes, and changes who leads when they come and go.

What it writes are the records of a real cluster, so that clients, coordinators and an Apache Kafka that reads the metadata see
nothing else: registrations, leader epochs, in-sync replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Protocol

from ottla.server.base.randomness import random_uuid
from ottla.server.metadata.membership import unregister_broker
from ottla.server.metadata.standalone_cluster import StandaloneCluster
from ottla.server.testkit.nodes import node_rules
from ottla.wire.messages.create_topics import CreateTopicsRequest

if TYPE_CHECKING:
    from ottla.server.metadata.image import Endpoint
    from ottla.server.testkit.nodes.node import Node
    from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
    from ottla.wire.primitives import WireStruct


class Members(Protocol):
    """Declares what the cluster needs of its nodes."""

    @property
    def ids(self) -> AbstractSet[int]:
        """The ids of all nodes, always as they are."""
        ...

    @property
    def alive(self) -> frozenset[int]:
        """The ids of the nodes that may lead."""
        ...

    def __iter__(self) -> Iterator[Node]:
        """Iterates over the nodes, the broker's own first."""
        ...


class SimulatedCluster(StandaloneCluster):
    """A cluster whose nodes are all this one."""

    def __init__(self, nodes: Members, *parts: Any) -> None:
        """`parts` are what StandaloneCluster takes."""
        super().__init__(*parts)
        self._nodes = nodes
        self._settings.nodes = nodes.ids

    async def register(self, endpoints: Sequence[Endpoint], *, rack: str | None = None) -> int:
        """See Cluster. A new leader epoch begins in every partition, as it does when a real cluster was restarted."""
        records = self._controller_registration(random_uuid(self._random))
        epoch = self._log.end_offset + len(records)
        for node in self._nodes:  # the broker itself is the first
            records.append(self._registration(node, len(records)))
        gone = self.image.brokers.keys() - self._nodes.ids
        self._controller.commit(records)
        for broker_id in gone:  # a snapshot may have nodes that there are no more
            self._controller.commit(unregister_broker(self.image, self._settings.node_id, broker_id).records)
        self._controller.commit(node_rules.elect_all(self.image, self._nodes.alive))
        self.image.subscribe(self._follow)
        return epoch

    def _registration(self, node: Node, at: int) -> WireStruct:
        record = self._broker_registration(node.id, random_uuid(self._random), node.registered_endpoints, node.rack, at=at)
        record.fenced = not node.is_alive
        return record

    def update(self, node: Node, *, was_alive: bool) -> None:
        """Registers a node as it is now, and changes who leads if it has come or gone. Raises StorageError, with nothing
        changed."""
        changes: list[PartitionChangeRecord] = []
        if node.is_alive and not was_alive:
            changes = node_rules.regain(self.image, node.id)
        elif was_alive and not node.is_alive:
            changes = node_rules.lose(self.image, node.id, self._nodes.alive)
        self._controller.commit([self._registration(node, 0), *changes])

    def move(self, topic: str, index: int, leader: int | None, isr: Sequence[int] | None) -> None:
        """Gives a partition a leader or other in-sync replicas. Raises Refused, and StorageError."""
        self._controller.commit([node_rules.move(self.image, topic, index, leader, isr, self._nodes.alive)])

    async def create(self, topic: str) -> None:
        """Creates an internal topic, if it is not there. Raises StorageError."""
        if topic not in self.image.topics:
            await self._controller.create_topics(CreateTopicsRequest([self._controller.default_topic(topic)]), None)

    def check_forget(self, node: Node) -> None:
        """Raises Refused if a node cannot be taken out of the cluster."""
        node_rules.check_forget(self.image, node.id)

    def forget(self, node: Node) -> None:
        """Takes a node that is not alive, and that `check_forget` lets go, out of the cluster for good. Raises StorageError."""
        self._controller.commit(node_rules.forget(self.image, node.id, self._nodes.alive))
        self._controller.commit(unregister_broker(self.image, self._settings.node_id, node.id).records)
