"""The group coordinator finds the partition of `__consumer_offsets` that a group belongs to, and its shard if this broker leads
it.

A group belongs to partition abs(hash of its id) mod the partition count, with Java's string hash, as in every Kafka broker. The
leader of that partition is the group's coordinator: it loads the partition when it takes it over (shard.py, server/coordination/)
and unloads it when it loses it. This module sees partitions only through CoordinatorLog, and topics as a Cluster (cluster.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.server.base.clock import Clock
from ottla.server.base.turns import Steps, take_in_background
from ottla.server.coordination.java_hash import java_hash_bucket
from ottla.server.coordination.runtime import CoordinatorLog, CoordinatorRuntime
from ottla.server.group.cluster import Cluster
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.errors import GroupError
from ottla.server.group.group import Group
from ottla.server.group.pending_ids import PendingIds
from ottla.server.group.shard import GroupShard
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import LONGEST_STRING

if TYPE_CHECKING:
    from ottla.server.base.promise import Promise
    from ottla.server.coordination.internal_topic import Appended

logger = logging.getLogger("ottla.server.group")

T = TypeVar("T")

_REMOVE_TOPIC: Final = "remove the offsets of the deleted topic {}"
_REMOVE_MISSING: Final = "remove the offsets of topics that were deleted earlier"


class GroupCoordinator:
    """The group coordinator of this broker, with the shards of the partitions that it leads. With `others_coordinate`, other
    brokers may have coordinated the groups that it loads, and left offsets of topics that were deleted meanwhile.
    """

    def __init__(
        self,
        log: CoordinatorLog,
        clock: Clock,
        settings: GroupCoordinatorConfig,
        cluster: Cluster,
        random: Random,
        *,
        others_coordinate: bool = False,
    ) -> None:
        self.settings = settings
        self.pending_ids = PendingIds()
        self._cluster = cluster
        self._random = random
        self._log = log
        self._clock = clock
        self._shards = CoordinatorRuntime(
            CONSUMER_OFFSETS, log, clock, self._make, GroupError, loaded=self._loaded, unloaded=self._unloaded
        )
        self._others_coordinate = others_coordinate
        self._deleted_while_loading: dict[int, list[str]] = {}
        self._deletions: list[tuple[GroupShard, str, int]] = []
        """Topics whose offsets are to be removed from a shard: its offsets up to the record that was the last one then."""

    # Routing

    def partition_for(self, group_id: str) -> int:
        """Returns the partition of `__consumer_offsets` that `group_id` belongs to. Raises GroupError COORDINATOR_NOT_AVAILABLE
        while there is no such topic.
        """
        count = self._log.partition_count()
        if count == 0:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return java_hash_bucket(group_id, count)

    def shard(self, group_id: str) -> GroupShard:
        """Returns the shard that `group_id` belongs to.

        Raises GroupError: INVALID_GROUP_ID if the id is too long for a record, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        if len(group_id.encode()) > LONGEST_STRING:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        return self._shards.loaded_shard(self.partition_for(group_id))

    def member_shard(self, group_id: str) -> GroupShard:
        """Returns the shard as `shard` does, for operations of members. The group "" may have offsets but no members, and raises
        GroupError INVALID_GROUP_ID.
        """
        if not group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        return self.shard(group_id)

    def find(self, group_id: str) -> Group | None:
        """Returns the group, or None if it does not exist. Raises GroupError as `shard` does."""
        return self.shard(group_id).groups.get(group_id)

    def all_groups(self) -> Iterator[Group]:
        """Yields all groups that this broker coordinates. Raises GroupError COORDINATOR_LOAD_IN_PROGRESS while some partitions
        are loading.
        """
        for shard in self._shards.loaded_shards():
            yield from shard.groups.values()

    def answer_about_all(self, value: T, refused: Callable[[ErrorCode], T]) -> T | Promise[T]:
        """Returns `value`, which is about all groups, or a promise of it if some partitions are not replicated yet; `refused`
        makes the answer if this broker loses one of those first.
        """
        return self._shards.answer_or(value, refused)

    def loaded_shards(self) -> list[GroupShard]:
        """Returns the shards that are loaded."""
        return [shard for shard in self._shards.values() if not shard.loading]

    @property
    def damaged_partitions(self) -> int:
        """Returns how many partitions are not served because their bytes are damaged."""
        return self._shards.damaged

    # Leadership

    def refresh(self) -> None:
        """Loads all partitions that this broker leads and unloads the others. This runs at the start."""
        self._shards.refresh()

    def follow(self, partition: int) -> None:
        """Loads or unloads one partition, whose leader may have changed."""
        self._shards.follow(partition)

    def unload(self, partition: int) -> None:
        self._shards.unload(partition)

    def close(self) -> None:
        """Stops all timers; parked requests are answered NOT_COORDINATOR."""
        self._shards.close()

    def _make(self, partition: int, leader_epoch: int, append: Callable[[bytes], Appended]) -> GroupShard:
        return GroupShard(
            partition, leader_epoch, append, self._clock, self.settings, self._cluster, self._random, self.pending_ids
        )

    def _loaded(self, shard: GroupShard) -> None:
        if shard.groups:
            logger.info("loaded partition %d of __consumer_offsets: %d groups", shard.partition, len(shard.groups))
        for topic in self._deleted_while_loading.pop(shard.partition, ()):
            self._shards.attempt(partial(GroupShard.delete_topic, topic=topic), shard, _REMOVE_TOPIC.format(topic))
        if self._others_coordinate:
            self._shards.attempt(GroupShard.delete_missing_topics, shard, _REMOVE_MISSING)

    def _unloaded(self, shard: GroupShard) -> None:
        self._deleted_while_loading.pop(shard.partition, None)

    # Events outside of groups

    def is_loaded(self, partition: int) -> bool:
        """Returns whether a partition is loaded. Begins to load it if this broker leads it and it is not."""
        self.follow(partition)
        shard = self._shards.get(partition)
        return shard is not None and not shard.loading

    def transaction_ended(
        self, partition: int, producer_id: int, *, committed: bool, replicated: Promise[None] | None = None
    ) -> None:
        """Ends a transaction after its marker was appended to a loaded partition: its offsets count from now on, or never will.
        Answers of the partition's groups wait for `replicated`, the promise of the marker's append if it is not replicated yet.
        """
        shard = self._shards[partition]
        if replicated is not None:
            shard.await_replication(replicated)
        shard.end_transaction(producer_id, committed=committed)

    def topic_changed(self, topic: str, *, is_new: bool = False) -> None:
        """Tells groups that a topic was created (`is_new`) or deleted, or got partitions or other replicas."""
        for shard in self.loaded_shards():
            shard.topic_changed(topic, is_new=is_new)

    def topic_deleted(self, topic: str) -> None:
        """Removes the committed offsets of a deleted topic, soon, or all groups if it is the topic that they are stored in."""
        if topic == CONSUMER_OFFSETS:
            self.refresh()
            return
        for shard in self._shards.values():
            if shard.loading:
                self._deleted_while_loading.setdefault(shard.partition, []).append(topic)
            else:
                if not self._deletions:
                    self._clock.call_later(0, self._delete_topics)  # in turns, for many may be deleted together
                self._deletions.append((shard, topic, shard.offsets.last_record))

    def _delete_topics(self) -> None:
        deletions, self._deletions = self._deletions, []
        take_in_background(self._delete_each(deletions), self._clock)

    def _delete_each(self, deletions: list[tuple[GroupShard, str, int]]) -> Steps[None]:
        for shard, topic, upto in deletions:
            if self._shards.get(shard.partition) is shard:  # else it was unloaded meanwhile
                self._shards.attempt(partial(GroupShard.delete_topic, topic=topic, upto=upto), shard, _REMOVE_TOPIC.format(topic))
            yield None

    def expire(self) -> None:
        """Removes old offsets and abandoned groups. This runs every `offsets.retention.check.interval.ms`."""
        self._shards.on_each(GroupShard.expire, "remove the expired offsets")
