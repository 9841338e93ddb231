"""A `ShareStateShard` is one partition of `__share_group_state`: the share partitions that hash to it.

A change is first written and then applied; loading is the same `replay` over what is left of the log. A write is a small update
record until a certain number of them follow a snapshot; then the next write is a snapshot again. Records before the oldest
snapshot that still counts are redundant: the coordinator's `prune` moves the log's start there. A share partition without writes
would hold it back, so `snapshot_cold` writes its snapshot anew.

Epochs fence: a request with a lower leader epoch than the highest seen comes from a former leader of the partition, and one with
a lower state epoch from before the share group's offsets were reset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.server.base.clock import Clock
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, in_runs, take_steps
from ottla.server.coordination.shard import NO_PRODUCER_ID, CoordinatorShard
from ottla.server.metadata.names import SHARE_GROUP_STATE
from ottla.server.share_state.batches import NO_OFFSET, StateBatch, combine
from ottla.server.share_state.errors import ShareStateError
from ottla.server.share_state.records import Change, decode, encode
from ottla.server.share_state.state import SharePartition, ShareState, ShareUpdate, apply_update
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.coordination.internal_topic import Appended
    from ottla.wire.primitives import Buffer

A_STEP: Final = 100
"""A pass looks at so many share partitions in one step, or at fewer that have so many batches in flight; to write their snapshots
takes about two milliseconds."""


@dataclass(slots=True)
class _Kept:
    """A share partition's state, with the epochs and positions that go with it."""

    state: ShareState
    leader_epoch: int
    """The highest leader epoch that was seen."""
    state_epoch: int
    """The highest state epoch that was seen."""
    updates: int = 0
    """The number of updates since the last snapshot that replaced updates."""
    snapshot_offset: int = 0
    """The offset of the last snapshot in the log."""


class ShareStateShard(CoordinatorShard[Change]):
    """The share partitions of one partition. A snapshot follows after `updates_per_snapshot` updates of a share partition;
    `exists(topic id, partition)` returns whether the cluster has that partition.
    """

    topic = SHARE_GROUP_STATE
    logger = logging.getLogger("ottla.server.share_state")

    def __init__(
        self,
        partition: int,
        leader_epoch: int,
        append: Callable[[bytes], Appended],
        clock: Clock,
        updates_per_snapshot: int,
        exists: Callable[[bytes, int], bool],
        codec: int = 0,
        write_timeout_ms: int = 5_000,
    ) -> None:
        super().__init__(partition, leader_epoch, append, clock, write_timeout_ms)
        self._updates_per_snapshot = updates_per_snapshot
        self._exists = exists
        self._codec = codec
        self._kept: dict[SharePartition, _Kept] = {}
        self._last_tombstone: int | None = None
        self._pruned = -1

    def __len__(self) -> int:
        """Returns the number of share partitions."""
        return len(self._kept)

    def names(self) -> list[SharePartition]:
        return list(self._kept)

    def find(self, name: SharePartition) -> ShareState | None:
        kept = self._kept.get(name)
        return kept.state if kept is not None else None

    # Changes

    def _write(self, changes: Sequence[Change]) -> None:
        """Appends changes as one batch, and replays them. Raises ShareStateError if they cannot be written; then nothing is
        changed.
        """
        if changes:
            self.write(encode(changes, self.clock.now_ms(), self._codec), changes)

    def decode(self, key: Buffer, value: Buffer | None) -> Change | None:
        return decode(key, value)

    def refusal(self, code: ErrorCode) -> ShareStateError:
        return ShareStateError(code)

    def replay(self, record: Change, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        name, change = record
        kept = self._kept.get(name)
        if change is None:
            self._kept.pop(name, None)
            self._last_tombstone = offset
        elif isinstance(change, ShareState):
            if kept is None:
                self._kept[name] = _Kept(change, change.leader_epoch, change.state_epoch, 0, offset)
                return
            kept.state = change
            kept.leader_epoch = max(kept.leader_epoch, change.leader_epoch)
            kept.state_epoch = max(kept.state_epoch, change.state_epoch)
            kept.updates = 0 if kept.updates >= self._updates_per_snapshot else kept.updates
            kept.snapshot_offset = offset
        elif kept is None:  # its snapshot is lost; as in Kafka, the update alone counts
            blank = ShareState(change.snapshot_epoch, 0, change.leader_epoch, change.start_offset)
            self._kept[name] = _Kept(apply_update(blank, change), change.leader_epoch, 0, 1, offset)
        else:
            kept.state = apply_update(kept.state, change)
            kept.leader_epoch = max(kept.leader_epoch, change.leader_epoch)
            kept.updates += 1

    # Requests

    def initialize(self, name: SharePartition, state_epoch: int, start_offset: int) -> None:
        """Lets the share group begin at `start_offset`, whatever it did before. Raises ShareStateError: INVALID_REQUEST,
        FENCED_STATE_EPOCH or UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._check_numbers(name, state_epoch)
        kept = self._kept.get(name)
        if kept is not None:
            self._check_state_epoch(kept, state_epoch)
        self._check_exists(name)
        now_ms = self.clock.now_ms()
        snapshot_epoch = kept.state.snapshot_epoch + 1 if kept is not None else 0
        complete = 0 if start_offset != NO_OFFSET else -1
        state = ShareState(snapshot_epoch, state_epoch, 0, start_offset, complete, (), now_ms, now_ms)
        self._write([(name, state)])

    def read(self, name: SharePartition, leader_epoch: int) -> ShareState:
        """Returns the state to the partition's leader. A leader epoch higher than any seen before fences the former leaders.
        Raises ShareStateError: INVALID_REQUEST, FENCED_LEADER_EPOCH or UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._check_numbers(name, leader_epoch)
        kept = self._known(name, leader_epoch)
        self._check_exists(name)
        if leader_epoch != kept.leader_epoch:
            state = kept.state
            self._write([(name, self._next(kept, leader_epoch, state.start_offset, state.delivery_complete_count, ()))])
        return kept.state

    def update(
        self,
        name: SharePartition,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        """Writes what a share partition's leader reports. Raises ShareStateError: INVALID_REQUEST, FENCED_LEADER_EPOCH,
        FENCED_STATE_EPOCH or UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._check_numbers(name, leader_epoch, state_epoch)
        if any(batch.last_offset < batch.first_offset for batch in batches):
            raise ShareStateError(ErrorCode.INVALID_REQUEST, "A batch ends before it begins.")
        kept = self._known(name, leader_epoch)
        self._check_state_epoch(kept, state_epoch)
        self._check_exists(name)
        self._write([(name, self._next(kept, kept.state.leader_epoch, start_offset, delivery_complete_count, batches))])

    def _next(
        self,
        kept: _Kept,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> ShareState | ShareUpdate:
        """Returns the record of a write: an update, or a snapshot if enough updates followed the last one. Since a write may
        arrive late, the start offset never goes back, nor does the count while the start offset is the same.
        """
        state = kept.state
        if start_offset == state.start_offset:
            delivery_complete_count = max(delivery_complete_count, state.delivery_complete_count)
        elif start_offset < state.start_offset:
            delivery_complete_count = state.delivery_complete_count
        start_offset = max(start_offset, state.start_offset)
        if kept.updates < self._updates_per_snapshot:
            new = combine((), batches, start_offset)
            return ShareUpdate(state.snapshot_epoch, leader_epoch, start_offset, delivery_complete_count, new)
        now_ms = self.clock.now_ms()
        return ShareState(
            state.snapshot_epoch + 1,
            state.state_epoch,
            leader_epoch,
            start_offset,
            delivery_complete_count,
            combine(state.batches, batches, start_offset),
            now_ms,
            now_ms,
        )

    def summary(self, name: SharePartition) -> ShareState | None:
        """Returns the state for describing a share group, or None if the share partition is unknown. Raises ShareStateError:
        INVALID_REQUEST or UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._check_numbers(name)
        self._check_exists(name)
        return self.find(name)

    def delete(self, name: SharePartition) -> None:
        """Deletes the share partition; an unknown one counts as deleted already. Raises ShareStateError: INVALID_REQUEST or
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._check_numbers(name)
        self._check_exists(name)
        if name in self._kept:
            self._write([(name, None)])

    # Checks

    @staticmethod
    def _check_numbers(name: SharePartition, *epochs: int) -> None:
        if name.partition < 0 or any(epoch < 0 for epoch in epochs):
            raise ShareStateError(ErrorCode.INVALID_REQUEST, "Partitions and epochs are not negative.")

    def _known(self, name: SharePartition, leader_epoch: int) -> _Kept:
        kept = self._kept.get(name)
        if kept is None:
            raise ShareStateError(ErrorCode.INVALID_REQUEST, "This share partition has no state yet; it has to be initialized.")
        if kept.leader_epoch > leader_epoch:
            raise ShareStateError(ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch is over.")
        return kept

    @staticmethod
    def _check_state_epoch(kept: _Kept, state_epoch: int) -> None:
        if kept.state_epoch > state_epoch:
            raise ShareStateError(ErrorCode.FENCED_STATE_EPOCH, "The state epoch is over.")

    def _check_exists(self, name: SharePartition) -> None:
        if not self._exists(name.topic_id, name.partition):
            raise ShareStateError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")

    # Passes

    def forget_missing(self) -> Promise[None] | None:
        """Deletes the share partitions whose topics were deleted. Raises ShareStateError; or returns a promise, which may fail
        with it, if that takes longer than a turn.

        The metadata must be as new as the leadership of the partition. No coordinator keeps the state of a topic that is not
        there, so what is missing was deleted.
        """
        return take_steps(self._forget_missing(), self.clock)

    def _forget_missing(self) -> Steps[None]:
        for names in in_runs(list(self._kept), A_STEP):
            self._write([(name, None) for name in names if name in self._kept and not self._exists(*name[1:])])
            yield None

    def snapshot_cold(self, interval_ms: int) -> int | Promise[int]:
        """Writes the snapshots of those share partitions anew that were not written for `interval_ms`. Returns how many there
        were. Raises ShareStateError; or returns a promise, as `forget_missing` does.
        """
        return take_steps(self._snapshot_cold(interval_ms), self.clock)

    def _snapshot_cold(self, interval_ms: int) -> Steps[int]:
        if all(kept.state.created_ms != kept.state.written_ms for kept in self._kept.values()):
            return 0  # nothing is being written, so new snapshots would not let anything be pruned
        now_ms = self.clock.now_ms()
        written = looked = 0
        cold: list[Change] = []
        for name in list(self._kept):
            kept = self._kept.get(name)
            if kept is not None and now_ms - kept.state.written_ms >= interval_ms:
                cold.append((name, kept.state._replace(snapshot_epoch=kept.state.snapshot_epoch + 1, written_ms=now_ms)))
                looked += len(kept.state.batches)
            looked += 1
            if looked >= A_STEP:
                self._write(cold)  # before others come, who may write to them
                written += len(cold)
                cold, looked = [], 0
                yield None
        self._write(cold)
        return written + len(cold)

    def redundant_before(self) -> int | None:
        """Returns the offset of the first record that counts, or None if it is unknown or the log was pruned to it already."""
        oldest = min((kept.snapshot_offset for kept in self._kept.values()), default=self._last_tombstone)
        return oldest if oldest is not None and oldest > max(self._pruned, 0) else None

    def note_pruned(self, offset: int) -> None:
        """Notes that the log was pruned and now begins at `offset`."""
        self._pruned = offset
