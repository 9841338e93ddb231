"""A share partition (KIP-932) is one partition as one group sees it, with the records that its members have in flight.

    start                                                        end
      |  in flight: InFlightBatch, InFlightBatch, (gap) ...       |   not handed out yet
    --+-----------------------------------------------------------+--------------------------> offsets

- Everything below `start` is done. `end` is the last offset that was acquired or, while nothing is in flight, the next one to be
  acquired.
- A change is made in memory, written to the persister, and undone if that fails. If the persister promises to write it and loses
  it, the share partition is dropped, because later changes may stand on it. Only the end of a lock is not undone: its time
  is over in any case.
- Records that are given up get a dead letter first. If their letters take long, they are ARCHIVING until these are written, and
  nothing moves past them, so that a group with many letters to write gets no more than its locks allow.
- A lock lasts until its run's deadline. Each share partition has one timer, which fires at the earliest deadline. An
  acknowledgement does not stop it; it then finds nothing to do.
- Batches are kept while any of their records may still be delivered; when all batches at the front are done, `start` moves past
  them.
- After a change of leader only those offsets are known that were acknowledged or released; those between them were in flight
  under the old leader, or are gaps that compaction left in the log. They are read again, from `gap_start` on (`gap_end` is the
  last known offset); once all have been read, every gap left is one of the log.

Fetches that wait for records are among its `watchers`, which are woken when records may be available again.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.server.base.answers import chain_answer, map_answer
from ottla.server.base.clock import Cancellable, Clock
from ottla.server.base.promise import Promise
from ottla.server.share.acknowledgement import INVALID_STATE, Acknowledgement, check_held, split_by_type
from ottla.server.share.changes import Changes
from ottla.server.share.persister import Persister, ShareError, to_share_error, with_share_errors
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
    GivingUp,
    InFlightBatch,
    RecordState,
    Run,
)
from ottla.server.share_state.batches import NO_OFFSET
from ottla.server.share_state.errors import ShareStateError
from ottla.server.share_state.state import SharePartition as SharePartitionKey
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.share_state.coordinator import ReadState

logger = logging.getLogger("ottla.server.share.share_partition")

CLOSED: Final = 0.0
"""The time at which the timer of a closed share partition fires: no deadline is earlier, so that it is never set again."""
_LOADED_STATES: Final = {int(state): AVAILABLE if state is ACQUIRED else state for state in RecordState}
"""For each stored state, the state after loading. Acquired records become available, since the stored state names no member."""


class SharePartition:
    """One partition of one group (see the module's docstring). Call `load` before anything else."""

    __slots__ = (
        "_archived",
        "_clock",
        "_fires_at",
        "_give_up",
        "_giving_up",
        "_lost",
        "_persister",
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
        give_up: Callable[[GivingUp], Promise[None] | None] = lambda giving_up: None,
        lost: Callable[[SharePartition], None] = lambda partition: None,
        archived: Callable[[SharePartition], None] = lambda partition: None,
    ) -> None:
        """`give_up` is called with records that were rejected, or delivered too often, before they are archived; if it returns a
        promise, they are archived when that is kept, and `archived` is called when none of them is left. `lost` is called when
        the persister has lost what it had promised to write.
        """
        self._give_up = give_up
        self._giving_up: set[GivingUp] = set()
        """The records that are being archived."""
        self._archived = archived
        self._lost = lost
        self.key = key
        self.leader_epoch = leader_epoch
        self.settings = settings
        self._persister = persister
        self._clock = clock
        self.start = self.end = 0
        self.state_epoch = 0
        self.batches: list[InFlightBatch] = []
        """The batches in flight, in the order of offsets; they do not overlap."""
        self.find_next = False
        """True if something below `end` may be available."""
        self.gap_start: int | None = None
        self.gap_end = -1
        self.looked_at = -1
        """The offset that was last read for a fetch."""
        self.watchers: dict[object, Callable[[], None]] = {}
        self._timer: Cancellable | None = None
        self._fires_at = float("inf")

    def __repr__(self) -> str:
        return f"SharePartition({self.key.group_id!r}, {self.start}..{self.end})"

    # Loading

    def load(self, first_offset: Callable[[], int | Promise[int]], log_end: int) -> Promise[None] | None:
        """Takes over the stored state. `first_offset` returns where a group without stored state begins, or promises to. Stored
        states of offsets beyond the log's end are ignored: the log lost those records, and others will take their offsets. Raises
        ShareError, or returns a promise that may fail with it, if the state or that offset comes later.
        """
        try:
            kept = self._persister.read(*self.key, self.leader_epoch)
        except ShareStateError as error:
            raise to_share_error(error) from error

        def take_over(state: ReadState) -> Promise[None] | None:
            start = state.start_offset if state.start_offset != NO_OFFSET else first_offset()
            return map_answer(start, lambda offset: self._take_over(state, offset, log_end))

        return chain_answer(with_share_errors(kept), take_over)

    def _take_over(self, kept: ReadState, start: int, log_end: int) -> None:
        self.state_epoch = kept.state_epoch
        self.start = min(start, log_end)
        behind = start  # the end of what is known so far
        for first, last, delivery_count, state in sorted(kept.batches):
            if first < behind or last < first or state not in _LOADED_STATES:
                logger.error("%r: the stored state of offsets %d to %d is inconsistent", self, first, last)
                message = "The stored state of the share partition is inconsistent."
                raise ShareError(ErrorCode.KAFKA_STORAGE_ERROR, message)
            if first >= log_end:
                break
            if first > behind and self.gap_start is None:
                self.gap_start = behind
            behind = last + 1
            self.batches.append(InFlightBatch([Run(first, min(last, log_end - 1), _LOADED_STATES[state], delivery_count)]))
        self._finish_archiving()
        self.end = self.start
        if self.batches:
            self.find_next = True
            self.end = self.gap_end = self.batches[-1].last
            self.advance()

    def _finish_archiving(self) -> None:
        """Archives the records that were left in the state ARCHIVING. Raises ShareError."""
        changes = Changes()
        limit = self.settings().delivery_count_limit
        for batch in self.batches:
            run = batch.whole
            if run.state is ARCHIVING:
                changes.give_up(batch, run, rejected=run.delivery_count < limit)
        if changes.rows:
            self._write(changes)

    # Batches in flight

    def floor(self, offset: int) -> int:
        """Returns the index of the last batch that begins at or before `offset`, or -1 if there is none."""
        return bisect_right(self.batches, offset, key=lambda batch: batch.first) - 1

    def from_to(self, first_index: int, last_offset: int) -> list[InFlightBatch]:
        """Returns the batches from an index on that begin at or before `last_offset`."""
        return self.batches[first_index : self.floor(last_offset) + 1]

    def add(self, batch: InFlightBatch) -> None:
        self.batches.insert(self.floor(batch.first) + 1, batch)

    @property
    def gaps_unknown(self) -> bool:
        """Returns whether gaps between batches may be records that were in flight under the old leader."""
        return self.gap_start is not None and self.gap_end == self.end

    def look_past_gap(self, offset: int) -> None:
        """Notes that everything below `offset` has been read."""
        if self.gap_start is None:
            return
        index = self.floor(offset)
        while 0 <= index < len(self.batches) and self.batches[index].first <= offset <= self.batches[index].last:
            offset = self.batches[index].last + 1
            index += 1
        self.gap_start = offset if self.gap_end == self.end and offset <= self.gap_end else None

    @property
    def is_archiving(self) -> bool:
        """Returns whether dead letters of it are still being written."""
        return bool(self._giving_up)

    @property
    def in_flight(self) -> int:
        return self.end - self.start + 1 if self.batches else 0

    @property
    def delivery_complete_count(self) -> int:
        """Returns how many offsets from the start on will not be delivered again."""
        return sum(run.size_from(self.start) for batch in self.batches for run in batch.runs if run.state in TERMINAL)

    def next_fetch_offset(self) -> int:
        """Returns the offset to read next; records that are available again come first."""
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
        """Returns whether a member can acquire something: there is room for more, or records below the end are
        available again.
        """
        return self.next_fetch_offset() != self.end + 1 or self.in_flight < self.settings().max_record_locks

    # Acknowledging

    def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement]) -> Promise[None] | None:
        """Carries out acknowledgements, which must be in ascending order and have valid types. If it raises ShareError, none of
        them is carried out. Returns a promise if they are written later; it fails with ShareError if they are lost, and with them
        the share partition.
        """
        changes = Changes()
        try:
            for acknowledged in acknowledgements:
                if acknowledged.last < self.start:
                    continue  # the log's start has passed it, so there is nothing left to acknowledge
                for batch in self._acknowledged_batches(acknowledged):
                    if batch.last >= self.start:
                        self._acknowledge(member_id, acknowledged, batch, changes)
            return self._apply(changes)
        except ShareError:
            changes.undo()
            raise

    def check_acknowledged(self, member_id: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Raises ShareError if acknowledgements would be refused by what is in flight now, and changes nothing."""
        for acknowledged in acknowledgements:
            if acknowledged.last < self.start:
                continue
            for batch in self._acknowledged_batches(acknowledged):
                for run in batch.overlapping(max(acknowledged.first, self.start), acknowledged.last):
                    check_held(run, member_id)

    def _acknowledged_batches(self, acknowledged: Acknowledgement) -> list[InFlightBatch]:
        index = self.floor(acknowledged.first)
        if index < 0 and acknowledged.first < self.start <= acknowledged.last:
            index = self.floor(self.start)
        if index < 0:
            raise ShareError(INVALID_STATE, "These offsets are not in flight.")
        batches = self.from_to(index, acknowledged.last)
        if batches[-1].last < acknowledged.first:
            which = "first"
        elif batches[-1].last < acknowledged.last:
            which = "last"
        else:
            return batches
        text = f"The {which} offset is beyond everything that was acquired."
        raise ShareError(ErrorCode.INVALID_REQUEST, text)

    def _acknowledge(self, member_id: str, acknowledged: Acknowledgement, batch: InFlightBatch, changes: Changes) -> None:
        """Carries out the part of one acknowledgement that is in one batch."""
        by_offset = len(acknowledged.types) > 1
        whole = batch.within(acknowledged.first, acknowledged.last) and not by_offset and not batch.first < self.start
        if not batch.by_offset:
            run = batch.whole
            if run.state is not ACQUIRED:
                raise ShareError(INVALID_STATE, "The records are not acquired.")
            if run.member_id != member_id:
                raise ShareError(INVALID_STATE, "Another member holds the records.")
            batch.by_offset = not whole
        first, last = max(acknowledged.first, batch.first, self.start), min(acknowledged.last, batch.last)
        for run in list(batch.overlapping(first, last)):
            check_held(run, member_id)
            if not by_offset:
                self._settle(batch, run, acknowledged.types[0], changes)
                continue
            for part, kind in split_by_type(run, acknowledged):
                self._settle(batch, part, kind, changes)

    def _settle(self, batch: InFlightBatch, run: Run, kind: int, changes: Changes) -> None:
        settings = self.settings()
        if kind == REJECT:
            changes.give_up(batch, run, rejected=True)
        elif kind != RENEW:
            changes.release(batch, run, ACKNOWLEDGE_STATES[kind], settings.delivery_count_limit)
        elif settings.renew_enabled:
            changes.note(batch)
            batch.put(run._replace(deadline=self.lock()))
        else:
            raise ShareError(INVALID_STATE, "The group does not allow locks to be renewed (share.renew.acknowledge.enable).")

    def release(self, member_id: str) -> None:
        """Makes what a member holds available to others, because the member is gone. If it raises ShareError, the member holds
        its records until the locks end.
        """
        changes = Changes()
        for batch in self.batches:
            for run in list(batch.runs):
                if run.state is ACQUIRED and run.member_id == member_id:
                    self._release_run(batch, run, changes)
        try:
            self._apply(changes)
        except ShareError:
            changes.undo()
            raise

    def _release_run(self, batch: InFlightBatch, run: Run, changes: Changes) -> None:
        """Makes an acquired run available again, and archives the part of it that is below the start."""
        limit = self.settings().delivery_count_limit
        batch.by_offset |= batch.first < self.start <= batch.last
        if run.first < self.start:
            changes.set_state(batch, run.clipped(run.first, self.start - 1), ARCHIVED)
        if run.last >= self.start:
            changes.release(batch, run.clipped(self.start, run.last), AVAILABLE, limit)

    # Locks

    def lock(self) -> float:
        """Returns the deadline of a lock that begins now, and sets the timer for it."""
        deadline = self._clock.monotonic() + self.settings().record_lock_duration_ms / 1000
        self._set_timer(deadline)
        return deadline

    def _set_timer(self, deadline: float) -> None:
        """Makes the timer fire by `deadline`, if it would not fire before."""
        if deadline >= self._fires_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._fires_at = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._locks_are_over)

    def _locks_are_over(self) -> None:
        """Has the locks end when it is their turn: a member may hold records of thousands of partitions."""
        self._timer = None
        self._clock.turns.queue(self._clock, lambda until: self._end_locks())

    def _end_locks(self) -> None:
        """Ends the locks whose time is over, whether the persister can write that or not."""
        if self._fires_at == CLOSED:
            return
        self._fires_at = float("inf")
        now = self._clock.monotonic()
        changes = Changes()
        earliest = float("inf")
        for batch in self.batches:
            for run in list(batch.runs):
                if run.deadline <= now:
                    self._release_run(batch, run, changes)
                else:
                    earliest = min(earliest, run.deadline)
        self._set_timer(earliest)
        self._apply_anyway(changes, "record locks have ended")

    def close(self) -> None:
        """Ends the share partition and wakes the fetches that wait for it, so that they find that it is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._fires_at = None, CLOSED
        for giving_up in self._giving_up:
            giving_up.is_over = True
        self.wake()

    # Applying changes

    def _apply(self, changes: Changes, *, anyway: bool = False) -> Promise[None] | None:
        """Writes changes and follows them up. Raises ShareError if they cannot be written; the caller then undoes them, unless
        they are to take effect `anyway`. Returns a promise if they are written later.
        """
        if not changes.rows:
            return None
        written = self._write(changes, anyway=anyway)
        self._after(changes)
        return written

    def _apply_anyway(self, changes: Changes, what: str) -> None:
        """Applies changes that are not undone if they cannot be written; the log then says `what` is not."""
        try:
            self._apply(changes, anyway=True)
        except ShareError as error:
            logger.warning("%r: cannot write that %s: %s", self, what, error)
            self._after(changes)

    def _write(self, changes: Changes, *, anyway: bool = False) -> Promise[None] | None:
        giving_up = GivingUp(changes.given_up)
        letters = self._give_up(giving_up) if giving_up.runs else None
        if letters is not None:
            changes.archive_later()
            self._giving_up.add(giving_up)
            letters.add_done_callback(partial(self._archive, giving_up))
        try:
            written = self._persister.write(
                *self.key, self.state_epoch, self.leader_epoch, self.start, self.delivery_complete_count, changes.rows
            )
        except ShareStateError as error:
            if not anyway:
                giving_up.is_over = True
                self._giving_up.discard(giving_up)
            raise to_share_error(error) from error
        answer = with_share_errors(written)
        if answer is not None:
            answer.add_done_callback(self._check_written)
        return answer

    def _check_written(self, written: Promise[None]) -> None:
        try:
            written.result()
        except ShareError as error:
            logger.warning("%r: its last changes are lost: %s", self, error)
            self._lost(self)

    def _archive(self, giving_up: GivingUp, letters: Promise[None]) -> None:
        """Archives what was given up, now that its letters are written."""
        self._giving_up.discard(giving_up)
        if giving_up.is_over:
            return
        try:
            letters.result()
        except Exception:  # whatever it is, nobody waits for it, and the records are given up all the same
            logger.exception("%r: dead letters are lost", self)
        changes = Changes()
        for run, _ in giving_up.runs:
            for batch in self.from_to(max(0, self.floor(run.first)), run.last):
                changes.archive(batch, run)
        self._apply_anyway(changes, "records are archived")
        if not self._giving_up:
            self._archived(self)

    def _after(self, changes: Changes) -> None:
        """Moves the start and wakes waiting fetches as changes require."""
        self.find_next |= any(row.delivery_state == AVAILABLE for row in changes.rows)
        self.advance()
        self.wake()

    def advance(self) -> None:
        """Moves the start past what is done, and removes the batches that are done as a whole."""
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
            done = max(done, self.batches[first_left].first - 1)  # there are no records between
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
        """Moves the start up to the log's start, below which the available records are gone."""
        if log_start <= self.start:
            return
        if not self.batches:
            self.start = self.end = log_start
            return
        self.archive(self.start, log_start - 1, AVAILABLE)
        self.start = log_start
        self.end = max(self.end, log_start)

    def archive(self, first: int, last: int, state: RecordState) -> None:
        """Archives what is in `state` between two offsets, in memory only: it is written along with later changes."""
        for batch in self.from_to(max(0, self.floor(first)), last):
            if batch.last < first:
                continue
            for run in list(batch.overlapping(first, last)):
                if run.state is state:
                    batch.by_offset |= not batch.within(first, last)
                    batch.put(run.with_state(ARCHIVED))
                    self.find_next = True
