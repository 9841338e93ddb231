"""One segment: a `.log` file named by its base offset, with its `.index`, `.timeindex` and, if need be, `.txnindex`.

Only the last segment of a partition grows; all others are immutable but for truncation. A segment costs little while nobody uses
it: file and indexes are opened when first needed and let go again (`OpenFiles`), so that a thousand idle partitions are a
thousand small objects and no descriptors.

An append writes the bytes first and does the bookkeeping afterwards. If not all bytes were written, the file is cut back to its
old size before the error is raised; if even that fails, recovery cuts the torn tail at the next start.

Large indexes are not loaded to be read, because a segment that has ended has no use for all of them: their files are searched
(log/stored_index.py). Who appends loads them.

Index entries follow Kafka's rule: when more than `index.interval.bytes` were written since the last entry, the batch that is
about to be written gets one (its last offset, its position), and the time index gets one with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from ottla.log.disk.files import Buffer, Disk, File, OpenFiles, StateUnknown, remove_files
from ottla.log.errors import CorruptRecord
from ottla.log.index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, CorruptIndex, OffsetIndex, TimeIndex
from ottla.log.names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from ottla.log.scan import HEADER_SIZE, Located, ProducerBatch, find, walk, walk_ascending
from ottla.log.segment_indexes import SegmentIndexes
from ottla.log.stored_index import StoredOffsets, StoredTimes
from ottla.log.txn_index import TxnIndex
from ottla.wire.kernel import BatchScan

T = TypeVar("T")

_UNKNOWN: Final = -2  # a timestamp that was not read from disk yet; -1 means "no timestamp"


class Segment:
    """A segment, as the module's docstring describes it. `size` is the length of the log file in bytes, `base_offset` the least
    offset that it may hold."""

    __slots__ = (
        "_damaged",
        "_disk",
        "_max_timestamp",
        "_offset_of_max",
        "_open_files",
        "_since_index",
        "are_times_doubtful",
        "base_offset",
        "created_ms",
        "directory",
        "file",
        "first_timestamp",
        "index_interval_bytes",
        "indexes",
        "jitter_ms",
        "longer_on_disk",
        "name_ending",
        "producer_batches",
        "size",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        size: int,
        open_files: OpenFiles,
        index_bytes: int,
        index_interval_bytes: int,
        now_ms: int,
        jitter_ms: int = 0,
    ) -> None:
        """Makes the object of an existing segment of `size` bytes; for a new one, call `create_files` afterwards."""
        self._disk = disk
        self._open_files = open_files
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.longer_on_disk = False
        """True if the file is longer than `size`, by zeros that were preallocated, or may be so after a power cut."""
        self.name_ending = ""
        """The last suffix of its file names while it is not part of the log: `.cleaned` or `.swap` (log.compaction.swap)."""
        self.index_interval_bytes = index_interval_bytes
        self.jitter_ms = jitter_ms
        self.created_ms = now_ms
        self.file: File | None = None
        self.indexes = SegmentIndexes(disk, base_offset, index_bytes, is_new=size == 0)
        self._damaged = False  # whether the log itself could not be walked
        self.producer_batches: Sequence[ProducerBatch] | None = None
        """The batches that producer state must see, if they are known, while the log is being opened."""
        self._since_index = 0
        self._max_timestamp = _UNKNOWN if size else NO_TIMESTAMP
        self._offset_of_max = base_offset
        self.are_times_doubtful = False
        """True if the greatest timestamp is only by the time index, and was not compared (log/time_checks.py)."""
        self.first_timestamp = _UNKNOWN if size else NO_TIMESTAMP
        """The greatest timestamp of the first batch; negative if it has none or was not read yet. `waited_ms` reads it."""

    def __repr__(self) -> str:
        return f"Segment({self.directory}/{offset_name(self.base_offset)}, {self.size} bytes)"

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{self.base_offset:020d}{suffix}{self.name_ending}"

    def create_files(self, reserve_bytes: int = 0) -> None:
        """Makes the three files, empty as in Kafka, but for `reserve_bytes` of zeros in the log, which appends overwrite.

        Raises OSError, with none of the files left, and StateUnknown.
        """
        paths = [self.path(suffix) for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
        try:
            for path in paths:
                self._disk.open(path, create=True).close()
            if reserve_bytes:
                self.open_file().reserve(reserve_bytes)
                self.longer_on_disk = True
        except OSError:
            self.release_file()
            remove_files(self._disk, paths)
            raise

    # The file

    def open_file(self) -> File:
        """Returns the log file, opened if it is not. Hot paths write `segment.file or segment.open_file()`."""
        file = self.file
        if file is None:
            file = self.file = self._disk.open(self.path(LOG_SUFFIX))
            if file.size > self.size:
                file.end_at(self.size)
            self._open_files.opened(self)
        return file

    def trim(self) -> bool:
        """Ends the file at `size`. Returns whether it was or may be longer, so that it must be synced."""
        if not self.longer_on_disk:
            return False
        self.open_file().truncate(self.size)
        self.longer_on_disk = False
        return True

    def release_file(self) -> None:
        """Drops the references to the file and, if they are on disk, to the indexes. The file stays open while it is being
        read."""
        self.file = None
        self.indexes.release()

    def hand_over(self, open_files: OpenFiles) -> None:
        """Ends the opening of the log: from here on the file counts among those of all partitions, and is opened when needed."""
        self._open_files.forget(self)
        self.release_file()
        self.producer_batches = None
        self._open_files = open_files

    def append(self, parts: Sequence[Buffer], length: int, last_offset: int, max_timestamp: int) -> int:
        """Writes `length` bytes of whole batches; returns the position they start at.

        `last_offset` and `max_timestamp` (ms, or -1) are those of all batches together. After an OSError the file is as before;
        after StateUnknown, a subclass, it could not be cut back and is torn behind `size`.
        """
        position = self.size
        file = self.file or self.open_file()
        if self.indexes.offsets is None and position:
            self._load_indexes()  # this may fail, so it comes before the write, after which nothing may
        self._write(file, parts, length)
        if position == 0:
            self.reset_indexes()
            self.first_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:  # which may not have been read yet: the method asks again
            self._raise_max_timestamp(max_timestamp, last_offset)
        if self._since_index > self.index_interval_bytes:
            self._add_entries(last_offset, position)
        self._since_index += length
        return position

    def append_run(self, parts: Sequence[Buffer], length: int, batches: Sequence[tuple[int, int, int]]) -> None:
        """Writes several whole batches of `length` bytes together at once; the indexes become what `append` would make them for
        one batch after the other.

        `batches` are (bytes, last offset, greatest timestamp in ms or -1) of each; there may be at most `index_room` of them, or
        one. Raises what `append` raises.
        """
        position = self.size
        file = self.file or self.open_file()
        if self.indexes.offsets is None and position:
            self._load_indexes()
        if self._max_timestamp == _UNKNOWN:  # `index_batch` compares with it
            self._raise_max_timestamp(NO_TIMESTAMP, self.base_offset)
        self._write(file, parts, length)
        if position == 0:
            self.reset_indexes()
            self.first_timestamp = batches[0][2]
        for size, last_offset, max_timestamp in batches:
            self.index_batch(position, size, last_offset, max_timestamp)
            position += size
        self.indexes.are_dirty = True

    @property
    def index_room(self) -> int:
        """Returns how many more entries fit both indexes, which is how many batches can come before the segment is full."""
        return min(self.offset_index.room, self.time_index.room)

    def _write(self, file: File, parts: Sequence[Buffer], length: int) -> None:
        """Writes `length` bytes at the segment's end, or cuts off what was written of them and raises OSError."""
        try:
            written = file.append(parts)
            while written != length:  # after a short write the next one raises the reason
                written += file.append([memoryview(b"".join(parts))[written:]])
        except OSError:
            self._take_back(file)
            raise
        self.size += length

    def _take_back(self, file: File) -> None:
        """Cuts off what was written by an append that failed. Raises StateUnknown.

        No flush needs to sync this file if all its records are durable, so a power cut could bring what was cut off back, behind
        a recovery point that lies in a later segment. The segment's end therefore cuts once more, and syncs.
        """
        self.longer_on_disk = True
        try:
            file.truncate(self.size)
        except OSError as error:
            raise StateUnknown(error.errno, f"half a write could not be cut off: {error.strerror}") from error

    def _raise_max_timestamp(self, timestamp: int, offset: int) -> None:
        if self._max_timestamp == _UNKNOWN:
            last = self._in_times(lambda index: index.last())
            if self._max_timestamp == _UNKNOWN:  # not if loading rebuilt a bad index, which sets it
                self._max_timestamp, self._offset_of_max = last
                self.are_times_doubtful = True
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
            self._offset_of_max = offset
            self.indexes.are_dirty = True  # the last entry of the time index is not on disk

    def _add_entries(self, last_offset: int, position: int) -> None:
        offset_index, time_index = self.offset_index, self.time_index
        if not offset_index.is_full:
            offset_index.append(last_offset, position)
        if not time_index.is_full:
            time_index.append_if_later(self.max_timestamp, self._offset_of_max)
        self.indexes.are_full = offset_index.is_full or time_index.is_full
        self.indexes.are_dirty = True
        self._since_index = 0

    # Timestamps

    @property
    def max_timestamp(self) -> int:
        """Returns the greatest timestamp of any record, ms; -1 if none has one."""
        if self._max_timestamp == _UNKNOWN:
            self._raise_max_timestamp(NO_TIMESTAMP, self.base_offset)
        return self._max_timestamp

    @property
    def offset_of_max(self) -> int:
        """Returns the offset of the time index for the greatest timestamp: the last one of the append that has it."""
        return self._offset_of_max

    def largest_timestamp(self) -> int:
        """Returns the time that retention uses, in ms: the greatest record timestamp, or else when the file was last written."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self._disk.modified_ms(self.path(LOG_SUFFIX))

    def waited_ms(self, now_ms: int, max_timestamp: int) -> int:
        """Returns how long the segment has waited to be rolled when `max_timestamp` is appended: by record time, if it has
        any."""
        if self.first_timestamp == _UNKNOWN:
            first = next(walk(self.file or self.open_file(), 0, self.size, HEADER_SIZE), None)
            self.first_timestamp = first.max_timestamp if first else NO_TIMESTAMP
        return max_timestamp - self.first_timestamp if self.first_timestamp >= 0 else now_ms - self.created_ms

    def can_hold(self, offset: int) -> bool:
        """Returns whether the offset fits an index entry, which has 31 bits above the base offset."""
        return 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET

    # Finding

    def position_of(self, offset: int) -> int:
        """Returns where a walk to an offset begins: the position of the last entry at or below it, 0 if there is none. Raises
        CorruptRecord and OSError, as all that find something by an index."""
        index = self.indexes.offsets
        return self._in_offsets(lambda stored: stored.lookup(offset)) if index is None else index.lookup(offset)

    def offset_at(self, position: int) -> int | None:
        """Returns the offset of the first entry at or behind a position (OffsetIndex.offset_at)."""
        return self._in_offsets(lambda index: index.offset_at(position))

    def offset_before(self, timestamp: int) -> int:
        """Returns the offset up to which every record is earlier than a timestamp (TimeIndex.lookup)."""
        return self._in_times(lambda index: index.lookup(timestamp))

    def _in_offsets(self, search: Callable[[OffsetIndex | StoredOffsets], T]) -> T:
        stored = self.indexes.stored(self.path, self.size)
        if stored is not None:
            with suppress(CorruptIndex):  # what is loaded instead is rebuilt if it is wrong
                return search(stored[0])
        return search(self.offset_index)

    def _in_times(self, search: Callable[[TimeIndex | StoredTimes], T]) -> T:
        stored = self.indexes.stored(self.path, self.size)
        if stored is not None:
            with suppress(CorruptIndex):
                return search(stored[1])
        return search(self.time_index)

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index in memory, rebuilt if the file is wrong. Raises CorruptRecord and OSError."""
        index = self.indexes.offsets
        return self._load_indexes()[0] if index is None else index

    @property
    def time_index(self) -> TimeIndex:
        """The time index in memory, rebuilt if the file is wrong. Raises CorruptRecord and OSError."""
        index = self.indexes.times
        return self._load_indexes()[1] if index is None else index

    @property
    def txn_index(self) -> TxnIndex:
        """The transactions that markers in this segment aborted. Raises CorruptIndex if the file is wrong, so that the index must
        be rebuilt from the log (log.rebuild), and OSError."""
        return self.indexes.read_txns(self.path)

    def change_txn_index(self) -> TxnIndex:
        """Returns the transaction index for the caller to change; it will be written with the other indexes."""
        return self.indexes.change_txns(self.path)

    def reset_txn_index(self) -> None:
        """Empties the transaction index, whatever is in the file, before the markers are read again."""
        self.indexes.reset_txns(self.path)

    def _load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        try:
            self.indexes.load(self.path, self.size)
            if self.size and not self.indexes.times:
                self._explain_no_timestamps()
        except CorruptIndex:
            self.rebuild_indexes()
        offsets, times = self.indexes.offsets, self.indexes.times
        assert offsets is not None
        assert times is not None
        return offsets, times

    def _explain_no_timestamps(self) -> None:
        """Finds out from the log why the time index has no entries: the records have no timestamps, or the index was lost."""
        if any(batch.max_timestamp > NO_TIMESTAMP for batch in walk(self.file or self.open_file(), 0, self.size)):
            self.rebuild_indexes()
        else:
            self._max_timestamp, self._offset_of_max = NO_TIMESTAMP, self.base_offset

    def configure(self, *, index_bytes: int, index_interval_bytes: int) -> None:
        """Takes the topic's settings, which have changed or became known only after the log was opened."""
        self.index_interval_bytes = index_interval_bytes
        self.indexes.resize(index_bytes, self.size)

    def locate(self, offset: int) -> Located | None:
        """Returns the first batch that ends at or after `offset`, or None. Raises CorruptRecord if the log itself cannot be
        walked."""
        try:
            return self._locate(offset)
        except (CorruptIndex, CorruptRecord) as error:
            if self._damaged:
                raise CorruptRecord(f"{self!r}: {error}") from error
            self.rebuild_indexes()  # the index may point into the middle of a batch
            return self._locate(offset)

    def _locate(self, offset: int) -> Located | None:
        start = self.position_of(offset)
        found = find(self.file or self.open_file(), start, self.size, offset)
        if found is not None and found.base_offset > offset and found.position == start > 0:
            raise CorruptIndex(f"{self!r}: the entry at position {start} is wrong")
        return found

    def next_offset(self) -> int:
        """Returns the offset after the last one in the segment; the base offset if it is empty. Raises CorruptRecord as `locate`
        does."""
        try:
            return self._next_offset()
        except (CorruptIndex, CorruptRecord):
            self.rebuild_indexes()
            return self._next_offset()

    def _next_offset(self) -> int:
        batches = deque(walk(self.file or self.open_file(), self.offset_index.last_position(), self.size), maxlen=1)
        if not batches:
            return self.base_offset
        last = batches[0]
        if last.base_offset < self.base_offset:
            raise CorruptIndex(f"{self!r}: the last entry is wrong")
        return last.last_offset + 1

    # Building and writing indexes

    def reset_indexes(self) -> None:
        """Makes the indexes empty and the timestamps unknown, before `index_batch` is called for each batch from the first on."""
        self.indexes.reset()
        self._max_timestamp, self._offset_of_max = NO_TIMESTAMP, self.base_offset
        self.first_timestamp = _UNKNOWN if self.size else NO_TIMESTAMP
        self._since_index = 0

    def index_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Notes in the indexes what `append` would have noted for this batch; nothing if its offsets do not fit them."""
        if max_timestamp > self._max_timestamp and self.can_hold(last_offset):
            self._max_timestamp, self._offset_of_max = max_timestamp, last_offset
        if self._since_index > self.index_interval_bytes and self.can_hold(last_offset):
            self._add_entries(last_offset, position)
        self._since_index += size

    def take_scan(self, scan: BatchScan) -> None:
        """Takes the indexes as recovery's scan of all batches rebuilt them. The transaction index is filled when the producer
        state is loaded."""
        self.reset_indexes()
        self.reset_txn_index()
        self.offset_index.extend(scan.entries)
        self.time_index.extend(scan.times)
        self.indexes.are_full = self.offset_index.is_full or self.time_index.is_full
        self._max_timestamp, self._offset_of_max = scan.max_timestamp, scan.offset_of_max
        self.producer_batches = scan.producers
        self.end_indexing()

    def end_indexing(self) -> None:
        """Ends a series of `index_batch`: an index interval begins, as it does whenever a log is opened."""
        self._since_index = 0

    def rebuild_indexes(self) -> None:
        """Rebuilds both indexes from the log's headers. Raises CorruptRecord if these cannot be walked, or their offsets do not
        ascend. Then the old indexes stay, because they lead past the damage, and later requests for what is damaged do not cost
        another walk.
        """
        kept = self._max_timestamp, self._offset_of_max, self.first_timestamp, self._since_index, self.indexes
        self.indexes = self.indexes.without_entries()
        self.reset_indexes()
        try:
            for batch in walk_ascending(self.file or self.open_file(), self.size, self.base_offset):
                self.index_batch(batch.position, batch.size, batch.last_offset, batch.max_timestamp)
        except (CorruptRecord, OSError) as error:
            self._max_timestamp, self._offset_of_max, self.first_timestamp, self._since_index, self.indexes = kept
            self._damaged = isinstance(error, CorruptRecord)
            raise
        self._damaged = False
        self.end_indexing()

    def rewrite_indexes(self) -> None:
        """Makes the next `write_indexes` write all of them again, because what it wrote could not be synced, or not all of it be
        written."""
        self.longer_on_disk = True
        self.indexes.rewrite()

    def write_indexes(self, *, final: bool) -> list[str]:
        """Writes, unsynced, what the disk does not have yet; returns the paths. If `final`, the segment ends here, which adds the
        last entry to the time index and trims the file. Raises OSError; the next call then does all of it again.
        """
        try:
            paths = [self.path(LOG_SUFFIX)] if final and self.trim() else []
            if final and self.size:
                timestamp, time_index = self.max_timestamp, self.time_index
                if timestamp > time_index.last()[0]:
                    time_index.append_if_later(timestamp, self._offset_of_max)
                    self.indexes.are_dirty = True
            if self.indexes.are_dirty:
                paths += self.indexes.write(self.path, self.offset_index, self.time_index)
        except OSError:
            self.rewrite_indexes()
            raise
        return paths

    # Cutting and ending

    def truncate_to(self, offset: int) -> None:
        """Drops the batch that holds `offset` and everything after it."""
        batch = self.locate(offset)
        if batch is not None:
            self.truncate_bytes(batch.position, offset)

    def truncate_bytes(self, size: int, offset: int) -> None:
        """Cuts the file to `size` bytes, where the batch with `offset` started."""
        if size and self.indexes.offsets is None:
            self._load_indexes()  # before they lead beyond the end of the log, as wrong ones would
        self.open_file().truncate(size)
        self.size, self.longer_on_disk, self._damaged = size, False, False
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        with suppress(CorruptIndex):  # a wrong one is rebuilt from what is left when it is needed
            self.txn_index.truncate_to(offset)
        self.indexes.are_dirty = True
        self._since_index = 0
        self._max_timestamp, self._offset_of_max = self.time_index.last()
        self.are_times_doubtful = True
        for batch in walk(self.open_file(), self.offset_index.lookup(self._offset_of_max), size):
            if batch.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._offset_of_max = batch.max_timestamp, batch.last_offset
        if size == 0:
            self.first_timestamp = NO_TIMESTAMP
        self.indexes.are_full = False

    def rename_files(self, ending: str) -> None:
        """Renames the files to end in `ending`, the log first. Raises OSError."""
        old = [self.path(suffix) for suffix in SEGMENT_SUFFIXES]
        self.name_ending = ending
        self.indexes.forget_files()
        for path, suffix in zip(old, SEGMENT_SUFFIXES, strict=True):
            if self._disk.exists(path):
                self._disk.rename(path, self.path(suffix))

    def rename_deleted(self) -> list[str]:
        """Marks the files as `.deleted`, so that a restart drops them; returns the new paths, to be removed later."""
        self._open_files.forget(self)
        self.file = None
        renamed = []
        for suffix in SEGMENT_SUFFIXES:
            path = self.path(suffix)
            if self._disk.exists(path):
                if suffix == TXN_INDEX_SUFFIX:  # if a crash brought back the log alone, nobody would notice that this is missing
                    self._disk.sync_dir(self.directory)
                self._disk.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed

    def close(self) -> None:
        """Drops the file and the indexes from memory. They must be on disk."""
        self._open_files.forget(self)
        self.file = None
        self.indexes.are_dirty = False
        self.indexes.release()

    def sync(self) -> None:
        """Syncs the log file; may be called in any thread."""
        (self.file or self._disk.open(self.path(LOG_SUFFIX))).sync()
