"""The group coordinator: which partition of `__consumer_offsets` a group belongs to, and whether this broker leads it.

A group lives in partition abs(hash of its id) mod the partition count, with Java's string hash, as every Kafka broker has it. The
leader of that partition is the group's coordinator: when it takes over it loads the partition (shard.py), answering
COORDINATOR_LOAD_IN_PROGRESS meanwhile, in slices of some milliseconds so that other requests are served in between; when it
loses it, it forgets all about it. This object sees partitions only through GroupLog, and topics not at all.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Protocol

from ottla.log.errors import LogError
from ottla.server.clock import Clock
from ottla.server.group.classic import ClassicGroup
from ottla.server.group.errors import GroupError
from ottla.server.group.settings import GroupSettings
from ottla.server.group.shard import Shard
from ottla.server.java_hash import java_hash_bucket
from ottla.wire.errors import ErrorCode

logger = logging.getLogger("ottla.server.group")

TOPIC = "__consumer_offsets"
LOAD_SLICE_SECONDS = 0.02
LONGEST_STRING = 32_767
"""In bytes: the keys and values in `__consumer_offsets` have lengths of 16 bits, which newer requests do not."""


class GroupLog(Protocol):
    """The partitions of `__consumer_offsets`, as server/replicas.py shows them."""

    def partition_count(self) -> int:
        """0 while the topic does not exist."""
        ...

    def leader(self, partition: int) -> int | None:
        """The leading broker's id; None without one."""
        ...

    def append(self, partition: int, batch: bytes) -> int:
        """Write one batch; its base offset. Raises log errors."""
        ...

    def read(self, partition: int) -> Iterator[bytes]:
        """All batches from the partition's start to its end."""
        ...


class GroupCoordinator:
    def __init__(self, log: GroupLog, clock: Clock, settings: GroupSettings, node_id: int) -> None:
        self.settings = settings
        self._log = log
        self._clock = clock
        self._node_id = node_id
        self._shards: dict[int, Shard] = {}
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
        partition = self.partition_for(group_id)
        shard = self._shards.get(partition)
        if shard is None:
            shard = self._load(partition)
        if shard.loading:
            raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def member_shard(self, group_id: str) -> Shard:
        """As `shard`, for operations of members: "" is a group for offsets only, not one to join. GroupError INVALID_GROUP_ID."""
        if not group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        return self.shard(group_id)

    def find(self, group_id: str) -> ClassicGroup | None:
        """The group, if it exists. Raises GroupError as `shard`."""
        return self.shard(group_id).groups.get(group_id)

    def all_groups(self) -> Iterator[ClassicGroup]:
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
        for partition in {*range(self._log.partition_count()), *self._shards}:
            self.follow(partition)

    def follow(self, partition: int) -> None:
        """The leader of one partition may have changed: load it or unload it."""
        if self._log.leader(partition) != self._node_id:
            self.unload(partition)
        elif partition not in self._shards:
            with contextlib.suppress(GroupError):  # logged; tried again when somebody asks for it
                self._load(partition)

    def unload(self, partition: int) -> None:
        shard = self._shards.pop(partition, None)
        if shard is not None:
            self._deleted_while_loading.pop(partition, None)
            shard.unload()

    def close(self) -> None:
        """Stop all timers; parked requests are answered NOT_COORDINATOR."""
        for partition in list(self._shards):
            self.unload(partition)

    def _load(self, partition: int) -> Shard:
        """Begin to load a partition; a small one is done at once. GroupError NOT_COORDINATOR: not ours, or not readable."""
        if self._log.leader(partition) == self._node_id:
            shard = Shard(partition, lambda batch: self._log.append(partition, batch), self._clock, self.settings)
            self._shards[partition] = shard
            self._load_slice(shard, shard.load(lambda: self._log.read(partition)))
        loaded = self._shards.get(partition)
        if loaded is None:
            raise GroupError(ErrorCode.NOT_COORDINATOR)
        return loaded

    def _load_slice(self, shard: Shard, steps: Iterator[None]) -> None:
        if self._shards.get(shard.partition) is not shard:
            return  # unloaded meanwhile
        until = self._clock.monotonic() + LOAD_SLICE_SECONDS
        try:
            for _ in steps:
                if self._clock.monotonic() >= until:
                    self._clock.call_later(0, lambda: self._load_slice(shard, steps))
                    return
        except (LogError, OSError) as error:
            # Unloaded, not half loaded: the next request of one of its groups tries again.
            logger.error("partition %d of __consumer_offsets cannot be loaded: %s", shard.partition, error)
            self.unload(shard.partition)
            return
        if shard.groups:
            logger.info("partition %d of __consumer_offsets is loaded: %d groups", shard.partition, len(shard.groups))
        for topic in self._deleted_while_loading.pop(shard.partition, ()):
            self._delete_topic(shard, topic)

    # What happens around groups

    def is_loaded(self, partition: int) -> bool:
        """Is everything known that is in a partition which this broker leads? Begins to load it where it is not."""
        self.follow(partition)
        shard = self._shards.get(partition)
        return shard is not None and not shard.loading

    def transaction_ended(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """A marker was appended to a partition that is loaded: the offsets of the transaction count, or never will."""
        self._shards[partition].offsets.end_transaction(producer_id, committed=committed)

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
