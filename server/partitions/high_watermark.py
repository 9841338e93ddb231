"""The high watermark of a partition with followers: how far all in-sync replicas have the leader's log, and who waits for that.

Readers see records below the high watermark, and acks=all answers when it has passed the batch. It is the least log end among the
in-sync replicas, the leader among them, and moves when the leader appends or flushes, when a follower's fetch shows how far that
follower has come, and when the set of in-sync replicas changes. It never moves back. While fewer replicas are in sync than
`min.insync.replicas` asks for it does not move at all (KIP-966): otherwise a leader whose followers fell behind would acknowledge
records that nobody else has. More than there are replicas are never asked for. Kafka's rules are in `Partition`
(`maybeIncrementLeaderHW`, `isUnderMinIsr`).

The leader's own log end counts as far as it is flushed: the log calls `on_append` for an append that `flush.messages` holds back
(log/flush.py) after its flush. So what the high watermark has passed is both flushed as asked and on all in-sync replicas.

Where a partition has one replica there is none of this: `PartitionLog.on_append` is None, the log moves its own high watermark
with each append, and this module is not loaded.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog

UNKNOWN_END: Final = -1
"""The log end of a follower that has not fetched in this leader epoch."""

OnAcknowledged = Callable[[Exception | None], object]
"""What is called once an append counts; or, with the reason, once it is certain that it will not."""


class Led(Protocol):
    """The partition: its log, and the fetches that wait for records (server/partitions/replica.py)."""

    log: PartitionLog

    def wake(self) -> None:
        """Has the fetches that wait attempted again."""
        ...


class HighWatermark:
    """See the module's docstring. One lives as long as this broker leads the partition, through changes of its replicas."""

    __slots__ = ("_follower_ends", "_in_sync", "_local_end", "_partition", "_waiting")

    def __init__(self, partition: Led, followers: Collection[int], in_sync: Collection[int], local_end: int) -> None:
        """`followers` are the broker ids of the other replicas; `in_sync` are broker ids, too, this broker's among them.
        `local_end` is the end of what the leader's log has flushed as asked.
        """
        self._partition = partition
        self._follower_ends = dict.fromkeys(followers, UNKNOWN_END)
        self._in_sync = frozenset(in_sync)
        self._local_end = local_end
        self._waiting: deque[tuple[int, OnAcknowledged]] = deque()
        """(end offset, what to call), by end offset."""

    # What moves it

    def on_append(self, end_offset: int) -> bool:
        """Returns whether an acknowledgement by all replicas has to wait. The leader's log calls it, which now ends at
        `end_offset` and need not be flushed below that.

        Nobody is called from here, for the log is in the middle of an append; what waits hears of followers, which the append
        does not change.
        """
        self._local_end = end_offset
        self._advance()
        return end_offset > self._partition.log.high_watermark

    def on_fetch(self, follower: int, end_offset: int) -> None:
        """A follower's fetch begins at `end_offset`: it has everything below. A broker that is no replica does not count."""
        if follower in self._follower_ends:
            self._follower_ends[follower] = end_offset
            self.update()

    def change_replicas(self, followers: Collection[int], in_sync: Collection[int], *, is_new_epoch: bool) -> None:
        """The metadata changed. In a new leader epoch followers may have cut their logs: where they end is not known any more."""
        known = {} if is_new_epoch else self._follower_ends
        self._follower_ends = {follower: known.get(follower, UNKNOWN_END) for follower in followers}
        self._in_sync = frozenset(in_sync)
        self.update()

    def update(self) -> None:
        """Moves the high watermark as far as it may go, wakes readers, and calls those who waited for it."""
        if self._advance():
            self._partition.wake()
        high_watermark, waiting = self._partition.log.high_watermark, self._waiting
        passed = []
        while waiting and waiting[0][0] <= high_watermark:
            passed.append(waiting.popleft()[1])
        for acknowledged in passed:
            acknowledged(None)

    def _advance(self) -> bool:
        log = self._partition.log
        if len(self._in_sync) < min(log.config.min_insync_replicas, len(self._follower_ends) + 1):
            return False
        offset = min((end for follower, end in self._follower_ends.items() if follower in self._in_sync), default=self._local_end)
        offset = min(offset, self._local_end)
        if offset <= log.high_watermark:
            return False
        log.high_watermark = offset
        return True

    # Who waits for it

    def when_passed(self, end_offset: int, acknowledged: OnAcknowledged) -> None:
        """Calls `acknowledged` once, at once if everything below `end_offset` is on all in-sync replicas already."""
        if end_offset <= self._partition.log.high_watermark:
            acknowledged(None)
        elif self._waiting and end_offset < self._waiting[-1][0]:  # a duplicate of an earlier batch
            insort(self._waiting, (end_offset, acknowledged), key=itemgetter(0))
        else:
            self._waiting.append((end_offset, acknowledged))

    def give_up(self, error: Exception) -> None:
        """The leadership ended. Whoever waits is called with `error`: the next leader may not have the batch."""
        waiting, self._waiting = self._waiting, deque()
        for _, acknowledged in waiting:
            acknowledged(error)
