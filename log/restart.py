"""A log that begins anew, empty, at an offset that it may never have reached: what it held counts no more.

Kafka's followers do so when they fell behind their leader's start, and its metadata log when there is a snapshot of what it does
not hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.log.removal import drop_segments

if TYPE_CHECKING:
    from ottla.log.partition import PartitionLog


def restart_at(log: PartitionLog, offset: int) -> None:
    """Durable with the next flush; a crash before that leaves the old log, or an empty one. OSError."""
    log.cuts += 1
    drop_segments(log, log.segments.replace_all(log.new_segment(offset)))
    log.epochs.clear()
    log.unsynced.epochs = True
    log.producers.clear(offset)
    log.log_start_offset = log.log_end_offset = log.high_watermark = log.recovery_point = offset
