"""The share coordinator keeps what share groups have done with the records of partitions (KIP-932).

A share partition (group id, topic id, partition) belongs to partition abs(Java's hash of its key) mod the partition count of
`__share_group_state`, where the key is `group:topic id:partition`. The leader of that partition coordinates it: it loads the
partition when it takes it over (shard.py, server/coordination/), and unloads it when it loses it.

The methods are plain functions: while the cluster has one broker, the leaders of share partitions are on it too and call them
without a request. All of them raise ShareStateError with the codes of shard.py, or with NOT_COORDINATOR (also while there is no
topic) or COORDINATOR_LOAD_IN_PROGRESS. While what they have changed or read is not replicated, they return a promise, which fails
with NOT_COORDINATOR if this broker loses the partition first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.server.base.clock import Clock
from ottla.server.base.turns import Steps, take_in_background
from ottla.server.coordination.java_hash import java_hash_bucket
from ottla.server.coordination.runtime import CoordinatorLog, CoordinatorRuntime
from ottla.server.metadata.names import SHARE_GROUP_STATE
from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.errors import ShareStateError
from ottla.server.share_state.shard import ShareStateShard
from ottla.server.share_state.state import SharePartition, ShareState, key_of
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.base.promise import Promise
    from ottla.server.coordination.internal_topic import Appended

logger = logging.getLogger("ottla.server.share_state")

_FORGET: Final = "forget deleted topics"


class ShareStateLog(CoordinatorLog, Protocol):
    """The partitions of `__share_group_state`, as the share coordinator uses them."""

    def delete_before(self, partition: int, offset: int) -> None:
        """Deletes the records below `offset`, as DeleteRecords would. Raises log errors."""
        ...


class ShareCoordinatorSettings(NamedTuple):
    """The settings of the share coordinator; the defaults are Kafka's."""

    updates_per_snapshot: int = 500
    cold_interval_ms: int = 300_000
    codec: int = 0
    """The compression codec of the records."""
    write_timeout_ms: int = 5_000
    """The longest time that an answer waits for what it is about to be replicated."""


class ReadState(NamedTuple):
    """The state that the leader of a share partition begins with. `start_offset` is -1 if the group has not begun: its settings
    then say where.
    """

    state_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class Summary(NamedTuple):
    """The summary of a share partition for admin clients. If there is no state, the epochs are 0, and start offset and
    count -1.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class ShareCoordinator:
    """The share coordinator of this broker. `exists(topic id, partition)` returns whether the cluster has that partition;
    `create_topic` begins to create `__share_group_state`.
    """

    def __init__(
        self,
        log: ShareStateLog,
        clock: Clock,
        settings: ShareCoordinatorSettings,
        *,
        exists: Callable[[bytes, int], bool],
        create_topic: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._log = log
        self._clock = clock
        self._exists = exists
        self._create_topic = create_topic
        self._has_deletions = False
        """True if topics were deleted whose share partitions will be looked for soon."""
        self._shards = CoordinatorRuntime(SHARE_GROUP_STATE, log, clock, self._make, ShareStateError, loaded=self._loaded)

    # Routing

    def has_topic(self) -> bool:
        """Returns whether `__share_group_state` exists. If it does not, begins to create it."""
        if self._log.partition_count() == 0:
            self._create_topic()
            return False
        return True

    def partition_for(self, name: SharePartition) -> int:
        """Returns the partition of `__share_group_state` that a share partition belongs to. Raises ShareStateError without a
        topic.
        """
        count = self._log.partition_count()
        if count == 0:
            raise ShareStateError(ErrorCode.NOT_COORDINATOR)
        return java_hash_bucket(key_of(name), count)

    def _shard(self, name: SharePartition) -> ShareStateShard:
        return self._shards.loaded_shard(self.partition_for(name))

    # Operations

    def initialize(
        self, group_id: str, topic_id: bytes, partition: int, state_epoch: int, start_offset: int
    ) -> Promise[None] | None:
        """Lets the share group begin at `start_offset` with a new state epoch. With -1 the partition's leader finds the
        offset.
        """
        name = SharePartition(group_id, topic_id, partition)
        shard = self._shard(name)
        shard.initialize(name, state_epoch, start_offset)
        return shard.answer(None)

    def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> ReadState | Promise[ReadState]:
        """Returns the state to the partition's leader and fences the former leaders."""
        name = SharePartition(group_id, topic_id, partition)
        shard = self._shard(name)
        state = shard.read(name, leader_epoch)
        return shard.answer(ReadState(state.state_epoch, state.start_offset, state.delivery_complete_count, state.batches))

    def write(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        state_batches: Iterable[StateBatch],
    ) -> Promise[None] | None:
        """Writes new states of offsets, and the start offset, below which nothing is delivered again; it never goes back."""
        name = SharePartition(group_id, topic_id, partition)
        batches = tuple(state_batches)
        shard = self._shard(name)
        shard.update(name, state_epoch, leader_epoch, start_offset, delivery_complete_count, batches)
        return shard.answer(None)

    def delete(self, group_id: str, topic_id: bytes, partition: int) -> Promise[None] | None:
        """Deletes the share partition, if it is known."""
        name = SharePartition(group_id, topic_id, partition)
        shard = self._shard(name)
        shard.delete(name)
        return shard.answer(None)

    def read_summary(self, group_id: str, topic_id: bytes, partition: int) -> Summary | Promise[Summary]:
        """Returns the state without its batches. Any leader epoch may ask, as in Kafka, so none is given."""
        name = SharePartition(group_id, topic_id, partition)
        shard = self._shard(name)
        state = shard.summary(name)
        if state is None:
            return shard.answer(Summary(0, 0, -1, -1))
        return shard.answer(Summary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count))

    def find(self, name: SharePartition) -> ShareState | None:
        """Returns the whole state, for inspection, or None if the share partition is unknown."""
        return self._shard(name).find(name)

    # Passes

    def _on_each(self, action: Callable[[ShareStateShard], object], what: str) -> None:
        """Does what `CoordinatorRuntime.on_each` does, a shard a step."""

        def steps() -> Steps[None]:
            for shard in list(self._shards.values()):
                if not shard.loading and self._shards.get(shard.partition) is shard:  # else it was unloaded meanwhile
                    self._shards.attempt(action, shard, what)
                yield None

        take_in_background(steps(), self._clock)

    def topic_deleted(self, topic: str) -> None:
        """Deletes the share partitions of a deleted topic, soon: many that are deleted together cost one look."""
        if topic == SHARE_GROUP_STATE:
            self.refresh()
        elif not self._has_deletions:
            self._has_deletions = True
            self._clock.call_later(0, self._forget_missing)

    def _forget_missing(self) -> None:
        self._has_deletions = False
        self._on_each(ShareStateShard.forget_missing, _FORGET)

    def snapshot_cold(self) -> None:
        """Writes new snapshots of cold share partitions. This runs every
        share.coordinator.cold.partition.snapshot.interval.ms.
        """
        self._on_each(lambda shard: shard.snapshot_cold(self.settings.cold_interval_ms), "write snapshots")

    def prune(self) -> None:
        """Moves the start of each partition to the first record that counts. This runs every
        share.coordinator.state.topic.prune.interval.ms.
        """
        self._on_each(self._prune, "be pruned")

    def _prune(self, shard: ShareStateShard) -> None:
        offset = shard.redundant_before()
        if offset is not None:
            self._log.delete_before(shard.partition, offset)
            shard.note_pruned(offset)
            logger.info("partition %d of %s now begins at offset %d", shard.partition, SHARE_GROUP_STATE, offset)

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

    def close(self) -> None:
        self._shards.close()

    def _make(self, partition: int, leader_epoch: int, append: Callable[[bytes], Appended]) -> ShareStateShard:
        settings = self.settings
        return ShareStateShard(
            partition,
            leader_epoch,
            append,
            self._clock,
            settings.updates_per_snapshot,
            self._exists,
            settings.codec,
            settings.write_timeout_ms,
        )

    def _loaded(self, shard: ShareStateShard) -> None:
        if len(shard):
            logger.info("loaded partition %d of %s: %d share partitions", shard.partition, SHARE_GROUP_STATE, len(shard))
        # Those of topics that were deleted while nobody coordinated, or while the shard was loading.
        self._shards.attempt(ShareStateShard.forget_missing, shard, _FORGET)
