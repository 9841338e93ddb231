"""Finds offsets by time, for ListOffsets (KIP-79, KIP-734).

The time index narrows the search to a segment and an index interval; then batch headers are walked until the greatest timestamp
of one reaches the target, and only that batch is opened, by `wire.kernel`, piece by piece up to the record. All records of a
batch with LogAppendTime count as written at its greatest timestamp.

A batch that decompresses to more than the bounds (it was stored under others, or by Kafka) is opened up to them. If the record
lies beyond, the answer is the batch's first offset, so that who reads from there misses nothing; the log names the batch once.
Who needs the record itself asks for that with `exact`.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import NamedTuple

from ottla.log.config import MAX_BATCH_BYTES
from ottla.log.errors import CorruptRecord, RecordTooLarge
from ottla.log.names import LOG_SUFFIX
from ottla.log.scan import Located, walk
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.wire import kernel
from ottla.wire.batch import HEADER_SIZE, LOG_APPEND_TIME, BatchHeader, read_header
from ottla.wire.compression import CompressionError, TooLarge
from ottla.wire.record_pieces import record_pieces

_log = logging.getLogger("ottla.log.timestamps")


Bounds = tuple[int, int]
"""The most bytes to which a batch may decompress, and a record of it: LogConfig.decompression_bounds."""


class TimestampOffset(NamedTuple):
    """A record found by time: its timestamp (ms), its offset, and the leader epoch of its batch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(
    segments: Segments, target_ms: int, start_offset: int, bounds: Bounds, *, exact: bool = False
) -> TimestampOffset | None:
    """Returns the first record from `start_offset` on whose timestamp is at least `target_ms`; None if there is none.

    It is the first by offset: timestamps need not ascend. Raises CorruptRecord or OSError, and with `exact` RecordTooLarge if the
    record lies beyond the bounds in its batch.
    """
    for segment in segments:
        if segment.max_timestamp >= target_ms:
            found = _first_in_segment(segment, target_ms, start_offset, bounds, exact)
            if found is not None:
                return found
    return None


def max_timestamp_offset(segments: Segments, bounds: Bounds) -> TimestampOffset | None:
    """Returns the first record with the greatest timestamp of all; None if no record has a timestamp. Raises CorruptRecord or
    OSError."""
    segment = max(segments, key=lambda candidate: candidate.max_timestamp)  # of equals the first
    if segment.max_timestamp < 0:
        return None
    return _first_in_segment(segment, segment.max_timestamp, 0, bounds, False)


def _first_in_segment(segment: Segment, target_ms: int, start_offset: int, bounds: Bounds, exact: bool) -> TimestampOffset | None:
    earlier = segment.time_index.lookup(target_ms)
    position = segment.offset_index.lookup(max(earlier, start_offset))
    for batch in walk(segment.open_file(), position, segment.size):
        if batch.max_timestamp >= target_ms and batch.last_offset >= start_offset:
            found = _first_in_batch(segment, batch, target_ms, start_offset, bounds, exact)
            if found is not None:
                return found
    return None


def _first_in_batch(
    segment: Segment, batch: Located, target_ms: int, start_offset: int, bounds: Bounds, exact: bool
) -> TimestampOffset | None:
    data = segment.open_file().pread(batch.size, batch.position)
    header = read_header(data)
    whole = header.records_count == header.last_offset_delta + 1  # otherwise compaction has removed some records, or all
    stamped = header.timestamp_type == LOG_APPEND_TIME
    first = TimestampOffset(header.max_timestamp, max(header.base_offset, start_offset), header.partition_leader_epoch)
    if stamped and whole:
        return first
    target = kernel.MIN_INT64 if stamped else target_ms  # any record will do that is not before start_offset
    try:
        found = _search(data, header, target, max(start_offset - header.base_offset, 0), bounds)
    except TooLarge as error:
        if exact:
            raise RecordTooLarge(f"{segment!r}: the batch of offset {header.base_offset} is not opened: {error}") from error
        _note_unopened(segment.path(LOG_SUFFIX), header.base_offset, str(error))
        return first
    except CompressionError as error:
        raise CorruptRecord(f"{segment!r}: the batch at position {batch.position} does not decode: {error}") from error
    if found is None:
        return None
    delta, timestamp = found
    return TimestampOffset(
        header.max_timestamp if stamped else timestamp, header.base_offset + delta, header.partition_leader_epoch
    )


def _search(data: bytes, header: BatchHeader, target_ms: int, least: int, bounds: Bounds) -> tuple[int, int] | None:
    """Returns (offset delta, timestamp) of the first record in the batch whose offset delta is at least `least` and whose
    timestamp is at least `target_ms`; None if there is none. Raises CompressionError."""
    for piece, end in record_pieces(header.codec, memoryview(data)[HEADER_SIZE : header.size], *bounds):
        found = kernel.first_at_or_after(piece, 0, end, header.base_timestamp, target_ms, least)
        if found[0] >= 0:
            return found
    return None


@lru_cache(maxsize=1000)
def _note_unopened(path: str, base_offset: int, why: str) -> None:
    """Logs once that a look-up ended at the beginning of a batch."""
    _log.warning(
        "%s: looking for a time inside the batch of offset %d was given up, and its first offset is the answer: %s (%s)",
        path,
        base_offset,
        why,
        MAX_BATCH_BYTES,
    )
