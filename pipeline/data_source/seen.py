"""Keeps partitions as they were last opened, for those that plan repeatedly: a stream, and a session with many queries.

Opening a partition means checking what recovery would check, in a live directory the active segment (segments.py),
which may be up to 1 GiB to read. As long as the files have not changed, nor the partition's lines in the broker's checkpoints,
the result is the same. (A broker rewrites its checkpoints every minute, so their times say nothing.) If records were added, only
these are checked: the scan of a segment continues where it ended, if the batch before that is still the one with which it ended.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.log.disk import checkpoint
from ottla.log.names import LOG_SUFFIX, offset_name
from ottla.log.open_options import Scans
from ottla.pipeline.data_source.disk import open_for_reading
from ottla.pipeline.data_source.segments import Place, checkpoint_lines, with_log
from ottla.wire.batch import HEADER_SIZE, read_header

if TYPE_CHECKING:
    from ottla.log.disk.checkpoint import TopicPartition
    from ottla.log.partition import PartitionLog
    from ottla.wire.kernel import BatchScan

_T = TypeVar("_T")
_K = TypeVar("_K")
_Print = tuple[tuple[str, int, int, int], ...]
_File = tuple[int, int, int]  # inode, size, time of the last change in ns

_BESIDE: Final = (checkpoint.RECOVERY_POINTS, checkpoint.LOG_START_OFFSETS, checkpoint.CLEANER_OFFSETS)
_NO_LINE: Final = -1


@dataclass(slots=True)
class _Seen:
    print: _Print
    log: PartitionLog


_Last = tuple[int, int, int, int]
"""Identifies a batch: where it begins in the file, its base offset, leader epoch and CRC."""


@dataclass(slots=True)
class _Known:
    """A segment that is known up to `scan.sound`, and the batch that ends there: while that batch is there, what lies before it
    is, too.

    Meanwhile the lists of the scan are packed, because the 260,000 entries that each index has for a GiB would be 60 MiB of
    tuples.
    """

    scan: BatchScan
    last: _Last
    entries: array[int]
    times: array[int]
    producers: array[int]


class SeenPartitions:
    """The partitions that were opened last, at most `most` of them, and what shows whether they have changed.

    Each holds the indexes of its segments, those of a live one twice, and a file or two.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._seen: dict[str, _Seen] = {}
        self._known: dict[str, dict[int, _Known]] = {}
        self._checkpoints: dict[str, tuple[_File, dict[TopicPartition, int]]] = {}

    def with_log(self, place: Place, work: Callable[[PartitionLog], _T]) -> _T:
        """Calls `work` with the partition, which is opened again only if one of its files has changed. Raises SourceError."""
        before = self._print_or_none(place)
        if before is None:
            self._seen.pop(place.path, None)
        seen = self._seen.get(place.path)
        if seen is not None and seen.print == before:
            return work(seen.log)
        known = self._known.pop(place.path, {})  # recovery continues these scans; if that fails they must not be used again
        scans = Scans({base: _unpacked(one) for base, one in known.items() if _is_there(place, base, one.last)})

        def remember(log: PartitionLog) -> _T:
            for base, scan in scans.now.items():
                if base in known and known[base].scan is scan and not _is_there(place, base, known[base].last):
                    raise FileNotFoundError(f"{place.path}: segment {base} was cut while it was scanned")
            self._keep(self._known, place.path, {base: _packed(scan) for base, scan in scans.now.items() if scan.sound})
            done = work(log)
            if before is not None:  # the next print shows what has changed since
                self._keep(self._seen, place.path, _Seen(before, log))
            return done

        return with_log(place, remember, scans)

    def _keep(self, among: dict[str, _K], path: str, value: _K) -> None:
        among.pop(path, None)
        if self._most is not None and len(among) >= self._most:
            among.pop(next(iter(among)))
        among[path] = value

    def _print_or_none(self, place: Place) -> _Print | None:
        """Returns the print of a partition's files, or None while files come and go: what is opened then is not remembered."""
        try:
            return self._print(place)
        except FileNotFoundError:
            return None

    def _print(self, place: Place) -> _Print:
        """Returns what identifies the state of a partition: its files, their sizes and times, and its lines in the checkpoints.
        Raises FileNotFoundError."""
        with os.scandir(place.path) as entries:
            found = [(entry.name, *_file_of(entry.stat())) for entry in entries]
        parent = os.path.dirname(place.path)
        for name in (*_BESIDE, checkpoint.HIGH_WATERMARKS) if place.up_to_high_watermark else _BESIDE:
            lines = self.checkpoint(f"{parent}/{name}")
            found.append((name, lines.get((place.topic, place.partition), _NO_LINE), 0, 0))
        found.append((checkpoint.CLEAN_SHUTDOWN, int(os.path.exists(f"{parent}/{checkpoint.CLEAN_SHUTDOWN}")), 0, 0))
        return tuple(sorted(found))

    def checkpoint(self, path: str) -> dict[TopicPartition, int]:
        """Returns the offsets in a checkpoint, which is read again only if the file has changed."""
        try:
            now = _file_of(os.stat(path))
        except FileNotFoundError:
            return {}
        before = self._checkpoints.get(path)
        if before is not None and before[0] == now:
            return before[1]
        lines = checkpoint_lines(path)
        self._keep(self._checkpoints, path, (now, lines))
        return lines


def _is_there(place: Place, base_offset: int, last: _Last) -> bool:
    """Returns whether the batch is still where it was. If the file cannot be read, opening the partition reports why."""
    try:
        data = open_for_reading(f"{place.path}/{offset_name(base_offset)}{LOG_SUFFIX}").pread(HEADER_SIZE, last[0])
    except OSError:
        return False
    if len(data) < HEADER_SIZE:
        return False
    header = read_header(data)
    return (header.base_offset, header.partition_leader_epoch, header.crc) == last[1:]


def _packed(scan: BatchScan) -> _Known:
    """Takes the lists out of the scan and packs them; the segment keeps its own indexes and the list of producers' batches."""
    last = (scan.last_position, scan.last_offset, scan.last_epoch, scan.last_crc)
    known = _Known(scan, last, _flat(scan.entries), _flat(scan.times), _flat(scan.producers))
    scan.entries, scan.times, scan.producers = [], [], []
    return known


def _unpacked(known: _Known) -> BatchScan:
    scan = known.scan
    scan.entries = list(zip(*[iter(known.entries)] * 2, strict=True))
    scan.times = list(zip(*[iter(known.times)] * 2, strict=True))
    scan.producers = list(zip(*[iter(known.producers)] * 4, strict=True))
    return scan


def _flat(tuples: Iterable[tuple[int, ...]]) -> array[int]:
    return array("q", chain.from_iterable(tuples))


def _file_of(about: os.stat_result) -> _File:
    return about.st_ino, about.st_size, about.st_mtime_ns
