"""The indexes of one segment: offset, time and transaction index, in memory or in their files.

The indexes of a segment that grows are in memory, and so are small ones that were looked at. Large ones are searched in their
files (log/stored_index.py) until somebody appends. What is in memory only is dirty until it is written.

Who reads finds a wrong index out here, as CorruptIndex; to rebuild it from the log is up to the segment, which has that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from ottla.log.disk.files import Disk
from ottla.log.index import CorruptIndex, OffsetIndex, TimeIndex, load_offset_index, load_time_index
from ottla.log.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ottla.log.stored_index import LOADED_ENTRIES, StoredOffsets, StoredTimes, is_large
from ottla.log.txn_index import NO_ABORTS, TxnIndex, load_txn_index

PathOf = Callable[[str], str]
"""Returns the path of the segment's file with a suffix."""


class SegmentIndexes:
    """The indexes of the segment with this base offset. `max_bytes` is segment.index.bytes."""

    __slots__ = (
        "_base_offset",
        "_disk",
        "_max_bytes",
        "_stored",
        "are_dirty",
        "are_full",
        "are_txns_compared",
        "offsets",
        "times",
        "txns",
    )

    def __init__(self, disk: Disk, base_offset: int, max_bytes: int, *, is_new: bool) -> None:
        self._disk = disk
        self._base_offset = base_offset
        self._max_bytes = max_bytes
        self._stored: tuple[StoredOffsets, StoredTimes] | None = None  # while they are not in memory, because they are large
        self.offsets: OffsetIndex | None = None
        """The offset index, if it is in memory; then the time index is, too."""
        self.times: TimeIndex | None = None
        self.txns: TxnIndex | None = NO_ABORTS if is_new else None
        """The transaction index, if it was read."""
        self.are_txns_compared = is_new
        """True if the transaction index was compared with the log, or made from it."""
        self.are_dirty = False
        """True if something of them is in memory only."""
        self.are_full = False
        """True if the offset or the time index takes no more entries."""

    def without_entries(self) -> SegmentIndexes:
        """Returns indexes of the same segment of which only the transaction index is there, which is this one's."""
        new = SegmentIndexes(self._disk, self._base_offset, self._max_bytes, is_new=False)
        new.txns, new.are_txns_compared = self.txns, self.are_txns_compared
        return new

    def reset(self) -> None:
        """Makes the offset and the time index empty, before they are filled anew."""
        self.offsets = OffsetIndex(self._base_offset, self._max_bytes)
        self.times = TimeIndex(self._base_offset, self._max_bytes)
        self._stored = None
        self.are_dirty, self.are_full = True, False

    def load(self, path_of: PathOf, log_size: int) -> None:
        """Reads the offset and the time index of a log of `log_size` bytes into memory. Raises CorruptIndex and OSError; then
        neither is there."""
        self._stored = None
        offsets, times = OffsetIndex(self._base_offset, self._max_bytes), TimeIndex(self._base_offset, self._max_bytes)
        if log_size:
            offsets = load_offset_index(self._disk, path_of(INDEX_SUFFIX), self._base_offset, self._max_bytes, log_size)
            times = load_time_index(self._disk, path_of(TIME_INDEX_SUFFIX), self._base_offset, self._max_bytes)
        self.offsets, self.times = offsets, times
        self.are_full = log_size > 0 and (offsets.is_full or times.is_full)

    def resize(self, max_bytes: int, log_size: int) -> None:
        """Takes a new segment.index.bytes."""
        if max_bytes == self._max_bytes:
            return
        self._max_bytes = max_bytes
        if self.offsets is not None and self.times is not None:
            self.offsets.resize(max_bytes)
            self.times.resize(max_bytes)
            self.are_full = log_size > 0 and (self.offsets.is_full or self.times.is_full)

    def stored(self, path_of: PathOf, log_size: int) -> tuple[StoredOffsets, StoredTimes] | None:
        """Returns the offset and the time index if they are to be searched in their files; None if they are in memory, or small
        enough to be. Raises OSError."""
        if self.offsets is not None or log_size == 0:
            return None
        if self._stored is None:
            offsets, times = path_of(INDEX_SUFFIX), path_of(TIME_INDEX_SUFFIX)
            with suppress(CorruptIndex):  # who loads them finds that, too, and has them rebuilt
                if is_large(self._disk, offsets):
                    stored_offsets = StoredOffsets(self._disk, offsets, self._base_offset, log_size)
                    self._stored = stored_offsets, StoredTimes(self._disk, times, self._base_offset)
        return self._stored

    def release(self) -> None:
        """Lets go of what is on disk, too."""
        self._stored = None
        if not self.are_dirty:
            self.offsets = self.times = self.txns = None

    def release_large(self) -> None:
        """Lets go of what is on disk, too, if it can be searched there: the segment has ended."""
        if not self.are_dirty and self.offsets is not None and len(self.offsets) > LOADED_ENTRIES:
            self.offsets = self.times = None

    def forget_files(self) -> None:
        """Notes that the files have other names, or are in a directory of another name."""
        self._stored = None

    # The transaction index

    def read_txns(self, path_of: PathOf) -> TxnIndex:
        """Returns the transactions that markers in this segment aborted. Raises CorruptIndex if the file is wrong, so that the
        index must be rebuilt from the log (log/rebuild.py), and OSError."""
        if self.txns is None:
            self.txns = load_txn_index(self._disk, path_of(TXN_INDEX_SUFFIX), self._base_offset)
        return self.txns

    def change_txns(self, path_of: PathOf) -> TxnIndex:
        """Returns the transaction index for the caller to change; it will be written with the others."""
        index = self.read_txns(path_of)
        if index is NO_ABORTS:
            index = self.txns = TxnIndex(self._base_offset)
        index.changed = self.are_dirty = True
        return index

    def reset_txns(self, path_of: PathOf) -> None:
        """Empties the transaction index, whatever is in the file, before the markers are read again."""
        self.txns, self.are_txns_compared = NO_ABORTS, True
        if self._disk.exists(path_of(TXN_INDEX_SUFFIX)):
            self.change_txns(path_of)

    # Writing

    def rewrite(self) -> None:
        """Makes the next `write` write all of them again."""
        self.are_dirty = True
        if self.txns is not None and self.txns is not NO_ABORTS:
            self.txns.changed = True

    def write(self, path_of: PathOf, offsets: OffsetIndex, times: TimeIndex) -> Sequence[str]:
        """Writes, unsynced, what is dirty of all three; returns the paths. Raises OSError."""
        paths = [path_of(INDEX_SUFFIX), path_of(TIME_INDEX_SUFFIX)]
        for path, data in zip(paths, (offsets.encode(), times.encode()), strict=True):
            self._disk.write_bytes(path, data, sync=False)
        if self.txns is not None and self.txns.write(self._disk, path_of(TXN_INDEX_SUFFIX)):
            paths.append(path_of(TXN_INDEX_SUFFIX))
        self.are_dirty = False
        return paths
