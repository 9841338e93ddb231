"""The leader epochs of a partition: the offset at which each leader began. Followers and consumers use them to find where two
logs diverge.

A list of (epoch, start offset), both strictly growing: epoch e wrote the offsets from its start to the start of the next. From it
come OffsetForLeaderEpoch and the diverging-epoch answer of Fetch (KIP-101, KIP-279, KIP-595), and the epoch beside each offset in
ListOffsets.

The list is saved as `leader-epoch-checkpoint`, whose form log/disk/checkpoint.py knows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

from ottla.log.disk.checkpoint import EpochEntry, encode_epochs

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class LeaderEpochs:
    """The epochs of one partition's log, oldest first."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """Returns the epoch of the newest batch, -1 if there is none."""
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Notes that the batch at `start_offset` is of `epoch`. Returns whether the list changed and has to be saved.

        Entries that contradict the new one, by epoch or by offset, are removed: the log's bytes are right and they are not.
        """
        assert epoch >= 0, f"leader epoch {epoch}"
        assert start_offset >= 0, f"start offset {start_offset}"
        entries = self._entries
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Returns (the largest known epoch that is at most `epoch`, the offset after its last record), as OffsetForLeaderEpoch
        answers.

        The current epoch ends at the log's end. For an epoch before all known ones this returns the epoch itself and the first
        known start; for one that is not known yet, or -1, it returns (-1, -1).
        """
        if epoch == UNDEFINED_EPOCH or not self._entries or epoch > self.latest_epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        after = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        floor = self._entries[after - 1].epoch if after else epoch
        return floor, self._entries[after].start_offset

    def epoch_for(self, offset: int) -> int:
        """Returns the epoch that wrote `offset`, -1 if it is older than all entries."""
        after = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[after - 1].epoch if after else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Removes the epochs that began at `end_offset`, where the log now ends, or later. Returns whether the list changed; -1,
        an unknown end, changes nothing.
        """
        if end_offset == UNDEFINED_OFFSET:
            return False
        keep = bisect_left(self._entries, end_offset, key=lambda entry: entry.start_offset)
        changed = keep < len(self._entries)
        del self._entries[keep:]
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Notes that the log now begins at `start_offset`, where the epoch that contains it begins from now on. Returns whether
        the list changed."""
        after = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if after == 0:
            return False
        first = EpochEntry(self._entries[after - 1].epoch, start_offset)
        changed = after > 1 or self._entries[0] != first
        self._entries[:after] = [first]
        return changed

    def clear(self) -> None:
        self._entries.clear()

    def encoded(self) -> bytes:
        """Returns the bytes of the `leader-epoch-checkpoint`."""
        return encode_epochs(self._entries)
