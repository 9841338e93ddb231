"""The cleaner: copies the inactive segments of a compacted log without what newer records have made obsolete (Kafka's Cleaner).

Two walks. The first goes through the dirty part and notes for every key the offset of its last record in an `OffsetMap`, until
the part or the map ends. The second goes from the log's first segment to where the first ended and copies what stays, several
small segments into one, as `<base offset>.log.cleaned` with indexes of its own:

- A record stays if it is its key's latest as far as the map knows. Offsets never change, so logs get gaps.
- A tombstone (null value) that is its key's latest stays for `delete.retention.ms` after the first cleaning that copied it: that
  cleaning marks its batch with a delete horizon, which takes the place of the base timestamp (attribute bit 6, KIP-534).
- Records of aborted transactions go; markers whose transactions have nothing left go by the same horizon as tombstones.
- A batch that lost all its records stays as an empty one, its 61 bytes, where it holds the last sequence or the epoch of a
  producer that the partition still knows, and at the end of what was cleaned, which keeps the last offset.
- A batch that lost nothing is copied as it is. One that lost records is made anew: same codec, same first and last offset, same
  producer and sequence; base and greatest timestamp are those of the records that stay.

The work is a plain function of a `CleaningJob`, which can travel to another process, and a disk. It reads immutable files and
writes new ones that nobody looks at; `log.compaction.swap` puts each in its place afterwards. What is yielded is durable: file,
indexes and names are synced. A log whose batches are damaged raises CorruptRecord; the caller leaves that partition alone then.
So does a batch that decompresses to more than the bound: a cleaning that passed over it would let a tombstone go whose key is in
it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ottla.log.compaction.batch_walk import Passed, note_batches, pass_batches
from ottla.log.compaction.cleaning_job import CleanedGroup, CleaningJob, CleaningStats, MapTooSmall
from ottla.log.compaction.filtered_batch import FilteredBatch, Rules, filter_batch, pieces_of
from ottla.log.compaction.offset_map import SLOT_BYTES, OffsetMap
from ottla.log.compaction.record_loops import put_keys
from ottla.log.compaction.transactions import CleanedTransactions
from ottla.log.config import MAX_BATCH_BYTES
from ottla.log.disk.files import Disk, OpenFiles
from ottla.log.errors import CorruptRecord, LogError
from ottla.log.index import MAX_RELATIVE_OFFSET
from ottla.log.names import CLEANED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ottla.log.scan import batch_in, block_at
from ottla.log.segment import Segment
from ottla.log.txn_index import AbortedTransaction
from ottla.wire.batch import BatchHeader, check_crc, read_header
from ottla.wire.compression import TooLarge
from ottla.wire.primitives import Buffer

_SPARE_SLOTS: Final = 1024  # the map takes a prime number of slots, somewhat less than it is given


@dataclass(slots=True)
class Throttle:
    """Holds a cleaning to a number of bytes a second. `wait(seconds)` sleeps, and raises CleaningAborted if the cleaning has been
    called off; now and then it is called with 0 just to find that out."""

    bytes_per_second: float
    monotonic: Callable[[], float]
    wait: Callable[[float], None]
    look_every_bytes: int = 1 << 20
    _unlooked: int = field(default=0, init=False)
    _free_at: float = field(default=0.0, init=False)

    def spend(self, size: int) -> None:
        """Notes that `size` bytes were read or written."""
        self._unlooked += size
        if self._unlooked < min(self.look_every_bytes, self.bytes_per_second / 10):
            return
        now = self.monotonic()
        self._free_at = max(self._free_at, now) + self._unlooked / self.bytes_per_second
        self._unlooked = 0
        self.wait(max(0.0, self._free_at - now))


class Cleaner:
    """Does one cleaning: `groups` runs it, and afterwards `stats` hold what was done and the offset up to which the log is
    clean."""

    def __init__(self, disk: Disk, job: CleaningJob, throttle: Throttle) -> None:
        self._disk = disk
        self._job = job
        self._throttle = throttle
        self._open_files = OpenFiles(8)
        self.stats = CleaningStats()
        keys = max(0, job.uncleanable_offset - job.dirty_offset)
        enough = (int(keys / job.load_factor) + _SPARE_SLOTS) * SLOT_BYTES
        self._map = OffsetMap(min(job.map_bytes, enough), job.load_factor, job.hash_seed)

    def groups(self) -> Iterator[CleanedGroup]:
        """Cleans; yields each new segment when it is durable. Raises CorruptRecord, MapTooSmall or OSError, and what the throttle
        raises; the files of the segment under way are gone then."""
        job = self._job
        self._fill_map()
        latest = self._map.latest_offset
        self.stats.end_offset = max(latest + 1, job.dirty_offset)
        self.stats.map_utilization = self._map.utilization()
        segments = [self._segment(base, size) for base, size in job.segments if base < self.stats.end_offset]
        transactions = CleanedTransactions(AbortedTransaction._make(entry) for entry in job.aborted)
        rules = Rules(self._map, job)
        bases = [*(base for base, _ in job.segments), job.uncleanable_offset]
        for group in self._grouped(segments):
            following = bases[bisect_right(bases, group[-1].base_offset)]
            yield self._clean_group(group, min(following, self.stats.end_offset), transactions, rules)

    def _segment(self, base_offset: int, size: int) -> Segment:
        job = self._job
        return Segment(
            self._disk,
            job.path,
            base_offset,
            size=size,
            open_files=self._open_files,
            index_bytes=job.segment_index_bytes,
            index_interval_bytes=job.index_interval_bytes,
            now_ms=job.now_ms,
        )

    # The first walk: filling the map

    def _fill_map(self) -> None:
        job = self._job
        first = max((at for at, (base, _) in enumerate(job.segments) if base <= job.dirty_offset), default=0)
        dirty = [self._segment(base, size) for base, size in job.segments[first:]]
        overlapping = (AbortedTransaction._make(entry) for entry in job.aborted)
        transactions = CleanedTransactions(entry for entry in overlapping if entry.last_offset >= job.dirty_offset)
        for index, segment in enumerate(dirty):
            if not self._note_segment(segment, transactions):
                if self._map.latest_offset < job.dirty_offset:
                    raise MapTooSmall(
                        f"{segment!r}: a batch has more keys than log.cleaner.dedupe.buffer.size has room for "
                        f"({self._map.limit}); enlarge that, or take fewer log.cleaner.threads"
                    )
                return
            # Offsets that compaction took away count as gone through.
            self._map.latest_offset = (dirty[index + 1].base_offset if index + 1 < len(dirty) else job.uncleanable_offset) - 1

    def _note_segment(self, segment: Segment, transactions: CleanedTransactions) -> bool:
        """Puts the keys of a segment's dirty batches into the map; returns False if that is full."""
        job = self._job
        first = segment.locate(job.dirty_offset)  # checks what the index says against the log
        position = segment.size if first is None else first.position
        while position < segment.size:
            block = block_at(segment.open_file(), position, segment.size, job.buffer_bytes)
            size, had_room = self._note_block(segment, block, transactions)
            self._throttle.spend(size)
            self.stats.map_bytes_read += size
            if not had_room:
                return False
            position += size
        return True

    def _note_block(self, segment: Segment, block: bytes, transactions: CleanedTransactions) -> tuple[int, bool]:
        """Puts the keys of the whole batches of a block into the map. Returns (how many bytes these take, whether all keys found
        room)."""
        at = 0
        while True:
            at, read = note_batches(self._map, block, at, self._job.dirty_offset)
            self.stats.map_records_read += read
            batch = batch_in(block, at)
            if batch is None:
                return at, True
            if not self._note_batch(segment, batch, transactions):
                return at, False
            at += len(batch)

    def _note_batch(self, segment: Segment, batch: Buffer, transactions: CleanedTransactions) -> bool:
        """Puts the keys of any batch into the map; returns False if that is full."""
        job, stats = self._job, self.stats
        header = read_header(batch)
        if header.is_control:
            transactions.on_control_batch(header, batch)
            stats.map_records_read += 1
        elif transactions.on_batch(header):
            stats.map_records_read += header.records_count
        elif header.records_count and header.last_offset >= job.dirty_offset:
            try:
                had_room = self._note_keys(batch, header)
            except ValueError as error:
                raise _undecodable(segment, header, error) from error
            if not had_room:
                return False
        if header.last_offset >= job.dirty_offset:
            self._map.latest_offset = header.last_offset
        return True

    def _note_keys(self, batch: Buffer, header: BatchHeader) -> bool:
        """Puts the keys of a batch into the map; returns False if that is full. Raises ValueError."""
        job = self._job
        for piece, end in pieces_of(batch, header, job.max_decompressed_batch_bytes):
            count, had_room = put_keys(self._map, piece, header.base_offset, job.dirty_offset, end)
            self.stats.map_records_read += count
            if not had_room:
                return False
        return True

    # The second walk: copying what stays

    def _grouped(self, segments: list[Segment]) -> Iterator[list[Segment]]:
        """Yields runs of neighbours that fit into one segment, by their sizes, those of their indexes and the range of
        offsets."""
        job = self._job
        group: list[Segment] = []
        sizes = (0, 0, 0)
        for index, segment in enumerate(segments):
            of_this = (segment.size, self._file_size(segment, INDEX_SUFFIX), self._file_size(segment, TIME_INDEX_SUFFIX))
            end = segments[index + 1].base_offset if index + 1 < len(segments) else job.uncleanable_offset
            together = tuple(map(sum, zip(sizes, of_this, strict=True)))
            if group and (
                together[0] > job.segment_bytes
                or max(together[1:]) > job.segment_index_bytes
                or (segment.size and end - 1 - group[0].base_offset > MAX_RELATIVE_OFFSET)
            ):
                yield group
                group, together = [], of_this
            group.append(segment)
            sizes = (together[0], together[1], together[2])
        if group:
            yield group

    def _file_size(self, segment: Segment, suffix: str) -> int:
        path = segment.path(suffix)
        return self._disk.size(path) if self._disk.exists(path) else 0

    def _clean_group(
        self, group: list[Segment], end_offset: int, transactions: CleanedTransactions, rules: Rules
    ) -> CleanedGroup:
        cleaned = self._segment(group[0].base_offset, 0)
        cleaned.name_ending = CLEANED_SUFFIX
        remove_files(self._disk, cleaned)  # what a crashed cleaning left
        try:
            cleaned.create_files()
            output = _Output(cleaned, self._job.buffer_bytes, self._throttle)
            kept_before = len(transactions.kept)
            for segment in group:
                self._copy(segment, output, transactions, rules)
                segment.close()
            output.end()
            for entry in transactions.kept[kept_before:]:
                cleaned.change_txn_index().append(entry)
            self._make_durable(cleaned, modified_ms=self._disk.modified_ms(group[-1].path(LOG_SUFFIX)))
        except (LogError, OSError):
            cleaned.close()
            remove_files(self._disk, cleaned)
            raise
        cleaned.close()
        self.stats.bytes_written += cleaned.size
        return CleanedGroup(cleaned.base_offset, cleaned.size, [segment.base_offset for segment in group], end_offset)

    def _copy(self, segment: Segment, output: _Output, transactions: CleanedTransactions, rules: Rules) -> None:
        position = 0
        while position < segment.size:
            block = block_at(segment.open_file(), position, segment.size, self._job.buffer_bytes)
            size = self._copy_block(segment, position, block, output, transactions, rules)
            self._throttle.spend(size)
            self.stats.bytes_read += size
            position += size

    def _copy_block(
        self,
        segment: Segment,
        position: int,
        block: bytes,
        output: _Output,
        transactions: CleanedTransactions,
        rules: Rules,
    ) -> int:
        """Copies what stays of the whole batches of a block, which begins at `position` of the segment; returns how many bytes
        these take."""
        stats, at = self.stats, 0
        while True:
            passed = Passed(output.next_offset)
            at = pass_batches(rules, block, at, passed)
            stats.records_read += passed.read
            stats.keyless_records += passed.keyless
            stats.records_written += passed.kept
            output.add_passed(passed)
            batch = batch_in(block, at)
            if batch is None:
                return at
            self._copy_batch(segment, position + at, batch, output, transactions, rules)
            at += len(batch)

    def _copy_batch(
        self,
        segment: Segment,
        position: int,
        batch: Buffer,
        output: _Output,
        transactions: CleanedTransactions,
        rules: Rules,
    ) -> None:
        """Copies what stays of any batch."""
        stats = self.stats
        header = read_header(batch)
        if not check_crc(batch, header):  # a copy with a new CRC would hide the damage for good
            raise CorruptRecord(f"{segment!r}: the CRC of the batch at position {position} does not match")
        output.go_on(header, f"{segment!r}: the batch at position {position}")
        obsolete = transactions.on_control_batch(header, batch) if header.is_control else transactions.on_batch(header)
        try:
            result = filter_batch(batch, header, obsolete, rules)
        except ValueError as error:
            raise _undecodable(segment, header, error) from error
        stats.records_read += result.read
        stats.keyless_records += result.keyless
        stats.records_written += result.kept
        if result.parts:
            output.add(result, header)

    def _make_durable(self, cleaned: Segment, modified_ms: int) -> None:
        disk = self._disk
        cleaned.write_indexes(final=True)
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            disk.set_modified_ms(cleaned.path(suffix), modified_ms)
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            if disk.exists(cleaned.path(suffix)):
                file = disk.open(cleaned.path(suffix))
                file.sync()
                file.close()
        disk.sync_dir(self._job.path)


class _Output:
    """Gathers batches for a new segment and writes them by the block."""

    def __init__(self, segment: Segment, block_bytes: int, throttle: Throttle) -> None:
        self._segment = segment
        self._file = segment.open_file()
        self._block_bytes = block_bytes
        self._throttle = throttle
        self._parts: list[bytes] = []
        self._gathered = 0
        self.next_offset = segment.base_offset
        segment.reset_indexes()

    def go_on(self, header: BatchHeader, what: str) -> None:
        """Notes the next batch that there was, whether or not anything stays of it. Raises CorruptRecord if it does not begin
        above the one before: no CRC covers an offset, and one that is wrong would hide the latest records of keys."""
        if header.base_offset < self.next_offset:
            raise CorruptRecord(f"{what} begins at offset {header.base_offset}, and {self.next_offset} would be the next")
        self.next_offset = header.next_offset

    def add(self, batch: FilteredBatch, header: BatchHeader) -> None:
        """Adds what stays of a batch. Raises CorruptRecord."""
        self._index(sum(map(len, batch.parts)), header.last_offset, batch.max_timestamp)
        self._parts += map(bytes, batch.parts)  # a view would keep the block that it was read in
        self._write_if_enough()

    def add_passed(self, passed: Passed) -> None:
        """Adds what stays of the batches that a walk went over. Raises CorruptRecord."""
        self.next_offset = passed.next_offset
        for size, last_offset, max_timestamp in passed.batches:
            self._index(size, last_offset, max_timestamp)
        self._parts += passed.parts
        self._write_if_enough()

    def _index(self, size: int, last_offset: int, max_timestamp: int) -> None:
        segment = self._segment
        if not segment.can_hold(last_offset):
            raise CorruptRecord(f"{segment!r}: offset {last_offset} is too far from its first")
        segment.index_batch(segment.size, size, last_offset, max_timestamp)
        segment.size += size
        self._gathered += size

    def _write_if_enough(self) -> None:
        if self._gathered >= self._block_bytes:
            self._write()

    def _write(self) -> None:
        data = b"".join(self._parts)
        written = 0
        while written < len(data):  # after a short write the next one fails, with the reason
            written += self._file.append([memoryview(data)[written:]])
        self._throttle.spend(len(data))
        self._parts, self._gathered = [], 0

    def end(self) -> None:
        """Writes the rest."""
        if self._gathered:
            self._write()
        self._segment.end_indexing()


def _undecodable(segment: Segment, header: BatchHeader, error: ValueError) -> CorruptRecord:
    batch = f"{segment!r}: the batch of offset {header.base_offset}"
    if isinstance(error, TooLarge):
        return CorruptRecord(f"{batch} is not opened, because {error}; {MAX_BATCH_BYTES} allows no more")
    return CorruptRecord(f"{batch} does not decode: {error}")


def remove_files(disk: Disk, segment: Segment) -> None:
    """Removes the segment's files, as far as they are there. Raises OSError."""
    for suffix in SEGMENT_SUFFIXES:
        if disk.exists(segment.path(suffix)):
            disk.remove(segment.path(suffix))
