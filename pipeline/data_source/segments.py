"""Works out which bytes of which segment files a reader needs: finds partitions in directories, opens them, and cuts them into
slices.

`find` finds partitions in a log directory (an entry of `log.dirs`, of ottla or Apache Kafka); it also accepts the directory of
one partition, or a topic as `<log directory>/<topic>`. As for a broker, directories that end in `-delete`, `-future` and `-stray`
are not partitions. `pipeline.replicas` chooses among the directories of several brokers.

`with_log` opens a partition like a broker at its start (`log.opening.recovery`), but on a disk that only pretends to change
(disk.py). After a clean stop that takes a few small reads. Otherwise what lies beyond the recovery point is
checked batch by batch, with its CRCs, as by recovery: in a live directory that is about the active segment. If no checkpoint has
a recovery point, perhaps because the directory is a copy of cold segments, the last segment is checked. Everything else is
checked when read.

`slices` cuts the wanted part of an open partition into byte ranges that begin and end between two batches. `.index`, `.timeindex`
and `.txnindex` say where; no slice begins before the wanted part or ends much behind it.

Errors are SourceErrors, with one line for the user.
"""

from __future__ import annotations

import glob
import logging
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Final, TypeVar

from ottla.log.config import LogConfig
from ottla.log.disk import checkpoint
from ottla.log.disk.checkpoint import TopicPartition
from ottla.log.disk.directory import LogDirectory
from ottla.log.disk.files import OpenFiles
from ottla.log.errors import CorruptSnapshot, LogError
from ottla.log.names import LOG_SUFFIX, SWAP_SUFFIX, offset_in
from ottla.log.open_options import Opening, Scans
from ottla.log.opening.recovery import open_log
from ottla.log.partition import PartitionLog
from ottla.log.segment import Segment
from ottla.log.timestamps import offset_for_timestamp
from ottla.log.transactions import collect_aborted
from ottla.pipeline.data_source.disk import ReadOnlyDisk
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES

MAX_OFFSET: Final = 2**63 - 1
MIN_TIMESTAMP: Final = -(2**63)
MAX_BATCH_BYTES: Final = "maxDecompressedBatchBytes"
"""The option for batches that decompress to more than a broker takes by default."""
_TRIES: Final = 5  # for a directory that a live broker changes meanwhile
_OPEN_AT_ONCE: Final = 2
_T = TypeVar("_T")
_CONFIG: Final = LogConfig.from_overrides({})
_DISK: Final = ReadOnlyDisk()


class SourceError(Exception):
    """The source cannot be read; the message is one line for the user."""


class DataLoss(SourceError):
    """Requested offsets do not exist any more."""


@dataclass(frozen=True)
class Place:
    """A partition and its directory. With `up_to_high_watermark`, only records below the high watermark that its broker has
    written down are read; otherwise everything in the log."""

    path: str
    topic: str
    partition: int
    up_to_high_watermark: bool = False


@dataclass(frozen=True)
class Wanted:
    """The wanted part of a partition: offsets from `low` to below `high`, timestamps (ms) from `earliest` to below `latest`."""

    low: int = 0
    high: int = MAX_OFFSET
    earliest: int = MIN_TIMESTAMP
    latest: int = MAX_OFFSET
    committed: bool = False

    @property
    def all_times(self) -> bool:
        return self.earliest == MIN_TIMESTAMP and self.latest == MAX_OFFSET


@dataclass(frozen=True)
class Slice:
    """A byte range of a segment's file, from the first byte of a batch to the last byte of one.

    `inode` and `header`, that of the first batch, show whether the file is still the one from which the slice was cut; the inode
    alone does not, because a file system gives the number of a removed file to a new one. `wanted` is the wanted part; by its
    offsets the slice can be found again in another file, after a compaction. `aborted` has (producer id, first offset, last
    offset) of the aborted transactions that reach into the slice, whose records are not wanted.
    """

    place: Place
    path: str
    inode: int
    header: bytes
    start: int
    end: int
    wanted: Wanted
    aborted: tuple[tuple[int, int, int], ...] = ()


# Finding


def find(path: str, wants_topic: Callable[[str], bool] | None = None) -> list[Place]:
    """Returns the partitions at `path`, which may be several paths or patterns (`*`, `?`, `[...]`), separated by commas. Raises
    SourceError if there are none."""
    places = {place.path: place for one in _paths(path) for place in _places(one, wants_topic)}
    return sorted(places.values(), key=lambda place: (place.topic, place.partition, place.path))


def log_directories(path: str) -> set[str]:
    """Returns the log directories that `path`, as `find` takes it, leads to, whatever topics they have."""
    return {one if os.path.exists(f"{one}/{checkpoint.META_PROPERTIES}") else os.path.dirname(one) for one in _paths(path)}


def _paths(path: str) -> list[str]:
    """Returns the paths that are named, without a slash at the end. A pattern in front of a topic's name stands for those
    directories that have the topic."""
    if os.path.isdir(path):
        return [_bare(path)]
    found: list[str] = []
    for word in path.split(","):
        one = _bare(word.strip())
        if not glob.has_magic(one) or os.path.exists(one):
            found.append(one)
            continue
        matching = sorted(name for name in glob.glob(one) if os.path.isdir(name))
        if not matching:
            parent, topic = os.path.split(one)
            parents = [name for name in sorted(glob.glob(parent)) if os.path.isdir(name)]
            matching = [f"{name}/{topic}" for name in parents if any(place.topic == topic for place in _inside(name))]
        if not matching:
            raise SourceError(f"{one} matches neither a directory nor a topic in one")
        found += matching
    return found


def _bare(path: str) -> str:
    return path.removeprefix("file://").rstrip("/") or "/"


def _places(path: str, wants_topic: Callable[[str], bool] | None) -> list[Place]:
    if not os.path.isdir(path):
        parent, topic = os.path.split(path)
        places = [place for place in _inside(parent) if place.topic == topic] if os.path.isdir(parent) else []
        if not places:
            raise SourceError(f"{path} is neither a directory nor a topic in one")
        return places
    name = checkpoint.parse_directory_name(os.path.basename(os.path.realpath(path)))
    if name is not None and any(offset_in(file) >= 0 for file in _names(path)):
        return [Place(path, *name)]
    places = _inside(path)
    if not places and not os.path.exists(f"{path}/{checkpoint.META_PROPERTIES}"):
        raise SourceError(f"{path} is not a log directory: it has neither partitions nor {checkpoint.META_PROPERTIES}")
    return [place for place in places if wants_topic is None or wants_topic(place.topic)]


def _inside(path: str) -> list[Place]:
    named = ((name, checkpoint.parse_directory_name(name)) for name in _names(path or "/"))
    return [Place(f"{path}/{name}", *parsed) for name, parsed in named if parsed and os.path.isdir(f"{path}/{name}")]


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None


# Opening


def with_log(place: Place, work: Callable[[PartitionLog], _T], scans: Scans | None = None) -> _T:
    """Calls `work` with the partition as a broker's recovery would see it now, and returns its result. Nothing on the disk is
    changed. Raises SourceError.

    `scans` are those of log.open_options. If a live broker removes a file meanwhile, everything is done again without them.
    """
    problem: Exception | None = None
    for _ in range(_TRIES):
        try:
            return work(_open(place, scans))
        except FileNotFoundError as error:
            problem = error
            if scans is not None:
                scans.clear()
            if not os.path.isdir(place.path):
                break
        except (LogError, OSError, ValueError) as error:
            raise SourceError(f"{place.topic}-{place.partition} cannot be read: {error}") from error
    raise SourceError(f"{place.topic}-{place.partition} is being changed or removed, and cannot be read: {problem}")


def _open(place: Place, scans: Scans | None) -> PartitionLog:
    disk, parent = ReadOnlyDisk(), os.path.dirname(place.path)
    directory = LogDirectory(disk, parent, OpenFiles(_OPEN_AT_ONCE))

    def line(name: str) -> int | None:
        return checkpoint_lines(f"{parent}/{name}").get((place.topic, place.partition))

    bases = [offset_in(name) for name in disk.list(place.path) if name.endswith((LOG_SUFFIX, LOG_SUFFIX + SWAP_SUFFIX))]
    recovery_point = line(checkpoint.RECOVERY_POINTS)
    opening = Opening(
        place.topic,
        place.partition,
        None,
        _CONFIG,
        now_ms=lambda: time.time_ns() // 1_000_000,
        random=Random(0),
        clean=disk.exists(f"{parent}/{checkpoint.CLEAN_SHUTDOWN}"),
        scans=scans,
    )
    opening.recovery_point = max(bases, default=0) if recovery_point is None else recovery_point
    opening.log_start_offset = line(checkpoint.LOG_START_OFFSETS) or 0
    opening.cleaned_upto = line(checkpoint.CLEANER_OFFSETS) or 0
    opening.directory = os.path.basename(place.path)
    if place.up_to_high_watermark:
        opening.high_watermark = _high_watermark(disk, parent, place)
    with _silence():
        log = open_log(directory, opening)
    if place.up_to_high_watermark:
        log.settle_high_watermark(alone=False)
    return log


def _high_watermark(disk: ReadOnlyDisk, directory: str, place: Place) -> int:
    """Returns the high watermark that a broker has written down, 0 if it has not come to this partition yet. Raises SourceError
    if nothing was written down."""
    path = f"{directory}/{checkpoint.HIGH_WATERMARKS}"
    if not disk.exists(path):
        raise SourceError(f"{path} is missing, which says what is replicated; a broker writes it, and it belongs to a copy, too")
    return checkpoint_lines(path).get((place.topic, place.partition), 0)


def checkpoint_lines(path: str) -> dict[TopicPartition, int]:
    """Returns the offsets in a checkpoint; none if it cannot be read, because checkpoints only save work."""
    try:
        return checkpoint.read_offsets(_DISK, path)
    except (CorruptSnapshot, OSError):
        return {}


@contextmanager
def _silence() -> Iterator[None]:
    """Silences the log lines of recovery about files that it cuts or removes, because here it changes none."""
    log = logging.getLogger("ottla.log")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def end_offset(log: PartitionLog, committed: bool) -> int:
    """Returns the offset after the last record that a reader may see."""
    return log.last_stable_offset if committed else log.high_watermark


def offset_at_time(log: PartitionLog, timestamp_ms: int, max_batch_bytes: int = MAX_DECOMPRESSED_BYTES) -> int | None:
    """Returns the offset of the first record that is not earlier, None if there is none. Raises OSError or LogError, also if the
    record lies beyond the first `max_batch_bytes` of a batch."""
    bounds = max_batch_bytes, max_batch_bytes
    found = offset_for_timestamp(log, timestamp_ms, bounds, exact=True)
    return None if found is None else found.offset


# Cutting


def slices(log: PartitionLog, place: Place, wanted: Wanted, split_bytes: int) -> list[Slice]:
    """Returns the wanted part of the partition in slices of about `split_bytes`. Raises LogError or OSError."""
    low = max(wanted.low, log.log_start_offset)
    high = min(wanted.high, end_offset(log, wanted.committed))
    found: list[Slice] = []
    if low >= high:
        return found
    aborted = collect_aborted(log, low, high) if wanted.committed else []
    ranges = [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in aborted]
    segments = log.segments.between(log.segments.floor(low), high)
    for at, segment in enumerate(segments):
        upto = min(high, segments[at + 1].base_offset) if at + 1 < len(segments) else high
        if segment.size and (wanted.earliest == MIN_TIMESTAMP or segment.max_timestamp >= wanted.earliest):
            inside = replace(wanted, low=max(low, segment.base_offset), high=upto)
            found += _cut(segment, place, inside, split_bytes, ranges)
    return found


def _cut(
    segment: Segment, place: Place, wanted: Wanted, split_bytes: int, aborted: Sequence[tuple[int, int, int]]
) -> Iterator[Slice]:
    low = wanted.low
    if wanted.earliest != MIN_TIMESTAMP:
        low = max(low, segment.offset_before(wanted.earliest))
    start, end = 0, segment.size
    if low > segment.base_offset:
        first = segment.locate(low)
        if first is None:
            return
        start = first.position
    last = segment.locate(wanted.high)
    if last is not None:
        end = last.position + (last.size if last.base_offset < wanted.high else 0)
    file = segment.open_file()
    borders = [start, *_borders(segment, start, end, split_bytes), end]
    headers = [file.pread(HEADER_SIZE, border) for border in borders[:-1]]
    firsts = [low, *(max(low, int.from_bytes(header[:8], "big")) for header in headers[1:])]
    inode = os.fstat(file.fileno()).st_ino
    path = getattr(file, "path", segment.path(LOG_SUFFIX))
    for at, (begin, until) in enumerate(pairwise(borders)):
        upto = firsts[at + 1] if at + 2 < len(borders) else wanted.high
        if begin < until and firsts[at] < upto:
            concerned = tuple(entry for entry in aborted if entry[1] < upto and entry[2] >= firsts[at])
            yield Slice(place, path, inode, headers[at], begin, until, replace(wanted, low=firsts[at], high=upto), concerned)


def _borders(segment: Segment, start: int, end: int, split_bytes: int) -> list[int]:
    """Returns the positions at which the offset index allows a cut, about every `split_bytes`, without a small rest at the
    end."""
    positions = [position for _, position in segment.offset_index.entries()]
    found: list[int] = []
    at = start
    while end - at > split_bytes + split_bytes // 2:
        slot = bisect_left(positions, at + split_bytes)
        if slot == len(positions) or positions[slot] >= end:
            break
        at = positions[slot]
        found.append(at)
    return found
