"""Sends consumers of simulated nodes to the replica in their rack, where `replica.selector.class` asks for that (KIP-392).

All in-sync replicas have everything, because there is one copy, so the first in the consumer's rack will do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replica import Replica


class NearReplicas:
    """Chooses replicas by the racks of nodes; `node_id` is that of the node that is asked."""

    def __init__(self, node_id: int, image: MetadataImage) -> None:
        self._node_id = node_id
        self._image = image

    def choose(self, replica: Replica, offset: int, rack: str) -> int | None:
        """Returns the id of the node to read from, None if that is the one that is asked."""
        partition, brokers = self._image.partition(replica.topic, replica.partition), self._image.brokers
        if partition is None or partition.leader != self._node_id:
            return None  # a follower that is asked serves what it has
        near = [each for each in partition.isr if each in brokers and brokers[each].active and brokers[each].rack == rack]
        return None if not near or self._node_id in near else near[0]
