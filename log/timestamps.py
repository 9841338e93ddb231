"""Finds offsets by time, for ListOffsets (KIP-79, KIP-734).

The time index narrows the search to a segment and an index interval; then batch headers are walked until the greatest timestamp
of one reaches the target, and only that batch is opened, by `wire.kernel`. All records of a batch with LogAppendTime count as
written at its greatest timestamp.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.log.errors import CorruptRecord
from ottla.log.scan import Located, walk
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.wire import kernel
from ottla.wire.batch import LOG_APPEND_TIME, read_header
from ottla.wire.compression import CompressionError
from ottla.wire.records import decode_records, records_section


class TimestampOffset(NamedTuple):
    """A record found by time: its timestamp (ms), its offset, and the leader epoch of its batch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(segments: Segments, target_ms: int, start_offset: int) -> TimestampOffset | None:
    """Returns the first record from `start_offset` on whose timestamp is at least `target_ms`; None if there is none.

    It is the first by offset: timestamps need not ascend. Raises CorruptRecord or OSError.
    """
    for segment in segments:
        if segment.max_timestamp >= target_ms:
            found = _first_in_segment(segment, target_ms, start_offset)
            if found is not None:
                return found
    return None


def max_timestamp_offset(segments: Segments) -> TimestampOffset | None:
    """Returns the first record with the greatest timestamp of all; None if no record has a timestamp. Raises CorruptRecord or
    OSError."""
    segment = max(segments, key=lambda candidate: candidate.max_timestamp)  # of equals the first
    if segment.max_timestamp < 0:
        return None
    return _first_in_segment(segment, segment.max_timestamp, 0)


def _first_in_segment(segment: Segment, target_ms: int, start_offset: int) -> TimestampOffset | None:
    earlier = segment.time_index.lookup(target_ms)
    position = segment.offset_index.lookup(max(earlier, start_offset))
    for batch in walk(segment.open_file(), position, segment.size):
        if batch.max_timestamp >= target_ms and batch.last_offset >= start_offset:
            found = _first_in_batch(segment, batch, target_ms, start_offset)
            if found is not None:
                return found
    return None


def _first_in_batch(segment: Segment, batch: Located, target_ms: int, start_offset: int) -> TimestampOffset | None:
    data = segment.open_file().pread(batch.size, batch.position)
    header = read_header(data)
    whole = header.records_count == header.last_offset_delta + 1  # otherwise compaction has removed some records, or all
    if header.timestamp_type == LOG_APPEND_TIME and whole:
        return TimestampOffset(header.max_timestamp, max(header.base_offset, start_offset), header.partition_leader_epoch)
    try:
        if (
            start_offset > header.base_offset or header.timestamp_type == LOG_APPEND_TIME
        ):  # reading begins in the middle of the batch
            records = decode_records(data)
            record = next((r for r in records if r.timestamp_ms >= target_ms and r.offset >= start_offset), None)
            return TimestampOffset(record.timestamp_ms, record.offset, header.partition_leader_epoch) if record else None
        section = records_section(data, header)
    except (CompressionError, ValueError) as error:
        raise CorruptRecord(f"{segment!r}: the batch at position {batch.position} does not decode: {error}") from error
    delta, timestamp = kernel.first_at_or_after(section, 0, len(section), header.base_timestamp, target_ms)
    if delta < 0:
        return None
    return TimestampOffset(timestamp, header.base_offset + delta, header.partition_leader_epoch)
