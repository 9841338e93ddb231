"""Compares what a segment's indexes say about time with its log, before anything is deleted or passed over for it.

Indexes have no checksum, and a time that is a little wrong looks like any other. A wrong one would have retention delete what is
not old, or keep it for ever, and a search pass over records. The headers of a few batches show that it is wrong; the indexes are
rebuilt then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from ottla.log.scan import walk
from ottla.log.segment import Segment

_log = logging.getLogger("ottla.log.segment")

_CHECKED_PER_STEP: Final = 64  # headers, which are up to 4 MiB of reading


def check_times(segment: Segment) -> Iterator[None]:
    """Compares the greatest timestamp, if only the index says so, with the headers of the batch that has it and of those behind
    it, pausing now and then; rebuilds the indexes if they are wrong. Who goes on after a pause has to know that the segment is
    still part of its log, uncut. Raises CorruptRecord and OSError."""
    timestamp = segment.max_timestamp
    if not segment.are_times_doubtful or timestamp < 0:
        return
    batch = segment.locate(segment.offset_of_max)
    is_right = batch is not None and batch.max_timestamp == timestamp
    if batch is not None and is_right:
        for count, later in enumerate(walk(segment.open_file(), batch.position + batch.size, segment.size), 1):
            if later.max_timestamp > timestamp:
                is_right = False
                break
            if count % _CHECKED_PER_STEP == 0:
                yield
    if not is_right:
        segment.rebuild_indexes()
        if segment.max_timestamp != timestamp:
            _log.warning(
                "the indexes of %r are rebuilt: the greatest timestamp is %d, not %d", segment, segment.max_timestamp, timestamp
            )
    segment.are_times_doubtful = False


def position_before(segment: Segment, timestamp: int, offset: int) -> int:
    """Returns where a walk begins that looks for the first record from an offset on which is not earlier than a timestamp. Raises
    CorruptRecord and OSError."""
    for _ in range(2):
        before = segment.offset_before(timestamp)
        batch = segment.locate(max(before, offset))
        is_past = before > segment.base_offset and (
            batch is None or (batch.last_offset <= before and batch.max_timestamp >= timestamp)
        )
        if not is_past:
            break
        _log.warning("the indexes of %r are rebuilt: not all records up to %d are before %d", segment, before, timestamp)
        segment.rebuild_indexes()
    return segment.size if batch is None else batch.position
