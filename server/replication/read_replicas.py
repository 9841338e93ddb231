"""Reading from the nearest replica (KIP-392): with `replica.selector.class` set to Kafka's `RackAwareReplicaSelector`, a leader
sends a consumer to an in-sync replica in the consumer's rack, if it is not in that rack itself.

Of several, it takes the one with the greatest log end, then the one that was caught up last, then the greatest broker id. A
replica counts only if it has the offset that the consumer asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.server.partitions.roles import Leader

if TYPE_CHECKING:
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replica import Replica

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY: Final = "org.apache.kafka.common.replica.LeaderSelector"


class RackAware:
    """Chooses replicas by the racks that brokers registered; `node_id` is this broker's."""

    def __init__(self, node_id: int, image: MetadataImage) -> None:
        self._node_id = node_id
        self._image = image

    def choose(self, replica: Replica, offset: int, rack: str) -> int | None:
        """Returns the broker id of the replica to read from, None if that is the leader."""
        role, brokers = replica.role, self._image.brokers
        high_watermark = role.high_watermark if isinstance(role, Leader) else None
        own = brokers.get(self._node_id)
        if high_watermark is None or (own is not None and own.rack == rack):
            return None
        candidates = []
        for follower, state in high_watermark.followers.items():
            broker = brokers.get(follower)
            if broker is None or broker.fenced or broker.rack != rack or follower not in high_watermark.in_sync:
                continue
            if state.log_start_offset <= offset <= state.end_offset:
                candidates.append((state.end_offset, state.caught_up_at, follower))
        return max(candidates)[2] if candidates else None
