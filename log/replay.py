"""Producer state from disk: the newest usable snapshot, then the batch headers after it.

A snapshot is one file a rolled segment, named by the offset it ends at, and one from the last clean stop. Any of them may be
missing, torn or foreign: a bad one is removed and the next older one taken, and with none the whole log is replayed. Kept are
those that belong to a segment's base offset, for truncation, and the newest other one, as Kafka keeps them.
"""

from __future__ import annotations

import logging

from ottla.log.errors import CorruptSnapshot
from ottla.log.files import Disk
from ottla.log.markers import end_transaction
from ottla.log.producers import ProducerStates
from ottla.log.scan import walk_headers
from ottla.log.segment import SNAPSHOT_SUFFIX, offset_name
from ottla.log.segments import Segments
from ottla.wire.batch import read_header

_log = logging.getLogger("ottla.log.replay")


def snapshot_offsets(disk: Disk, path: str) -> list[int]:
    """The offsets of the snapshots in a partition's directory, ascending. OSError."""
    names = (name.removesuffix(SNAPSHOT_SUFFIX) for name in disk.list(path) if name.endswith(SNAPSHOT_SUFFIX))
    return sorted(int(name) for name in names if name.isdigit())


def remove_stray_snapshots(disk: Disk, path: str, segments: Segments) -> None:
    """Removes the snapshots that belong to no segment, but for the newest. OSError."""
    bases = {segment.base_offset for segment in segments}
    strays = [offset for offset in snapshot_offsets(disk, path) if offset not in bases]
    if strays and strays[-1] > max(bases):
        strays.pop()
    for offset in strays:
        disk.remove(f"{path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}")


def load_producers(
    disk: Disk,
    path: str,
    segments: Segments,
    producers: ProducerStates,
    *,
    start_offset: int,
    end_offset: int,
    now_ms: int,
    expiration_ms: int,
) -> int:
    """Fills `producers` with the state at `end_offset`; returns the offset of the snapshot that was used, else `start_offset`.

    Snapshots beyond `end_offset`, or at or below the log's start, say nothing about this log and are removed. CorruptRecord,
    OSError.
    """
    producers.clear(start_offset)
    snapshot_offset = start_offset
    for offset in reversed(snapshot_offsets(disk, path)):
        file = f"{path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"
        if start_offset < offset <= end_offset:
            if snapshot_offset > start_offset:
                continue  # an older one, for truncation
            try:
                producers.load(disk.read_bytes(file), offset, now_ms=now_ms, expiration_ms=expiration_ms)
                snapshot_offset = offset
                continue
            except CorruptSnapshot as error:
                _log.warning("%s is removed: %s", file, error)
        disk.remove(file)
    if snapshot_offset < end_offset:
        _replay(segments, producers, snapshot_offset, end_offset)
    producers.end_offset = end_offset
    return snapshot_offset


def _replay(segments: Segments, producers: ProducerStates, from_offset: int, end_offset: int) -> None:
    """Applies the batches that reach into from_offset..end_offset."""
    for index in range(segments.floor(from_offset), len(segments)):
        segment = segments[index]
        file = segment.open_file()
        start = segment.offset_index.lookup(from_offset) if segment.base_offset < from_offset else 0
        for position, size, buffer, at in walk_headers(file, start, segment.size):
            header = read_header(buffer, at)
            if header.next_offset <= from_offset:  # the log may start in the middle of a batch, and that one counts
                continue
            if header.base_offset >= end_offset:
                return
            if header.is_control:
                end_transaction(producers, header, header.base_offset, [file.pread(size, position)])
            else:
                producers.update(header, header.base_offset)
