"""The rules of retention, which say how many of a log's oldest segments may be deleted. The first applies to all logs, the others
if `cleanup.policy` has delete.

- Start: everything in the segment lies below `log_start_offset`, which DeleteRecords moved.
- Size (`retention.bytes`): without the segment the log is still at least that large.
- Time (`retention.ms`): the segment's greatest timestamp, or the file's modification time if records have none, is older. The
  timestamp is by the time index, and `check_times` has to be called before: a wrong index would delete what is not old.

A segment is deleted only if all replicas have it (it ends at or below the high watermark). Each rule is a function that counts
segments and changes nothing; `PartitionLog.apply_retention` asks one rule after the other and deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log import time_checks
from ottla.log.segment import Segment
from ottla.log.segments import Segments

if TYPE_CHECKING:
    from ottla.log.config import LogConfig


class Limits(NamedTuple):
    """The values by which the rules measure a log's segments: three of its offsets, its settings, and the time in ms."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    config: LogConfig
    now_ms: int


def count_below_start(segments: Segments, limits: Limits) -> int:
    """Returns how many segments lie below the log's start."""
    return _count(segments, limits, lambda segment, end: segment is not segments.active and end <= limits.log_start_offset)


def count_over_size(segments: Segments, limits: Limits) -> int:
    """Returns how many segments may go by `retention.bytes`."""
    config = limits.config
    if "delete" not in config.cleanup_policy or config.retention_bytes < 0:
        return 0
    excess = segments.size_bytes() - config.retention_bytes

    def may_go(segment: Segment, end: int) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return _count(segments, limits, may_go)


def count_too_old(segments: Segments, limits: Limits) -> int:
    """Returns how many segments may go by `retention.ms`. A time may have to be read from the disk, which raises CorruptRecord or
    OSError."""
    config = limits.config
    if "delete" not in config.cleanup_policy or config.retention_ms < 0:
        return 0
    horizon_ms: int = limits.now_ms - config.retention_ms
    return _count(segments, limits, lambda segment, end: segment.largest_timestamp() < horizon_ms)


def check_times(segments: Segments, limits: Limits) -> Iterator[None]:
    """Compares with the log the timestamps by which `retention.ms` is about to delete segments, or would keep the oldest one
    because they lie in the future; pauses now and then. Raises CorruptRecord or OSError."""
    config = limits.config
    if "delete" not in config.cleanup_policy or config.retention_ms < 0:
        return
    horizon_ms: int = limits.now_ms - config.retention_ms
    for segment in tuple(segments):
        if not horizon_ms <= segment.max_timestamp <= limits.now_ms:
            for _ in time_checks.check_times(segment):
                yield
                if segment not in segments:  # its files may have other names by now
                    return
        if segment.largest_timestamp() >= horizon_ms:
            return


def _count(segments: Segments, limits: Limits, may_go: Callable[[Segment, int], bool]) -> int:
    """Counts the oldest segments as long as `may_go(segment, its end offset)` is true. An empty active segment stays."""
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        end = limits.log_end_offset if is_last else segments[index + 1].base_offset
        if (is_last and segment.size == 0) or end > limits.high_watermark or not may_go(segment, end):
            return index
    return len(segments)


RULES: Final[tuple[tuple[str, Callable[[Segments, Limits], int]], ...]] = (
    ("the log starts later", count_below_start),
    ("retention.bytes", count_over_size),
    ("retention.ms", count_too_old),
)
"""The rules in the order in which they are applied, each with the reason that the broker's log gives."""
