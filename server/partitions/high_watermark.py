"""Keeps the high watermark of a partition with followers: the offset up to which all in-sync replicas have the leader's log. It
also holds the requests that wait for it.

Readers see records below the high watermark, and acks=all answers when it has passed the batch. It is the least log end among the
in-sync replicas, the leader among them, and moves when the leader appends or flushes, when a follower's fetch shows how far that
follower has come, and when the set of in-sync replicas changes. It never moves back. While fewer replicas are in sync than
`min.insync.replicas` requires, it does not move at all (KIP-966): otherwise a leader whose followers fell behind would
acknowledge records that no other replica has. A setting larger than the number of replicas counts as that number. Kafka's rules
are in `Partition` (`maybeIncrementLeaderHW`, `isUnderMinIsr`).

Two kinds of followers count before the metadata says that they are in sync: one whose addition this leader has proposed, because
the controllers may have written it down already and could elect it; and one that has caught up and may be added, because a high
watermark that runs ahead of it would keep it out. Both are known to who proposes changes of the in-sync replicas
(`IsrKeeper`, server/replication/isr.py). There is none where this broker is its own controller.

The leader's own log end counts as far as it is flushed: the log calls `on_append` for an append that `flush.messages` holds back
(log/flush.py) after its flush. So what the high watermark has passed is both flushed as asked and on all in-sync replicas.

A partition with one replica needs none of this: `PartitionLog.on_append` is None, the log moves its own high watermark with each
append, and this module is not loaded.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Container
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol

from ottla.server.base.errors import NotEnoughReplicasAfterAppend, RequestTimedOut
from ottla.server.partitions.follower_state import UNKNOWN, FollowerState

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog
    from ottla.server.base.clock import Cancellable, Clock

NO_DEADLINE: Final = float("inf")

OnAcknowledged = Callable[[Exception | None], object]
"""A function that is called with None once an append is acknowledged, or with the reason once it is certain that it will not be.
"""


class Led(Protocol):
    """A partition that this broker leads: its log, and the fetches that wait for its records (server/partitions/replica.py)."""

    log: PartitionLog
    under_min_isr: bool

    def wake(self) -> None:
        """Lets the waiting fetches be attempted again."""
        ...


class IsrKeeper(Protocol):
    """The part that proposes changes of a partition's in-sync replicas (server/replication/isr.py)."""

    def is_fenced_out(self, follower: int, broker_epoch: int) -> bool:
        """Returns whether a fetch with this broker epoch is of an earlier life of the follower, so that it says nothing."""
        ...

    def consider(self, follower: int, state: FollowerState) -> None:
        """Proposes to add a follower that has fetched, if it may be added."""
        ...

    def may_join(self, follower: int, state: FollowerState) -> bool:
        """Returns whether a follower that is not in sync has caught up and may be added."""
        ...

    def replaced(self) -> None:
        """Is told that the metadata has new in-sync replicas, which end what was proposed."""
        ...


class HighWatermark:
    """The high watermark of one partition (see the module's docstring). It lasts as long as this broker leads the partition,
    through changes of its replicas.
    """

    __slots__ = (
        "_clock", "_counted", "_local_end", "_partition", "_rings_at", "_timer", "_waiting", "followers", "in_sync", "keeper",
        "partition_epoch",
    )  # fmt: skip

    def __init__(
        self, partition: Led, followers: Collection[int], in_sync: Collection[int], local_end: int, clock: Clock, epoch: int = -1
    ) -> None:
        """`followers` are the broker ids of the other replicas; `in_sync` are broker ids, too, this broker's among them. They are
        those of the partition epoch `epoch`. `local_end` is the end of what the leader's log has flushed as asked.
        """
        self._partition = partition
        self._clock = clock
        now = clock.monotonic()
        self.followers = {each: FollowerState(now) if each in in_sync else FollowerState() for each in followers}
        self.in_sync = frozenset(in_sync)
        """The in-sync replicas of the metadata, this broker among them."""
        self._counted = self.in_sync
        """These, and the followers that are proposed to join them."""
        self.partition_epoch = epoch
        """The version of `in_sync`."""
        self.keeper: IsrKeeper | None = None
        self._local_end = local_end
        self._waiting: deque[tuple[int, float, OnAcknowledged]] = deque()
        """(end offset, deadline, function to call), by end offset."""
        self._timer: Cancellable | None = None
        self._rings_at = NO_DEADLINE
        self._note_min_isr()

    # Moving it

    def on_append(self, end_offset: int) -> bool:
        """Notes that the leader's log, which calls this, now ends at `end_offset` or behind it and needs no flush below that.
        Returns whether an acknowledgement by all replicas has to wait. Appends that waited for a flush are noted after it, so a
        later one may have been noted before them.

        The log is in the middle of an append, so no waiting request is called from here. None has to be: an append alone moves
        no follower, and requests wait for followers.
        """
        self._local_end = max(self._local_end, end_offset)
        self._advance()
        return end_offset > self._partition.log.high_watermark

    def on_fetch(self, follower: int, end_offset: int, log_start_offset: int = UNKNOWN, broker_epoch: int = UNKNOWN) -> bool:
        """Notes that a follower's fetch begins at `end_offset`: it has everything below. Returns False, and notes nothing, for a
        broker that is no replica or a fetch from before that broker's last start.
        """
        state = self.followers.get(follower)
        keeper = self.keeper
        if state is None or (keeper is not None and keeper.is_fenced_out(follower, broker_epoch)):
            return False
        before, start_before = state.end_offset, state.log_start_offset
        state.note_fetch(end_offset, log_start_offset, broker_epoch, self._clock.monotonic(), self._partition.log.log_end_offset)
        if keeper is not None:
            keeper.consider(follower, state)
        if end_offset != before:
            self.update()
        if log_start_offset != start_before:  # which is what a DeleteRecords may wait for
            self._partition.wake()
        return True

    def change_replicas(
        self, followers: Collection[int], in_sync: Collection[int], *, is_new_epoch: bool, epoch: int = -1
    ) -> None:
        """Follows a change of the metadata; `epoch` is its partition epoch. In a new leader epoch followers may have truncated
        their logs, so their log ends are unknown again. A change that the controllers have already answered, or an earlier one,
        has nothing new, and does not end what was proposed since: the controllers may have written that down.
        """
        if not is_new_epoch and epoch < self.partition_epoch:
            return
        now = self._clock.monotonic()
        known = {} if is_new_epoch else self.followers
        self.followers = {
            each: known.get(each) or (FollowerState(now) if each in in_sync else FollowerState()) for each in followers
        }
        if is_new_epoch or epoch > self.partition_epoch or self.in_sync != frozenset(in_sync):
            self.commit(in_sync, epoch)
        else:
            self._note_min_isr()
            self.update()

    def commit(self, in_sync: Collection[int], epoch: int) -> None:
        """Takes over the in-sync replicas that the controllers have written down as those of the partition epoch `epoch`."""
        self.partition_epoch = epoch
        self.in_sync = self._counted = frozenset(in_sync)
        if self.keeper is not None:
            self.keeper.replaced()
        self._note_min_isr()
        self.update()

    def count(self, proposed: Collection[int] = ()) -> None:
        """Counts the replicas in `proposed` besides those in sync, until the next `commit`; without any, no longer."""
        self._counted = self.in_sync.union(proposed)
        self.update()

    def update(self) -> None:
        """Moves the high watermark as far as it may go, wakes readers, and calls the functions that waited for it."""
        if self._advance():
            self._partition.wake()
        high_watermark, waiting = self._partition.log.high_watermark, self._waiting
        if not waiting or waiting[0][0] > high_watermark:
            return
        passed = []
        while waiting and waiting[0][0] <= high_watermark:
            passed.append(waiting.popleft()[2])
        error = self._outcome()
        for acknowledged in passed:
            acknowledged(error)

    def configured(self) -> None:
        """Is called when the topic's settings have changed. A new `min.insync.replicas` may let the high watermark move."""
        self._note_min_isr()
        self.update()

    @property
    def min_in_sync(self) -> int:
        """Returns how many replicas have to be in sync: `min.insync.replicas`, or all where that is more than there are."""
        return min(self._partition.log.config.min_insync_replicas, len(self.followers) + 1)

    def low_watermark(self, alive: Container[int]) -> int:
        """Returns the least start among the logs of the leader and of the followers in `alive`, which are broker ids; -1 if
        one of these has not fetched yet."""
        starts = [state.log_start_offset for follower, state in self.followers.items() if follower in alive]
        return min([self._partition.log.log_start_offset, *starts])

    def _note_min_isr(self) -> None:
        self._partition.under_min_isr = len(self.in_sync) < self.min_in_sync

    def _advance(self) -> bool:
        if self._partition.under_min_isr:
            return False
        log, offset = self._partition.log, self._local_end
        if offset <= log.high_watermark:
            return False
        for follower, state in self.followers.items():
            if state.end_offset < offset and (
                follower in self._counted or (self.keeper is not None and self.keeper.may_join(follower, state))
            ):
                offset = state.end_offset
        return offset > log.high_watermark and log.raise_high_watermark(offset)  # most appends do not get as far as the call

    def _outcome(self) -> Exception | None:
        """Returns what an append that the high watermark has passed is answered."""
        if len(self._counted) >= self.min_in_sync:
            return None
        return NotEnoughReplicasAfterAppend(f"{len(self._counted)} replicas are in sync, {self.min_in_sync} have to be")

    # Waiting for it

    def when_passed(self, end_offset: int, acknowledged: OnAcknowledged, timeout_ms: int | None = None) -> None:
        """Calls `acknowledged(None)` when everything below `end_offset` is on all in-sync replicas, which may be now; with
        RequestTimedOut when `timeout_ms` are over first; and with NotEnoughReplicasAfterAppend if too few are in sync by then.
        """
        if end_offset <= self._partition.log.high_watermark:
            acknowledged(self._outcome())
            return
        deadline = NO_DEADLINE
        if timeout_ms is not None:
            deadline = self._clock.monotonic() + timeout_ms / 1000
            self._ring_at(deadline)
        waits = end_offset, deadline, acknowledged
        if self._waiting and end_offset < self._waiting[-1][0]:  # a duplicate of an earlier batch
            insort(self._waiting, waits, key=itemgetter(0))
        else:
            self._waiting.append(waits)

    def give_up(self, error: Exception) -> None:
        """Calls every function that waits with `error`, because the leadership ended and the next leader may not have
        the batch.
        """
        waiting, self._waiting = self._waiting, deque()
        if self._timer is not None:
            self._timer.cancel()
        for _, _, acknowledged in waiting:
            acknowledged(error)

    def _ring_at(self, deadline: float) -> None:
        """Has one timer ring for the earliest deadline. A wait that is over leaves it alone, so it mostly rings for nothing, and
        once in a timeout."""
        if deadline >= self._rings_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer, self._rings_at = None, NO_DEADLINE
        now = self._clock.monotonic()
        overdue = [acknowledged for _, deadline, acknowledged in self._waiting if deadline <= now]
        if overdue:
            self._waiting = deque(each for each in self._waiting if each[1] > now)
        earliest = min((deadline for _, deadline, _ in self._waiting), default=NO_DEADLINE)
        if earliest < NO_DEADLINE:
            self._ring_at(earliest)
        for acknowledged in overdue:
            acknowledged(RequestTimedOut("not all in-sync replicas had the batch in time"))
