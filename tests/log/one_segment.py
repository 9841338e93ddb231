"""A segment by itself on a disk in memory, and batches for it."""

from __future__ import annotations

from ottla.log.disk.files import OpenFiles
from ottla.log.segment import Segment
from ottla.wire.batch import read_header, stamp
from tests.log.support import NOW_MS, batch
from tests.memdisk import MemDisk

INTERVAL = 400


def segment(disk: MemDisk, *, base: int = 100, size: int = 0, limit: int = 8, index_bytes: int = 1 << 20) -> Segment:
    return Segment(
        disk,
        "/p",
        base,
        size=size,
        open_files=OpenFiles(limit),
        index_bytes=index_bytes,
        index_interval_bytes=INTERVAL,
        now_ms=NOW_MS,
    )


def fill(target: Segment, count: int, *, start: int = 100, step_ms: int = 10) -> list[int]:
    """One-record batches; returns their positions."""
    positions = []
    for offset in range(start, start + count):
        timestamp = NOW_MS + (offset - 100) * step_ms
        data = batch(timestamp_ms=timestamp)
        data = stamp(read_header(data), offset, 0) + data[16:]
        positions.append(target.append([data[:20], data[20:]], len(data), offset, timestamp))
    return positions
