"""The share partitions and sessions of one simulated node (KIP-932).

The state of share partitions is the broker's, but a member has a session with each node, and a node serves what it leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.server.share.persister import ShareError
from ottla.server.share.sessions import ShareSessions
from ottla.server.share.share_partitions import SharePartitions
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.partitions.replica import Replica
    from ottla.server.share.sessions import TopicIdPartition
    from ottla.server.share.share_partition import SharePartition
    from ottla.server.share_state.state import SharePartition as SharePartitionKey


class NodeSharePartitions(SharePartitions):
    """The share partitions of the broker, of which a node has those that it leads, and sessions of its own."""

    def __init__(self, shared: SharePartitions, node_id: int) -> None:
        vars(self).update(vars(shared))  # the same dictionaries
        self._keep_sessions(ShareSessions(shared.sessions.max_bytes))
        self._node_id = node_id

    def get(self, group_id: str, partition: TopicIdPartition) -> SharePartition | None:
        """See SharePartitions."""
        return super().get(group_id, partition) if self._leads(*partition) else None

    def load(self, group_id: str, replica: Replica) -> SharePartition:
        """See SharePartitions."""
        if not self._leads(replica.topic_id, replica.partition):
            raise ShareError(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
        return super().load(group_id, replica)

    def _own(self, keys: Iterable[SharePartitionKey]) -> list[SharePartitionKey]:
        """See SharePartitions. What other nodes lead stays."""
        return [key for key in keys if self._leads(key.topic_id, key.partition)]

    def _leads(self, topic_id: bytes, index: int) -> bool:
        image = self._image.partition_by_id(topic_id, index)
        return image is not None and image.leader == self._node_id
