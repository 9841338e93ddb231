"""Leader hints (KIP-951): an answer with NOT_LEADER_OR_FOLLOWER names the partition's leader, so that the client can turn to it
without asking for metadata first.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.server.metadata.image import MetadataImage


class LeaderHint(NamedTuple):
    """The leader of a partition and its address. `leader_id` is -1 if there is no leader; `host` is None if the leader has no
    listener of the name that was asked for.
    """

    leader_id: int
    leader_epoch: int
    host: str | None
    port: int
    rack: str | None


def leader_hint(image: MetadataImage, topic: str, index: int, listener: str) -> LeaderHint:
    """Returns the leader of a partition and its address on `listener`, the one that the client is connected to."""
    partition = image.partition(topic, index)
    if partition is None:
        return LeaderHint(-1, -1, None, 0, None)
    broker = image.brokers.get(partition.leader)
    endpoint = broker.endpoints.get(listener) if broker is not None and not broker.fenced else None
    if broker is None or endpoint is None:
        return LeaderHint(partition.leader, partition.leader_epoch, None, 0, None)
    return LeaderHint(partition.leader, partition.leader_epoch, endpoint.host, endpoint.port, broker.rack)
