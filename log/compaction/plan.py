"""Works out which part of a compacted log may be cleaned, how dirty it is, and whether a cleaning is due.

    log start         dirty offset          uncleanable offset          log end
        |   clean         |     cleanable           |      not yet         |

The clean part is what an earlier cleaning went through (`cleaner-offset-checkpoint`). What may not be cleaned yet is the active
segment, everything from the last stable offset on (so every transaction that the cleaner meets is decided), and segments with a
record that is younger than `min.compaction.lag.ms`. Cleaning works on whole segments, so the uncleanable offset is a segment's
first.

A log is due when the cleanable bytes are more than `min.cleanable.dirty.ratio` of the clean and cleanable ones, or when a
cleanable segment began longer than `max.compaction.lag.ms` ago. Of several logs the dirtiest goes first.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log.segment import Segment

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog

_log = logging.getLogger("ottla.log.cleaner")

_NO_LAG_BOUND: Final = 2**63 - 1


class CleaningPlan(NamedTuple):
    """The bounds of how far a log may be cleaned; the module's docstring explains the offsets. `checkpoint_is_wrong` says that
    the log was cut or begins later, and that the checkpoint should hold `dirty_offset` instead. `delay_ms` is by how much the log
    exceeds max.compaction.lag.ms."""

    dirty_offset: int
    uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    checkpoint_is_wrong: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def is_compacted(log: PartitionLog) -> bool:
    return "compact" in log.config.cleanup_policy


def plan(log: PartitionLog, cleaned_upto: int | None, now_ms: int) -> CleaningPlan:
    """Returns how far the log may be cleaned. `cleaned_upto` is the log's offset in the checkpoint, None if it has none. Raises
    CorruptRecord or OSError."""
    dirty_offset, is_wrong = _dirty_offset(log, cleaned_upto)
    limit = max(dirty_offset, _uncleanable_offset(log, dirty_offset, now_ms))
    uncleanable_offset = log.segments[log.segments.floor(limit)].base_offset
    cleanable = _segments(log, min(dirty_offset, uncleanable_offset), uncleanable_offset)
    return CleaningPlan(
        dirty_offset,
        uncleanable_offset,
        sum(segment.size for segment in log.segments if segment.base_offset < dirty_offset),
        sum(segment.size for segment in cleanable),
        _delay_ms(log, dirty_offset, now_ms),
        is_wrong,
    )


def is_due(log: PartitionLog, found: CleaningPlan) -> bool:
    """Returns whether the log is to be cleaned."""
    if found.delay_ms > 0 and found.cleanable_bytes > 0:
        return True
    return found.dirty_ratio > log.config.min_cleanable_dirty_ratio


def _segments(log: PartitionLog, from_offset: int, upto: int) -> list[Segment]:
    """Returns the segments from the one that holds `from_offset` to the last that begins below `upto`."""
    return log.segments.between(log.segments.floor(from_offset), upto)


def _dirty_offset(log: PartitionLog, cleaned_upto: int | None) -> tuple[int, bool]:
    """Returns (the offset from which the log is dirty, whether the offset in the checkpoint is impossible)."""
    if cleaned_upto is None:
        return log.log_start_offset, False
    if cleaned_upto < log.log_start_offset:
        if "delete" not in log.config.cleanup_policy:
            _log.warning("%s-%d begins at %d and counts as dirty from there", log.topic, log.partition, log.log_start_offset)
        return log.log_start_offset, True
    if cleaned_upto > log.log_end_offset:
        _log.warning(
            "%s-%d ends at %d, before offset %d up to which it was cleaned: all of it counts as dirty",
            log.topic,
            log.partition,
            log.log_end_offset,
            cleaned_upto,
        )
        return log.log_start_offset, True
    return cleaned_upto, False


def _uncleanable_offset(log: PartitionLog, dirty_offset: int, now_ms: int) -> int:
    offset = min(log.last_stable_offset, log.segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in _segments(log, dirty_offset, log.segments.active.base_offset):
            if segment.largest_timestamp() > now_ms - lag_ms:
                return min(offset, segment.base_offset)
    return offset


def _delay_ms(log: PartitionLog, dirty_offset: int, now_ms: int) -> int:
    bound_ms = log.config.max_compaction_lag_ms
    if bound_ms == _NO_LAG_BOUND:
        return 0
    begun = [_first_timestamp(segment) for segment in _segments(log, dirty_offset, log.segments.active.base_offset)]
    earliest = min((timestamp for timestamp in begun if timestamp > 0), default=now_ms)
    return max(0, now_ms - bound_ms - earliest)


def _first_timestamp(segment: Segment) -> int:
    """Returns the greatest timestamp of the segment's first batch in ms, -1 if there is none."""
    if segment.first_timestamp < 0:
        segment.waited_ms(0, 0)  # reads it from the file if it is not known yet
    return segment.first_timestamp
