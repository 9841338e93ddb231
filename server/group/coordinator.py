"""The group coordinator: which partition of `__consumer_offsets` a group belongs to, and whether this broker leads it.

A group lives in partition abs(hash of its id) mod the partition count, with Java's string hash, as every Kafka broker has it. The
leader of that partition is the group's coordinator: it loads the partition when it takes it over (shard.py, server/coordination/)
and forgets it when it loses it. This object sees partitions only through CoordinatorLog, and topics as a Cluster (cluster.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from ottla.server.base.clock import Clock
from ottla.server.coordination.java_hash import java_hash_bucket
from ottla.server.coordination.runtime import CoordinatorLog, CoordinatorRuntime
from ottla.server.group.cluster import Cluster
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.errors import GroupError
from ottla.server.group.seam import Group
from ottla.server.group.shard import Shard
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.coordination.internal_topic import Appended

logger = logging.getLogger("ottla.server.group")

TOPIC = "__consumer_offsets"
LONGEST_STRING = 32_767
"""In bytes: the keys and values in `__consumer_offsets` have lengths of 16 bits, which newer requests do not."""


class GroupCoordinator:
    def __init__(
        self, log: CoordinatorLog, clock: Clock, settings: GroupCoordinatorConfig, node_id: int, cluster: Cluster, random: Random
    ) -> None:
        self.settings = settings
        self._cluster = cluster
        self._random = random
        self._log = log
        self._clock = clock
        self._shards = CoordinatorRuntime(TOPIC, log, clock, node_id, self._make, loaded=self._loaded, unloaded=self._unloaded)
        self._deleted_while_loading: dict[int, list[str]] = {}

    # Routing

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that `group_id` belongs to. GroupError while there is no such topic."""
        count = self._log.partition_count()
        if count == 0:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return java_hash_bucket(group_id, count)

    def shard(self, group_id: str) -> Shard:
        """Where `group_id` lives.

        GroupError: INVALID_GROUP_ID if no record could hold it, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        if len(group_id.encode()) > LONGEST_STRING:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        shard = self._shards.take_over(self.partition_for(group_id))
        if shard is None:
            raise GroupError(ErrorCode.NOT_COORDINATOR)
        if shard.loading:
            raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def member_shard(self, group_id: str) -> Shard:
        """As `shard`, for operations of members: "" is a group for offsets only, not one to join. GroupError INVALID_GROUP_ID."""
        if not group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        return self.shard(group_id)

    def find(self, group_id: str) -> Group | None:
        """The group, if it exists. Raises GroupError as `shard`."""
        return self.shard(group_id).groups.get(group_id)

    def all_groups(self) -> Iterator[Group]:
        """All groups that this broker coordinates. GroupError COORDINATOR_LOAD_IN_PROGRESS while some are unknown."""
        self.refresh()
        if any(shard.loading for shard in self._shards.values()):
            raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for shard in self._shards.values():
            yield from shard.groups.values()

    def loaded_shards(self) -> list[Shard]:
        """The partitions whose groups are known; those that are loading are not among them."""
        return [shard for shard in self._shards.values() if not shard.loading]

    # Leadership

    def refresh(self) -> None:
        """Load all partitions that this broker leads and unload the others. Called at the start."""
        self._shards.refresh()

    def follow(self, partition: int) -> None:
        """The leader of one partition may have changed: load it or unload it."""
        self._shards.follow(partition)

    def unload(self, partition: int) -> None:
        self._shards.unload(partition)

    def close(self) -> None:
        """Stop all timers; parked requests are answered NOT_COORDINATOR."""
        self._shards.close()

    def _make(self, partition: int, leader_epoch: int, append: Callable[[bytes], Appended]) -> Shard:
        return Shard(partition, leader_epoch, append, self._clock, self.settings, self._cluster, self._random)

    def _loaded(self, shard: Shard) -> None:
        if shard.groups:
            logger.info("partition %d of __consumer_offsets is loaded: %d groups", shard.partition, len(shard.groups))
        for topic in self._deleted_while_loading.pop(shard.partition, ()):
            self._delete_topic(shard, topic)

    def _unloaded(self, shard: Shard) -> None:
        self._deleted_while_loading.pop(shard.partition, None)

    # What happens around groups

    def is_loaded(self, partition: int) -> bool:
        """Is everything known that is in a partition which this broker leads? Begins to load it where it is not."""
        self.follow(partition)
        shard = self._shards.get(partition)
        return shard is not None and not shard.loading

    def transaction_ended(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """A marker was appended to a partition that is loaded: the offsets of the transaction count, or never will."""
        self._shards[partition].end_transaction(producer_id, committed=committed)

    def topic_changed(self, topic: str, *, is_new: bool = False) -> None:
        """A topic was created (`is_new`) or deleted, or got partitions or other replicas."""
        for shard in self._shards.values():
            if not shard.loading:
                shard.topic_changed(topic, is_new=is_new)

    def topic_deleted(self, topic: str) -> None:
        """Committed offsets go with their topic; if it is the one they are kept in, so do the groups."""
        if topic == TOPIC:
            self.refresh()
            return
        for shard in self._shards.values():
            if shard.loading:
                self._deleted_while_loading.setdefault(shard.partition, []).append(topic)
            else:
                self._delete_topic(shard, topic)

    @staticmethod
    def _delete_topic(shard: Shard, topic: str) -> None:
        try:
            shard.delete_topic(topic)
        except GroupError as error:
            logger.warning("offsets of the deleted topic %s are left in partition %d: %s", topic, shard.partition, error)

    def expire(self) -> None:
        """Drop old offsets and abandoned groups. The scheduler calls this every `offsets.retention.check.interval.ms`."""
        for shard in self._shards.values():
            if shard.loading:
                continue
            try:
                shard.expire()
            except GroupError as error:
                logger.warning("offsets of partition %d were not expired: %s", shard.partition, error)
