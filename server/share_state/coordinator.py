"""The share coordinator: keeps what share groups have done with the records of partitions (KIP-932).

A share partition (group id, topic id, partition) lives in partition abs(Java's hash of its key) mod the partition count of
`__share_group_state`, where the key is `group:topic id:partition`; the leader of that partition coordinates it, loads it when it
takes over (shard.py, server/coordination/), and forgets it when it loses it.

The methods are plain: the leaders of share partitions are on the same broker while the cluster has one, and call them without a
request. All of them raise ShareStateError: the codes of shard.py, and NOT_COORDINATOR (also while there is no topic),
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.log.errors import LogError
from ottla.server.base.clock import Clock
from ottla.server.coordination.java_hash import java_hash_bucket
from ottla.server.coordination.runtime import CoordinatorLog, CoordinatorRuntime
from ottla.server.share_state.batches import StateBatch
from ottla.server.share_state.errors import ShareStateError
from ottla.server.share_state.shard import TOPIC, ShareStateShard
from ottla.server.share_state.state import SharePartition, ShareState, key_of
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.coordination.internal_topic import Appended

logger = logging.getLogger("ottla.server.share_state")


class ShareStateLog(CoordinatorLog, Protocol):
    """The partitions of `__share_group_state`."""

    def delete_before(self, partition: int, offset: int) -> None:
        """Records below `offset` count as gone. Raises log errors."""
        ...


class ShareCoordinatorSettings(NamedTuple):
    """Defaults are Kafka's."""

    updates_per_snapshot: int = 500
    cold_interval_ms: int = 300_000
    codec: int = 0
    """That records are compressed by."""


class ReadState(NamedTuple):
    """What the leader of a share partition begins with."""

    state_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class Summary(NamedTuple):
    """What an admin is told. Without state: epochs 0, start offset -1, count -1."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class ShareCoordinator:
    """`exists(topic id, partition)` says whether the cluster has that partition; `create_topic` begins to create
    `__share_group_state`.
    """

    def __init__(
        self,
        log: ShareStateLog,
        clock: Clock,
        settings: ShareCoordinatorSettings,
        node_id: int,
        *,
        exists: Callable[[bytes, int], bool],
        create_topic: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._log = log
        self._clock = clock
        self._exists = exists
        self._create_topic = create_topic
        self._shards = CoordinatorRuntime(TOPIC, log, clock, node_id, self._make, loaded=self._loaded)

    # Routing

    def has_topic(self) -> bool:
        """Whether there is `__share_group_state`; if not, it is some time after this call returns."""
        if self._log.partition_count() == 0:
            self._create_topic()
            return False
        return True

    def partition_for(self, name: SharePartition) -> int:
        """The partition of `__share_group_state` that a share partition belongs to. ShareStateError without a topic."""
        count = self._log.partition_count()
        if count == 0:
            raise ShareStateError(ErrorCode.NOT_COORDINATOR)
        return java_hash_bucket(key_of(name), count)

    def _shard(self, name: SharePartition) -> ShareStateShard:
        shard = self._shards.take_over(self.partition_for(name))
        if shard is None:
            raise ShareStateError(ErrorCode.NOT_COORDINATOR)
        if shard.loading:
            raise ShareStateError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    # Operations

    def initialize(self, group_id: str, topic_id: bytes, partition: int, state_epoch: int, start_offset: int) -> None:
        """The share group begins at `start_offset` (-1: the leader of the partition is to find out), with a new state epoch."""
        name = SharePartition(group_id, topic_id, partition)
        self._shard(name).initialize(name, state_epoch, start_offset)

    def read(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> ReadState:
        """To the partition's leader, which fences those before it by that."""
        name = SharePartition(group_id, topic_id, partition)
        state = self._shard(name).read(name, leader_epoch)
        return ReadState(state.state_epoch, state.start_offset, state.delivery_complete_count, state.batches)

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
    ) -> None:
        """New states of offsets, and the start offset, below which everything is done with; it never goes back."""
        name = SharePartition(group_id, topic_id, partition)
        batches = tuple(state_batches)
        self._shard(name).update(name, state_epoch, leader_epoch, start_offset, delivery_complete_count, batches)

    def delete(self, group_id: str, topic_id: bytes, partition: int) -> None:
        """Forgets the share partition, if it is known."""
        name = SharePartition(group_id, topic_id, partition)
        self._shard(name).delete(name)

    def read_summary(self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> Summary:
        """Without batches; whoever asks, in whichever epoch."""
        name = SharePartition(group_id, topic_id, partition)
        state = self._shard(name).summary(name)
        if state is None:
            return Summary(0, 0, -1, -1)
        return Summary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count)

    def find(self, name: SharePartition) -> ShareState | None:
        """All that is kept, for looking at."""
        return self._shard(name).find(name)

    # Passes

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Forgets what was kept of it."""
        if topic == TOPIC:
            self.refresh()
        else:
            self._on_each(lambda shard: shard.forget_topics((topic_id,)))

    def snapshot_cold(self) -> None:
        """Every share.coordinator.cold.partition.snapshot.interval.ms."""
        self._on_each(lambda shard: shard.snapshot_cold(self.settings.cold_interval_ms))

    def prune(self) -> None:
        """Moves the start of each partition to the first record that counts. Every
        share.coordinator.state.topic.prune.interval.ms.
        """
        self._on_each(self._prune)

    def _prune(self, shard: ShareStateShard) -> None:
        offset = shard.redundant_before()
        if offset is not None:
            self._log.delete_before(shard.partition, offset)
            shard.pruned(offset)
            logger.info("partition %d of %s begins at offset %d now", shard.partition, TOPIC, offset)

    def _on_each(self, action: Callable[[ShareStateShard], object]) -> None:
        for shard in list(self._shards.values()):
            if shard.loading:
                continue
            try:
                action(shard)
            except (ShareStateError, LogError) as error:
                logger.warning("partition %d of %s: %s", shard.partition, TOPIC, error)

    # Leadership

    def refresh(self) -> None:
        """Loads all partitions that this broker leads and unloads the others. Called at the start."""
        self._shards.refresh()

    def follow(self, partition: int) -> None:
        """The leader of one partition may have changed: loads it or unloads it."""
        self._shards.follow(partition)

    def close(self) -> None:
        self._shards.close()

    def _make(self, partition: int, leader_epoch: int, append: Callable[[bytes], Appended]) -> ShareStateShard:
        settings = self.settings
        return ShareStateShard(
            partition, leader_epoch, append, self._clock, settings.updates_per_snapshot, self._exists, settings.codec
        )

    def _loaded(self, shard: ShareStateShard) -> None:
        if len(shard):
            logger.info("partition %d of %s is loaded: %d share partitions", shard.partition, TOPIC, len(shard))
