"""Applies the rules of a cleaning, which `log.compaction.cleaner` describes, to the bytes of one batch.

`filter_batch` takes any batch. `what_stays` is its second half: the walk over plain batches (`log.compaction.batch_walk`), which
has found out about the records by itself, calls it for those that are to be changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.log.compaction.offset_map import OffsetMap
from ottla.log.compaction.record_loops import Survivors, join_runs, rebase, survivors
from ottla.wire.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    KNOWN_BITS,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
    restamp,
)
from ottla.wire.compression import NONE, compress, joined
from ottla.wire.kernel import MAX_INT64
from ottla.wire.primitives import Buffer
from ottla.wire.record_pieces import record_pieces
from ottla.wire.records import records_section

if TYPE_CHECKING:
    from ottla.log.compaction.cleaning_job import CleaningJob


class FilteredBatch:
    """The result for one batch: `parts` are its new bytes, empty if the whole batch goes. `read` and `kept` count records, and
    `keyless` those that were removed because they have no key."""

    def __init__(self, parts: list[Buffer], max_timestamp: int, read: int, kept: int, keyless: int) -> None:
        self.parts = parts
        self.max_timestamp = max_timestamp
        self.read = read
        self.kept = kept
        self.keyless = keyless


class Rules:
    """The rules by which one cleaning decides what happens to a batch."""

    __slots__ = ("_producers", "horizon_ms", "max_bytes", "now_ms", "offsets", "uncleanable_offset")

    def __init__(self, offsets: OffsetMap, job: CleaningJob) -> None:
        self.offsets = offsets
        self.max_bytes = job.max_decompressed_batch_bytes
        self.now_ms = job.now_ms
        # In Kafka the sum overflows where delete.retention.ms means "for ever", and the horizon lies in the past.
        self.horizon_ms = min(job.now_ms + job.delete_retention_ms, MAX_INT64)
        self.uncleanable_offset = job.uncleanable_offset
        self._producers = {producer_id: (last_offset, epoch) for producer_id, last_offset, epoch in job.producers}

    def stays_empty(self, header: BatchHeader) -> bool:
        """Returns whether a batch without records stays. It does if a producer's state would otherwise be lost after a restart,
        or if it holds the last offset of the part that is cleaned."""
        if header.next_offset == self.uncleanable_offset:
            return True
        last = self._producers.get(header.producer_id)
        if last is None or header.producer_id < 0:
            return False
        last_offset, epoch = last
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch


def filter_batch(batch: Buffer, header: BatchHeader, obsolete: bool, rules: Rules) -> FilteredBatch:
    """Returns what stays of the batch. `obsolete` says that it belongs to an aborted transaction, or is a marker that nothing
    needs. Raises ValueError if it does not decode, and TooLarge if it decompresses to more than the bound."""
    due = header.has_delete_horizon and header.base_timestamp <= rules.now_ms
    if obsolete and (due or not header.is_control):
        return _emptied(header, rules, read=header.records_count)
    if header.is_control:
        section = records_section(batch, header)
        if not section:
            return _emptied(header, rules)
        return _kept_control(batch, header, section, obsolete, rules)
    found, staying = _survivors(batch, header, rules, due)
    return what_stays(batch, header, found, staying, rules)


def what_stays(batch: Buffer, header: BatchHeader, found: Survivors, staying: deque[bytes], rules: Rules) -> FilteredBatch:
    """Returns what stays of a batch of records, after a look at each: `staying` are the bytes of those that stay, and nobody
    else may hold them."""
    horizon_ms = header.base_timestamp if header.has_delete_horizon else None
    read, kept, keyless = found.read, found.kept, found.keyless
    if not kept:
        return _emptied(header, rules, read, keyless)
    if found.tombstones and horizon_ms is None:
        horizon_ms = rules.horizon_ms
    elif kept == read:
        return FilteredBatch([batch], header.max_timestamp, read, kept, keyless)
    stamped = header.timestamp_type == LOG_APPEND_TIME  # the batch has one time, and the records' own deltas do not count
    max_timestamp = header.max_timestamp if stamped else found.max_timestamp
    base_timestamp = horizon_ms if horizon_ms is not None else (max_timestamp if stamped else found.first_timestamp)
    if stamped:
        records = joined(_rebased(staying, _shift(max_timestamp, base_timestamp), True))
    elif base_timestamp != header.base_timestamp:
        records = joined(_rebased(staying, _shift(header.base_timestamp, base_timestamp), False))
    else:
        records = joined(_taken(staying))
    parts = _rebuild(header, records, kept, base_timestamp, max_timestamp, horizon_ms is not None)
    return FilteredBatch(parts, max_timestamp, read, kept, keyless)


def pieces_of(batch: Buffer, header: BatchHeader, max_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Yields the records of a batch as wire.record_pieces does. Raises CompressionError."""
    return record_pieces(header.codec, memoryview(batch)[HEADER_SIZE : header.size], max_bytes, max_bytes)


def _survivors(batch: Buffer, header: BatchHeader, rules: Rules, drop_tombstones: bool) -> tuple[Survivors, deque[bytes]]:
    """Returns the counts and timestamps of the records that stay, and these records, in pieces. Raises ValueError."""
    whole = Survivors()
    staying: deque[bytes] = deque()
    for piece, end in pieces_of(batch, header, rules.max_bytes):
        found = survivors(rules.offsets, piece, header.base_offset, header.base_timestamp, drop_tombstones, end)
        if found.kept and not whole.kept:
            whole.first_timestamp = found.first_timestamp
        whole.max_timestamp = max(whole.max_timestamp, found.max_timestamp)
        whole.read += found.read
        whole.kept += found.kept
        whole.keyless += found.keyless
        whole.tombstones += found.tombstones
        if found.kept:
            staying.append(piece if found.runs == [0, len(piece)] else join_runs(piece, found.runs))
    return whole, staying


def _taken(pieces: deque[bytes]) -> Iterator[bytes]:
    """Yields the pieces, none of which is held any longer then."""
    while pieces:
        yield pieces.popleft()


def _rebased(pieces: deque[bytes], shift: int, fixed: bool) -> Iterator[bytes]:
    for piece in _taken(pieces):
        yield rebase(piece, [0, len(piece)], shift, fixed)


def _shift(old_base: int, new_base: int) -> int:
    """Returns by how much deltas grow if the base timestamp changes: an int64 that wraps around, as the sums of readers do."""
    return (old_base - new_base + 2**63) % 2**64 - 2**63


def _kept_control(batch: Buffer, header: BatchHeader, section: bytes, obsolete: bool, rules: Rules) -> FilteredBatch:
    """Keeps a marker as it is, except that the first cleaning that finds nothing left of its transaction gives it a delete
    horizon."""
    count = header.records_count
    if not obsolete or header.has_delete_horizon:
        return FilteredBatch([batch], header.max_timestamp, count, count, 0)
    records = rebase(section, [0, len(section)], _shift(header.base_timestamp, rules.horizon_ms), False)
    parts = _rebuild(header, records, count, rules.horizon_ms, header.max_timestamp, True)
    return FilteredBatch(parts, header.max_timestamp, count, count, 0)


def _rebuild(
    header: BatchHeader, records: bytes, count: int, base_timestamp: int, max_timestamp: int, has_horizon: bool
) -> list[Buffer]:
    attributes = header.attributes & KNOWN_BITS & ~DELETE_HORIZON_BIT | (DELETE_HORIZON_BIT if has_horizon else 0)
    section = compress(header.codec, records, None) if header.codec != NONE else records
    new_header = restamp(
        header.replace(base_timestamp=base_timestamp, records_count=count),
        section,
        attributes=attributes,
        max_timestamp=max_timestamp,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
    )
    return [new_header, section]


def _emptied(header: BatchHeader, rules: Rules, read: int = 0, keyless: int = 0) -> FilteredBatch:
    if not rules.stays_empty(header):
        return FilteredBatch([], NO_TIMESTAMP, read, 0, keyless)
    new_header = restamp(
        header.replace(base_timestamp=NO_TIMESTAMP, records_count=0),
        b"",
        attributes=header.attributes & KNOWN_BITS & ~DELETE_HORIZON_BIT & ~CODEC_MASK,
        max_timestamp=header.max_timestamp,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
    )
    assert len(new_header) == HEADER_SIZE
    return FilteredBatch([new_header], header.max_timestamp, read, 0, keyless)
