"""`Repairs`: what becomes of a replica whose bytes are damaged, in a cluster whose controllers are others.

Coordinators come upon damage when they load a partition that this broker has begun to lead, and serve nothing from it
(server/coordination/runtime.py). Where another replica is in sync, nobody has to do anything about it:

| the metadata say | this broker |
|---|---|
| its damaged replica is in sync, and others are | withdraws it (server/metadata/withdrawals.py): another one leads |
| it is withdrawn and out of sync, and another one leads | cuts its log where the damage begins, and fetches the rest from there |
| it is withdrawn and in sync | restores it: it has all of the leader's records again, and may lead again |
| it is withdrawn, nobody has led since, and nobody can | restores it as it is: an operator has to decide what to do without |

A replica is cut only when it counts for nothing any more, so nothing is lost that only it has. Until it is in sync again, it is
not elected, although it may be among the eligible leader replicas; but if nobody leads and it is not among these, it is restored,
so that an operator can choose it by an unclean election. If no other replica is in sync, a damaged one stays as it is until there
is one. All of this follows from the metadata and from what was found, so a restart in the middle goes on; if the cut had not
happened by then, the damage is found again when this broker leads again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.log.errors import StorageError
from ottla.server.base.damage import way_out
from ottla.server.metadata.image import NO_LEADER
from ottla.server.metadata.withdrawals import WITHDRAWN, Withdrawals
from ottla.server.partitions.roles import Follower
from ottla.server.replication.truncation import cut_damage

if TYPE_CHECKING:
    from ottla.server.metadata.image import MetadataImage, PartitionImage
    from ottla.server.partitions.replica import Replica

logger = logging.getLogger("ottla.server.replication")


class Repairs:
    """The damaged replicas of the broker `node_id`. `directory_id` returns the id of the log directory at a path, and `refetch`
    has a follower fetched from its log's end, whatever is under way for it.
    """

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        withdrawals: Withdrawals,
        directory_id: Callable[[str], bytes],
        refetch: Callable[[Replica], object],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._withdrawals = withdrawals
        self._directory_id = directory_id
        self._refetch = refetch
        self._damaged: dict[Replica, int] = {}
        """The offset at which the damage of each replica begins."""
        self._last: set[Replica] = set()
        """Those that were restored because nobody else could lead, and that have to be elected yet."""

    def note_damage(self, replica: Replica, offset: int) -> str:
        """Notes that a replica is damaged from `offset` on. Returns what becomes of it, as sentences for the log."""
        self._damaged[replica] = offset
        partition = self._image.partition_by_id(replica.topic_id, replica.partition)
        others = [] if partition is None else self._others_in_sync(partition)
        if not others or not self._withdrawals.are_possible():
            return f"No other replica can take over. {way_out(replica.log.path)}"
        self.update(replica)
        brokers = " or ".join(f"broker {each}" for each in others)
        return f"The controllers are asked to have {brokers} lead it, and this replica is fetched again from there"

    def update(self, replica: Replica) -> None:
        """Does what the metadata ask for, after any change of a replica's role."""
        partition = self._image.partition_by_id(replica.topic_id, replica.partition)
        if partition is None or self._node_id not in partition.replicas:
            self._damaged.pop(replica, None)
            self._last.discard(replica)
        elif replica in self._damaged:
            self._update_damaged(replica, partition)
        elif self._is_withdrawn(partition):
            self._update_repaired(replica, partition)

    def _update_damaged(self, replica: Replica, partition: PartitionImage) -> None:
        if partition.leader == NO_LEADER and (self._is_withdrawn(partition) or replica in self._last):
            self._last.add(replica)
            self._restore(replica)
            return
        self._last.discard(replica)
        if not self._is_withdrawn(partition) or self._node_id in partition.isr:
            if self._others_in_sync(partition) and self._withdrawals.are_possible():
                self._withdrawals.withdraw(replica.topic_id, replica.partition)
        elif isinstance(replica.role, Follower):
            self._cut(replica, self._damaged.pop(replica), partition.leader)

    def _update_repaired(self, replica: Replica, partition: PartitionImage) -> None:
        if self._node_id in partition.isr:
            logger.info("%s-%d is in sync again, and may be led from here", replica.topic, replica.partition)
            self._restore(replica)
        elif partition.leader == NO_LEADER and self._node_id not in partition.elr:
            self._restore(replica)

    def _is_withdrawn(self, partition: PartitionImage) -> bool:
        return partition.directory_of(self._node_id) == WITHDRAWN

    def _others_in_sync(self, partition: PartitionImage) -> list[int]:
        brokers = self._image.brokers
        return [
            each
            for each in partition.isr
            if each != self._node_id and (broker := brokers.get(each)) is not None and broker.active
        ]

    def _restore(self, replica: Replica) -> None:
        directory_id = self._directory_id(replica.log.directory.path)
        self._withdrawals.restore(replica.topic_id, replica.partition, directory_id)

    def _cut(self, replica: Replica, offset: int, leader: int) -> None:
        """Cuts the log. If the disk fails, its directory goes offline, and the replica with it."""
        try:
            cut_damage(replica.log, offset)
        except StorageError as error:
            logger.error("%s-%d stays damaged: %s", replica.topic, replica.partition, error)
            return
        text = "%s-%d: what was damaged, from offset %d on, is cut, and fetched again from broker %d, which leads"
        logger.warning(text, replica.topic, replica.partition, replica.log.log_end_offset, leader)
        self._refetch(replica)
