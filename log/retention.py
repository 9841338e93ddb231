"""Which segments may go: by the log's start, by size, by time, oldest first (`cleanup.policy` with delete; the first for all).

- Start: everything in the segment lies below `log_start_offset`, which DeleteRecords moved.
- Size (`retention.bytes`): without the segment the log is still at least that large.
- Time (`retention.ms`): the segment's greatest timestamp, or, where records have none, the file's modification time, is older.

A segment goes only if all replicas have it (it ends at or below the high watermark). If even the active one is to go, a new one
is rolled first: the log never loses its end. Deleting the oldest segments moves the log's start up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.log.removal import drop_segments
from ottla.log.segment import Segment

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog

_log = logging.getLogger("ottla.log.retention")


def apply(log: PartitionLog, now_ms: int) -> int:
    """Deletes what may go; returns the number of segments. OSError, StorageError."""
    deleted = _delete_while(log, _below_start(log), "the log starts later")
    if "delete" in log.config.cleanup_policy:
        if log.config.retention_bytes >= 0:
            deleted += _delete_while(log, _over_size(log), "retention.bytes")
        if log.config.retention_ms >= 0:
            deleted += _delete_while(log, _too_old(log, now_ms), "retention.ms")
    return deleted


def _below_start(log: PartitionLog) -> Callable[[Segment, int], bool]:
    return lambda segment, end: segment is not log.segments.active and end <= log.log_start_offset


def _over_size(log: PartitionLog) -> Callable[[Segment, int], bool]:
    excess = log.size_bytes - log.config.retention_bytes

    def may_go(segment: Segment, end: int) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return may_go


def _too_old(log: PartitionLog, now_ms: int) -> Callable[[Segment, int], bool]:
    horizon_ms: int = now_ms - log.config.retention_ms
    return lambda segment, end: segment.largest_timestamp() < horizon_ms


def _delete_while(log: PartitionLog, may_go: Callable[[Segment, int], bool], reason: str) -> int:
    """Deletes the oldest segments for as long as `may_go(segment, its end offset)` says so."""
    segments = log.segments
    count = 0
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        end = log.log_end_offset if is_last else segments[index + 1].base_offset
        if (is_last and segment.size == 0) or end > log.high_watermark or not may_go(segment, end):
            break
        count += 1
    if count == 0:
        return 0
    if count == len(segments):
        log.roll()
    dropped = segments.drop_first(count)
    log.raise_log_start_offset(segments.first.base_offset)
    _log.info("%s-%d drops %d segments up to offset %d: %s", log.topic, log.partition, count, log.log_start_offset, reason)
    for segment in dropped:
        drop_segments(log, [segment])
        # Durably one by one, the oldest first: if a crash brought an older one back without its successors, there would be a gap,
        # and recovery takes what lies behind a gap for the rest of a lost tail.
        log.directory.disk.sync_dir(log.path)
    return count
