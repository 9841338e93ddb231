"""Partitions as they were opened last, for who plans again and again: a stream, and a session that asks many queries.

To open a partition is to check what recovery would check, of a live directory the active segment (ottla.pipeline.segments): up
to 1 GiB to read. As long as its files are what they were, and so is what the broker's checkpoints say of it, there is nothing new
to find out. (A broker writes its checkpoints anew every minute, so their times say nothing.) And where records have come, only
they are checked: the scan of a segment goes on where it ended, if the batch before is the one that it ended with.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.log import checkpoint
from ottla.log.errors import CorruptSnapshot
from ottla.log.segment import LOG_SUFFIX, offset_name
from ottla.pipeline.segments import Place, with_log
from ottla.pipeline.segments_disk import ReadOnlyDisk, open_for_reading
from ottla.wire.batch import HEADER_SIZE

if TYPE_CHECKING:
    from ottla.log.checkpoint import TopicPartition
    from ottla.log.partition import PartitionLog
    from ottla.wire.kernel import BatchScan

_T = TypeVar("_T")
_K = TypeVar("_K")
_Print = tuple[tuple[str, int, int, int], ...]
_File = tuple[int, int, int]  # inode, size, time of the last change in ns

_BESIDE: Final = (checkpoint.RECOVERY_POINTS, checkpoint.LOG_START_OFFSETS, checkpoint.CLEANER_OFFSETS)
_NO_LINE: Final = -1
_DISK: Final = ReadOnlyDisk()


@dataclass(slots=True)
class _Seen:
    print: _Print
    log: PartitionLog


@dataclass(slots=True)
class _Known:
    """A segment up to `scan.sound`, and how to tell that those bytes are the same still: its file, and the last batch's header.

    The entries of its indexes, of which a GiB has 260,000 each, are packed meanwhile: two numbers each, one after the other.
    """

    scan: BatchScan
    inode: int
    position: int
    header: bytes
    entries: array[int]
    times: array[int]


class SeenPartitions:
    """The partitions that were opened last, at most `most`, and by what to tell that they have changed.

    Each holds the indexes of its segments and a file or two.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._seen: dict[str, _Seen] = {}
        self._known: dict[str, dict[int, _Known]] = {}
        self._checkpoints: dict[str, tuple[_File, dict[TopicPartition, int]]] = {}

    def with_log(self, place: Place, work: Callable[[PartitionLog], _T]) -> _T:
        """`work` with the partition, which is opened again only if one of its files has changed. SourceError."""
        try:
            seen, now = self._seen.get(place.path), self._print(place)
            if seen is not None and seen.print == now:
                return work(seen.log)
        except FileNotFoundError:
            self._seen.pop(place.path, None)  # it changes right now, and is looked at anew

        scans = self._scans(place)

        def remember(log: PartitionLog) -> _T:
            done = work(log)
            self._keep(self._known, place, _known(log, scans))
            if before == self._print(place):
                self._keep(self._seen, place, _Seen(before, log))
            return done

        before = self._print(place) if os.path.isdir(place.path) else ()
        return with_log(place, remember, scans)

    def _keep(self, among: dict[str, _K], place: Place, value: _K) -> None:
        among.pop(place.path, None)
        if self._most is not None and len(among) >= self._most:
            among.pop(next(iter(among)))
        among[place.path] = value

    def _scans(self, place: Place) -> dict[int, BatchScan]:
        """What was learned of segments, by base offset, as far as it is true still. It goes on, and is forgotten as it was."""
        found: dict[int, BatchScan] = {}
        for base_offset, known in self._known.pop(place.path, {}).items():
            try:
                file = open_for_reading(f"{place.path}/{offset_name(base_offset)}{LOG_SUFFIX}")
                same = os.fstat(file.fileno()).st_ino == known.inode
                if same and file.pread(HEADER_SIZE, known.position) == known.header:
                    scan = found[base_offset] = known.scan
                    scan.entries, scan.times = _unpacked(known.entries), _unpacked(known.times)
            except OSError:
                continue  # gone; what else it may be, opening the partition tells
        return found

    def _print(self, place: Place) -> _Print:
        """Which files there are, their sizes and times, and the checkpoints' lines. FileNotFoundError."""
        with os.scandir(place.path) as entries:
            found = [(entry.name, *_of(entry.stat())) for entry in entries]
        parent = os.path.dirname(place.path)
        for name in _BESIDE:
            lines = self._lines(f"{parent}/{name}")
            found.append((name, lines.get((place.topic, place.partition), _NO_LINE), 0, 0))
        found.append((checkpoint.CLEAN_SHUTDOWN, int(os.path.exists(f"{parent}/{checkpoint.CLEAN_SHUTDOWN}")), 0, 0))
        return tuple(sorted(found))

    def _lines(self, path: str) -> dict[TopicPartition, int]:
        """What a checkpoint says; nothing where it says nothing that can be read, as `with_log` takes it."""
        try:
            now = _of(os.stat(path))
        except FileNotFoundError:
            return {}
        before = self._checkpoints.get(path)
        if before is not None and before[0] == now:
            return before[1]
        try:
            lines = checkpoint.read_offsets(_DISK, path)
        except (CorruptSnapshot, OSError):
            lines = {}
        self._checkpoints[path] = (now, lines)
        return lines


def _known(log: PartitionLog, scans: dict[int, BatchScan]) -> dict[int, _Known]:
    found: dict[int, _Known] = {}
    for segment in log.segments:
        scan = scans.get(segment.base_offset)
        last = None if scan is None else segment.locate(scan.expected - 1)
        if scan is not None and last is not None:
            file = segment.open_file()
            header = file.pread(HEADER_SIZE, last.position)
            inode, entries, times = os.fstat(file.fileno()).st_ino, _packed(scan.entries), _packed(scan.times)
            scan.entries, scan.times = [], []
            found[segment.base_offset] = _Known(scan, inode, last.position, header, entries, times)
    return found


def _packed(pairs: list[tuple[int, int]]) -> array[int]:
    return array("q", chain.from_iterable(pairs))


def _unpacked(numbers: array[int]) -> list[tuple[int, int]]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _of(about: os.stat_result) -> _File:
    return about.st_ino, about.st_size, about.st_mtime_ns
