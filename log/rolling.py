"""The rules for when a segment is full, so that a log rolls and the next batch begins a new one.

A leader's log, a follower's and a copy of a log go by these functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.segment import Segment
    from ottla.wire.batch import BatchHeader


def has_room(segment: Segment, size: int, last_offset: int, segment_bytes: int, filled: int) -> bool:
    """Returns whether a batch of `size` bytes fits behind the first `filled` bytes of the segment: into `segment_bytes`, into the
    indexes, and among the offsets that an index entry can hold.
    """
    return filled + size <= segment_bytes and not segment.indexes.are_full and segment.can_hold(last_offset)


def is_too_old(segment: Segment, header: BatchHeader, roll_after_ms: int, first_timestamp: int, now_ms: int) -> bool:
    """Returns whether more than `roll_after_ms`, less the segment's jitter, lie between the segment's first batch and this one.

    `first_timestamp` is the greatest timestamp of that first batch in ms, negative if it has none or was not read yet. Without
    timestamps the segment's age by the clock counts. Raises OSError if the first batch has to be read.
    """
    if first_timestamp >= 0:
        waited_ms = header.max_timestamp - first_timestamp
    else:
        waited_ms = segment.waited_ms(now_ms, header.max_timestamp)
    return waited_ms > roll_after_ms - segment.jitter_ms
