"""Keeps the high watermark of a partition with followers: the offset up to which all in-sync replicas have the leader's log. It
also holds the requests that wait for it.

Readers see records below the high watermark, and acks=all answers when it has passed the batch. It is the least log end among the
in-sync replicas, the leader among them, and moves when the leader appends or flushes, when a follower's fetch shows how far that
follower has come, and when the set of in-sync replicas changes. It never moves back. While fewer replicas are in sync than
`min.insync.replicas` requires, it does not move at all (KIP-966): otherwise a leader whose followers fell behind would
acknowledge records that no other replica has. A setting larger than the number of replicas counts as that number. Kafka's rules
are in `Partition` (`maybeIncrementLeaderHW`, `isUnderMinIsr`).

The leader's own log end counts as far as it is flushed: the log calls `on_append` for an append that `flush.messages` holds back
(log/flush.py) after its flush. So what the high watermark has passed is both flushed as asked and on all in-sync replicas.

A partition with one replica needs none of this: `PartitionLog.on_append` is None, the log moves its own high watermark with each
append, and this module is not loaded.
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
"""A function that is called with None once an append is acknowledged, or with the reason once it is certain that it will not be.
"""


class Led(Protocol):
    """A partition that this broker leads: its log, and the fetches that wait for its records (server/partitions/replica.py)."""

    log: PartitionLog

    def wake(self) -> None:
        """Lets the waiting fetches be attempted again."""
        ...


class HighWatermark:
    """The high watermark of one partition (see the module's docstring). It lasts as long as this broker leads the partition,
    through changes of its replicas.
    """

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
        """(end offset, function to call), by end offset."""

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

    def on_fetch(self, follower: int, end_offset: int) -> None:
        """Notes that a follower's fetch begins at `end_offset`: it has everything below. Ignores a broker that is no replica."""
        if follower in self._follower_ends:
            self._follower_ends[follower] = end_offset
            self.update()

    def change_replicas(self, followers: Collection[int], in_sync: Collection[int], *, is_new_epoch: bool) -> None:
        """Follows a change of the metadata. In a new leader epoch followers may have truncated their logs, so their log ends are
        unknown again.
        """
        known = {} if is_new_epoch else self._follower_ends
        self._follower_ends = {follower: known.get(follower, UNKNOWN_END) for follower in followers}
        self._in_sync = frozenset(in_sync)
        self.update()

    def update(self) -> None:
        """Moves the high watermark as far as it may go, wakes readers, and calls the functions that waited for it."""
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
        return offset > log.high_watermark and log.raise_high_watermark(offset)  # most appends do not get as far as the call

    # Waiting for it

    def when_passed(self, end_offset: int, acknowledged: OnAcknowledged) -> None:
        """Calls `acknowledged(None)` when everything below `end_offset` is on all in-sync replicas, which may be now."""
        if end_offset <= self._partition.log.high_watermark:
            acknowledged(None)
        elif self._waiting and end_offset < self._waiting[-1][0]:  # a duplicate of an earlier batch
            insort(self._waiting, (end_offset, acknowledged), key=itemgetter(0))
        else:
            self._waiting.append((end_offset, acknowledged))

    def give_up(self, error: Exception) -> None:
        """Calls every function that waits with `error`, because the leadership ended and the next leader may not have
        the batch.
        """
        waiting, self._waiting = self._waiting, deque()
        for _, acknowledged in waiting:
            acknowledged(error)
