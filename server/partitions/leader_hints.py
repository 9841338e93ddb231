"""The leader of a partition, which an answer names when it refuses with NOT_LEADER_OR_FOLLOWER (KIP-951): the client goes there
without asking for metadata first.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.server.metadata.image import MetadataImage


class LeaderHint(NamedTuple):
    """`leader_id` -1: nobody leads. `host` is None where the leader has no such listener."""

    leader_id: int
    leader_epoch: int
    host: str | None
    port: int
    rack: str | None


def leader_hint(image: MetadataImage, topic: str, index: int, listener: str) -> LeaderHint:
    """The leader of a partition, and its address on the listener that the client came by."""
    partition = image.partition(topic, index)
    if partition is None:
        return LeaderHint(-1, -1, None, 0, None)
    broker = image.brokers.get(partition.leader)
    endpoint = broker.endpoints.get(listener) if broker is not None and not broker.fenced else None
    if broker is None or endpoint is None:
        return LeaderHint(partition.leader, partition.leader_epoch, None, 0, None)
    return LeaderHint(partition.leader, partition.leader_epoch, endpoint.host, endpoint.port, broker.rack)
