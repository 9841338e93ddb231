"""A share partition (KIP-932): one partition as one group sees it, and what its members have in flight of it.

    start                                                        end
      |  in flight: InFlightBatch, InFlightBatch, (gap) ...       |   not handed out yet
    --+-----------------------------------------------------------+--------------------------> offsets

- Everything below `start` is done. `end` is the last offset that was handed out; while nothing is in flight, the next one.
- What changes is a plan first: states are changed in memory, written to the persister, and put back if that fails. Only time
  does not wait for it: a lock that is over is over.
- A lock lasts until its run's deadline. One timer per share partition rings at the earliest of them; who acknowledges does not
  stop it, it finds nothing then.
- Batches are kept while any of their records may still be delivered; when all at the front are done, `start` moves behind them.
- After a restart only what somebody acknowledged or released is known; offsets between that were in flight when the old leader
  went. They are looked at once, from `gap_start` on (`gap_end` is the last offset that was known): then every gap is one of the
  log's own, as compaction leaves them.

Fetches that wait for records here are among its `watchers`, which are woken when some may be available again.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.server.base.clock import Cancellable, Clock
from ottla.server.share.persister import Persister, ShareError, told
from ottla.server.share.share_group_config import ShareGroupConfig
from ottla.server.share.states import (
    ACKNOWLEDGE_STATES,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    REJECT,
    RENEW,
    TERMINAL,
    GivenUp,
    InFlightBatch,
    RecordState,
    Run,
)
from ottla.server.share_state.batches import NO_OFFSET, StateBatch
from ottla.server.share_state.errors import ShareStateError
from ottla.server.share_state.state import SharePartition as SharePartitionKey
from ottla.wire.errors import ErrorCode

logger = logging.getLogger("ottla.server.share.share_partition")

_INVALID_STATE: Final = ErrorCode.INVALID_RECORD_STATE
_KEPT: Final = {int(state): AVAILABLE if state is ACQUIRED else state for state in RecordState}
"""What is kept, as it is taken over: who held something then is not known."""


class Acknowledgement(NamedTuple):
    """`types`: one for all offsets, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class SharePartition:
    """See the module's docstring. Load it before anything else."""

    __slots__ = (
        "_clock",
        "_give_up",
        "_persister",
        "_ring_at",
        "_timer",
        "batches",
        "end",
        "find_next",
        "gap_end",
        "gap_start",
        "key",
        "leader_epoch",
        "looked_at",
        "settings",
        "start",
        "state_epoch",
        "watchers",
    )

    def __init__(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        persister: Persister,
        clock: Clock,
        settings: Callable[[], ShareGroupConfig],
        give_up: Callable[[Sequence[GivenUp]], None] = lambda given_up: None,
    ) -> None:
        """`give_up` hears of what members rejected, or what was delivered too often, before it is archived."""
        self._give_up = give_up
        self.key = key
        self.leader_epoch = leader_epoch
        self.settings = settings
        self._persister = persister
        self._clock = clock
        self.start = self.end = 0
        self.state_epoch = 0
        self.batches: list[InFlightBatch] = []
        """By offset, apart from each other."""
        self.find_next = False
        """Whether something below `end` may be available."""
        self.gap_start: int | None = None
        self.gap_end = -1
        self.looked_at = -1
        """Where somebody read last."""
        self.watchers: dict[object, Callable[[], None]] = {}
        self._timer: Cancellable | None = None
        self._ring_at = float("inf")

    def __repr__(self) -> str:
        return f"SharePartition({self.key.group_id!r}, {self.start}..{self.end})"

    # Loading

    def load(self, first_offset: Callable[[], int], log_end: int) -> None:
        """Takes the state over. `first_offset` says where a group begins that has none. What was kept of offsets that the log has
        not (any more: it lost its end) is of other records than those that will be there. ShareError.
        """
        try:
            kept = self._persister.read(*self.key, self.leader_epoch)
        except ShareStateError as error:
            raise told(error) from error
        self.state_epoch = kept.state_epoch
        start = kept.start_offset if kept.start_offset != NO_OFFSET else first_offset()
        self.start = min(start, log_end)
        behind = start  # what was known before ends here
        for first, last, delivery_count, state in sorted(kept.batches):
            if first < behind or last < first or state not in _KEPT:
                logger.error("%r: the stored state of offsets %d to %d is inconsistent", self, first, last)
                message = "What was kept of the group here makes no sense."
                raise ShareError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
            if first >= log_end:
                break
            if first > behind and self.gap_start is None:
                self.gap_start = behind
            behind = last + 1
            self.batches.append(InFlightBatch([Run(first, min(last, log_end - 1), _KEPT[state], delivery_count)]))
        self._finish_archiving()
        self.end = self.start
        if self.batches:
            self.find_next = True
            self.end = self.gap_end = self.batches[-1].last
            self.advance()

    def _finish_archiving(self) -> None:
        """ShareError."""
        changes = _Changes(self)
        limit = self.settings().delivery_count_limit
        for batch in self.batches:
            run = batch.whole
            if run.state is ARCHIVING:
                changes.give_up(batch, run, rejected=run.delivery_count < limit)
        self._write(changes)

    # What is in flight

    def floor(self, offset: int) -> int:
        """The index of the last batch that begins at or before `offset`; -1 without one."""
        return bisect_right(self.batches, offset, key=lambda batch: batch.first) - 1

    def from_to(self, first_index: int, last_offset: int) -> list[InFlightBatch]:
        """The batches from an index on, as far as they begin at or before `last_offset`."""
        return self.batches[first_index : self.floor(last_offset) + 1]

    def add(self, batch: InFlightBatch) -> None:
        self.batches.insert(self.floor(batch.first) + 1, batch)

    @property
    def gaps_unknown(self) -> bool:
        """Whether gaps between batches may be records that were in flight when the old leader went."""
        return self.gap_start is not None and self.gap_end == self.end

    def look_past_gap(self, offset: int) -> None:
        """Everything below `offset` was looked at."""
        if self.gap_start is None:
            return
        index = self.floor(offset)
        while 0 <= index < len(self.batches) and self.batches[index].first <= offset <= self.batches[index].last:
            offset = self.batches[index].last + 1
            index += 1
        self.gap_start = offset if self.gap_end == self.end and offset <= self.gap_end else None

    @property
    def in_flight(self) -> int:
        return self.end - self.start + 1 if self.batches else 0

    @property
    def delivery_complete_count(self) -> int:
        """Offsets from the start on that will not be delivered again."""
        return sum(run.size_from(self.start) for batch in self.batches for run in batch.runs if run.state in TERMINAL)

    def next_fetch_offset(self) -> int:
        """Where to read on: what is available again first."""
        if not self.batches or self.start > self.batches[-1].last:
            self.find_next = False
            return self.end
        if self.find_next:
            found = self._first_available()
            if found is not None:
                return found
            self.find_next = False
        return self.end + 1

    def _first_available(self) -> int | None:
        gap = self.gap_start if self.gaps_unknown else None
        for batch in self.batches:
            if gap is not None:
                if batch.first > gap:
                    return gap
                gap = max(gap, batch.last + 1)
            for run in batch.runs:
                if run.state is AVAILABLE:
                    return run.first
        return None

    def can_acquire(self) -> bool:
        """Whether there is room for more, or something below the end to be handed out again."""
        return self.next_fetch_offset() != self.end + 1 or self.in_flight < self.settings().max_record_locks

    # Acknowledging

    def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """All of it, or nothing and ShareError. Ascending, with whole and known types."""
        changes = _Changes(self)
        try:
            for each in acknowledgements:
                if each.last < self.start:
                    continue  # the log's start passed it: that is as good
                for batch in self._named(each):
                    if batch.last >= self.start:
                        self._acknowledge(member_id, each, batch, changes)
            self._keep(changes)
        except ShareError:
            changes.undo()
            raise

    def _named(self, each: Acknowledgement) -> list[InFlightBatch]:
        index = self.floor(each.first)
        if index < 0 and each.first < self.start <= each.last:
            index = self.floor(self.start)
        if index < 0:
            raise ShareError(_INVALID_STATE, "These offsets are not in flight.")
        batches = self.from_to(index, each.last)
        if batches[-1].last < each.first:
            which = "first"
        elif batches[-1].last < each.last:
            which = "last"
        else:
            return batches
        text = f"The {which} offset lies behind all that was handed out."
        raise ShareError(ErrorCode.INVALID_REQUEST, text)

    def _acknowledge(self, member_id: str, each: Acknowledgement, batch: InFlightBatch, changes: _Changes) -> None:
        """What of one acknowledgement is in one batch."""
        by_offset = len(each.types) > 1
        whole = batch.within(each.first, each.last) and not by_offset and not batch.first < self.start
        if not batch.by_offset:
            run = batch.whole
            if run.state is not ACQUIRED:
                raise ShareError(_INVALID_STATE, "The records are not acquired.")
            if run.member_id != member_id:
                raise ShareError(_INVALID_STATE, "Another member holds the records.")
            batch.by_offset = not whole
        first, last = max(each.first, batch.first, self.start), min(each.last, batch.last)
        for run in list(batch.overlapping(first, last)):
            if run.state is not ACQUIRED:
                raise ShareError(_INVALID_STATE, "An offset of them is not acquired.")
            if run.member_id != member_id:
                raise ShareError(_INVALID_STATE, "Another member holds an offset of them.")
            if not by_offset:
                self._settle(batch, run, each.types[0], changes)
                continue
            for part, kind in _parts(run, each):
                self._settle(batch, part, kind, changes)

    def _settle(self, batch: InFlightBatch, run: Run, kind: int, changes: _Changes) -> None:
        settings = self.settings()
        if kind == REJECT:
            changes.give_up(batch, run, rejected=True)
        elif kind != RENEW:
            changes.released(batch, run, ACKNOWLEDGE_STATES[kind], settings.delivery_count_limit)
        elif settings.renew_enabled:
            changes.note(batch)
            batch.put(run._replace(deadline=self.lock()))
        else:
            raise ShareError(_INVALID_STATE, "The group's locks are not renewed (share.renew.acknowledge.enable).")

    def release(self, member_id: str) -> None:
        """The member is gone: others may have what it holds. ShareError, and it holds it on, until the locks end."""
        changes = _Changes(self)
        for batch in self.batches:
            for run in list(batch.runs):
                if run.state is ACQUIRED and run.member_id == member_id:
                    self._let_go(batch, run, changes)
        try:
            self._keep(changes)
        except ShareError:
            changes.undo()
            raise

    def _let_go(self, batch: InFlightBatch, run: Run, changes: _Changes) -> None:
        """Makes what is acquired available again; of what lies below the start nobody can have it."""
        limit = self.settings().delivery_count_limit
        batch.by_offset |= batch.first < self.start <= batch.last
        if run.first < self.start:
            changes.into(batch, run.clipped(run.first, self.start - 1), ARCHIVED)
        if run.last >= self.start:
            changes.released(batch, run.clipped(self.start, run.last), AVAILABLE, limit)

    # Locks

    def lock(self) -> float:
        """The deadline of a lock that begins now."""
        deadline = self._clock.monotonic() + self.settings().record_lock_duration_ms / 1000
        self._ring_by(deadline)
        return deadline

    def _ring_by(self, deadline: float) -> None:
        if deadline >= self._ring_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._ring_at = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        """Locks are over. What comes of that happens, whether the persister hears of it or not."""
        self._timer, self._ring_at = None, float("inf")
        now = self._clock.monotonic()
        changes = _Changes(self)
        earliest = float("inf")
        for batch in self.batches:
            for run in list(batch.runs):
                if run.deadline <= now:
                    self._let_go(batch, run, changes)
                else:
                    earliest = min(earliest, run.deadline)
        self._ring_by(earliest)
        try:
            self._keep(changes)
        except ShareError as error:
            logger.warning("%r: the end of record locks could not be written: %s", self, error)
            self._changed(changes)

    def close(self) -> None:
        """It is forgotten: whoever waits here has to look elsewhere."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._ring_at = None, 0.0  # never again
        self.wake()

    # What comes of changes

    def _keep(self, changes: _Changes) -> None:
        """ShareError, and nothing of it is true."""
        if changes.rows:
            self._write(changes)
            self._changed(changes)

    def _write(self, changes: _Changes) -> None:
        if not changes.rows:
            return
        if changes.given_up:
            self._give_up(changes.given_up)
        try:
            self._persister.write(
                *self.key, self.state_epoch, self.leader_epoch, self.start, self.delivery_complete_count, changes.rows
            )
        except ShareStateError as error:
            raise told(error) from error

    def _changed(self, changes: _Changes) -> None:
        self.find_next |= any(row.delivery_state == AVAILABLE for row in changes.rows)
        self.advance()
        self.wake()

    def advance(self) -> None:
        """Moves the start behind what is done, and forgets the batches that are done altogether."""
        first_left = 0
        done = self.start - 1
        for batch in self.batches:
            if self.gaps_unknown and self.gap_start is not None and batch.last >= self.gap_start:
                break
            left = next((run for run in batch.runs if run.state not in TERMINAL), None)
            if left is not None:
                done = max(done, left.first - 1) if left.first > batch.first else done
                break
            done = max(done, batch.last)
            first_left += 1
        if first_left == len(self.batches):
            if self.batches:
                self.start = self.end = self.batches[-1].last + 1
                self.batches.clear()
            return
        if first_left and done == self.batches[first_left - 1].last:
            done = max(done, self.batches[first_left].first - 1)  # what is between is no record
        start = max(self.start, done + 1)
        if self.gaps_unknown and self.gap_start is not None:
            start = max(self.start, min(self.gap_start, start))
        self.start = start
        del self.batches[:first_left]

    def wake(self) -> None:
        watchers, self.watchers = self.watchers, {}
        for wake in watchers.values():
            wake()

    def raise_start(self, log_start: int) -> None:
        """The log begins later than this group stands: what was available below that is gone."""
        if log_start <= self.start:
            return
        if not self.batches:
            self.start = self.end = log_start
            return
        self.archive(self.start, log_start - 1, AVAILABLE)
        self.start = log_start
        self.end = max(self.end, log_start)

    def archive(self, first: int, last: int, state: RecordState) -> None:
        """Gives up what is in `state` between two offsets; nothing is written of it before something else is."""
        for batch in self.from_to(max(0, self.floor(first)), last):
            if batch.last < first:
                continue
            for run in list(batch.overlapping(first, last)):
                if run.state is state:
                    batch.by_offset |= not batch.within(first, last)
                    batch.put(run.into(ARCHIVED))
                    self.find_next = True


class _Changes:
    """What is to be written, and how it was before."""

    __slots__ = ("_before", "_partition", "given_up", "rows")

    def __init__(self, partition: SharePartition) -> None:
        self._partition = partition
        self._before: dict[InFlightBatch, list[Run]] = {}
        self.rows: list[StateBatch] = []
        self.given_up: list[GivenUp] = []

    def note(self, batch: InFlightBatch) -> None:
        if batch not in self._before:
            self._before[batch] = list(batch.runs)

    def into(self, batch: InFlightBatch, run: Run, state: RecordState) -> None:
        self.note(batch)
        batch.put(run.into(state))
        self.rows.append(StateBatch(run.first, run.last, run.delivery_count, state))

    def give_up(self, batch: InFlightBatch, run: Run, *, rejected: bool) -> None:
        self.given_up.append(GivenUp(run, rejected))
        self.into(batch, run, ARCHIVED)

    def released(self, batch: InFlightBatch, run: Run, state: RecordState, delivery_limit: int) -> None:
        """What was delivered `delivery_limit` times is not made available again."""
        if state is AVAILABLE and run.delivery_count >= delivery_limit:
            self.give_up(batch, run, rejected=False)
        else:
            self.into(batch, run, state)

    def undo(self) -> None:
        for batch, runs in self._before.items():
            batch.runs = runs


def _parts(run: Run, each: Acknowledgement) -> list[tuple[Run, int]]:
    """The run, cut where the type of its offsets changes."""
    parts: list[tuple[Run, int]] = []
    for offset in range(run.first, run.last + 1):
        kind = each.types[offset - each.first]
        if parts and parts[-1][1] == kind:
            parts[-1] = parts[-1][0]._replace(last=offset), kind
        else:
            parts.append((run.clipped(offset, offset), kind))
    return parts
