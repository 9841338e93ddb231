"""The part that recovery takes out of a log: `examine` says whether a crash can have left it, and `DamagedFiles` keeps what it
cannot.

The end of a process leaves the first part of one batch at a log's end, and a file system that lost bytes leaves zeros. Such a
torn tail was promised to nobody; it is cut off and gone. Anything else may be records that somebody was promised: a whole batch
with a wrong CRC, sound batches behind it, segments behind a gap. That is cut off too, or the log could not go on, but it is kept
beside its segment as `<segment>.log.<position>.damaged`, durably and before the cut. A segment that goes as a whole is renamed.

These are the names by which `ottla log repair` keeps what it takes out, and `ottla log repair --restore` puts either back. They
are no segment's names, so neither ottla nor Kafka looks at them. All of them together may take up `ottla.damaged.files.max.bytes`
of a log directory; a partition for which that is not enough stays offline with nothing cut.

The module is loaded when there is something to take out.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final, NamedTuple

from ottla.log.disk.directory import LogDirectory
from ottla.log.disk.files import Disk, File
from ottla.log.errors import CorruptLog
from ottla.log.names import DAMAGED_SUFFIX, TMP_SUFFIX
from ottla.log.opening.search import BatchSearch, SearchTooLong, Window
from ottla.log.scan import READ_BYTES
from ottla.wire.batch import CRC_START, HEADER_SIZE, MAGIC, BatchHeader, read_header

_DAMAGED: Final = re.compile(rf".+\.log\.\d+{re.escape(DAMAGED_SUFFIX)}(\.\d+)?")
_SLACK_BYTES: Final = 1024 * 1024
"""The number of zeros that are kept behind the last other byte: a batch may end in zeros, and reserved room is nothing but
zeros."""


class Kind(Enum):
    """The kind of the bytes behind the last sound batch of a file."""

    ZEROS = auto()
    """Zeros: reserved room, or bytes that a file system lost."""
    TORN = auto()
    """The first part of one batch."""
    DOUBTFUL = auto()
    """A batch with a wrong CRC and then only zeros: damage, or the first part of a batch in reserved room."""
    DAMAGED = auto()
    """Something that no process leaves that is killed. A power cut may, since a disk need not write in order."""


class Tail(NamedTuple):
    """The bytes behind the last sound batch: what they are, where they end but for zeros, and whether a sound batch is among
    them (or nobody could find out in reasonable time)."""

    kind: Kind
    end: int
    goes_on: bool


def examine(file: File, start: int, size: int) -> Tail:
    """Returns what file[start:size] is, whose first batch is not sound. Raises OSError."""
    content_end = _content_end(file, start, size)
    if content_end == start:
        return Tail(Kind.ZEROS, start, False)
    end = min(size, content_end + _SLACK_BYTES)
    window = Window(file)
    try:
        goes_on = BatchSearch(window).next_sound(start + 1) is not None
    except SearchTooLong:
        goes_on = True
    if goes_on:
        return Tail(Kind.DAMAGED, end, True)
    return Tail(_kind(window, start, size, content_end), end, False)


def _kind(window: Window, start: int, size: int, content_end: int) -> Kind:
    if content_end - start < HEADER_SIZE:
        return Kind.TORN
    found = window.header(start)
    if isinstance(found, BatchHeader):
        frame_end = start + found.size
        return Kind.DAMAGED if content_end > frame_end or size == frame_end else Kind.DOUBTFUL
    header = read_header(window.view(start, HEADER_SIZE))
    if header.magic != MAGIC or header.size < HEADER_SIZE:
        return Kind.DAMAGED  # no batch begins so
    is_whole = window.crc(start + CRC_START, size) == header.crc  # then it is only the length that is wrong
    return Kind.DAMAGED if is_whole else Kind.TORN


def _content_end(file: File, start: int, end: int) -> int:
    """Returns where the zeros begin that reach to `end`, `start` if there is nothing else."""
    while end > start:
        begin = max(start, end - READ_BYTES)
        data = file.pread(end - begin, begin).rstrip(b"\0")
        if data:
            return begin + len(data)
        end = begin
    return start


class DamagedFiles:
    """Keeps what is taken out of one partition's log, whose directory is in the log directory `directory`. All partitions of that
    may keep `max_bytes` together."""

    def __init__(self, directory: LogDirectory, max_bytes: int) -> None:
        self._directory = directory
        self._disk: Disk = directory.disk
        self._max_bytes = max_bytes

    def reserve(self, path: str, size: int) -> None:
        """Counts `size` bytes that are about to be kept of the partition in `path`. Raises CorruptLog if that is too much, and
        OSError."""
        directory = self._directory
        with directory.damage_lock:
            if directory.damaged_bytes is None:
                directory.damaged_bytes = self._count()
            if directory.damaged_bytes + size > self._max_bytes:
                raise CorruptLog(
                    f"{size} bytes of {path} are damaged or behind damage and would have to be kept, but {directory.path} has "
                    f"{directory.damaged_bytes} bytes of {DAMAGED_SUFFIX} files already and may have {self._max_bytes} "
                    "(ottla.damaged.files.max.bytes), so nothing is cut: remove those that nobody needs, or allow more"
                )
            directory.damaged_bytes += size

    def _count(self) -> int:
        disk, path = self._disk, self._directory.path
        partitions = [f"{path}/{name}" for name in disk.list(path) if disk.is_dir(f"{path}/{name}")]
        names = [f"{partition}/{name}" for partition in partitions for name in disk.list(partition) if _DAMAGED.fullmatch(name)]
        return sum(disk.size(name) for name in names)

    def keep_part(self, path: str, start: int, end: int) -> str:
        """Copies the bytes from `start` to `end` of the log file `path` into a file beside it; returns its path. It is durable
        when this returns. Raises OSError."""
        disk, target = self._disk, f"{path}.{start}{DAMAGED_SUFFIX}"
        temporary = target + TMP_SUFFIX
        if disk.exists(temporary):
            disk.remove(temporary)
        source, copy = disk.open(path), disk.open(temporary, create=True)
        try:
            while start < end:
                data = source.pread(min(READ_BYTES, end - start), start)
                if not data:
                    break
                start += len(data)
                while data:  # after a short write the next one raises the reason
                    data = data[copy.append([data]) :]
            copy.sync()
        except OSError:
            disk.remove(temporary)
            raise
        if disk.exists(target):
            if self._begins_with(target, temporary):  # an earlier start kept this and was interrupted while it cut the log
                disk.remove(temporary)
                return target
            target = self._free_name(target)
        disk.rename(temporary, target)
        disk.sync_dir(path.rpartition("/")[0])
        return target

    def keep_file(self, path: str) -> str:
        """Gives the log file `path` as a whole the name of a damaged one, which this returns; the caller makes that durable.
        Raises OSError."""
        target = f"{path}.0{DAMAGED_SUFFIX}"
        if self._disk.exists(target):
            target = self._free_name(target)
        self._disk.rename(path, target)
        return target

    def _free_name(self, target: str) -> str:
        number = 1
        while self._disk.exists(f"{target}.{number}"):
            number += 1
        return f"{target}.{number}"

    def _begins_with(self, path: str, other: str) -> bool:
        whole, part = self._disk.open(path), self._disk.open(other)
        pieces = range(0, part.size, READ_BYTES)
        return part.size <= whole.size and all(
            part.pread(READ_BYTES, at) == whole.pread(min(READ_BYTES, part.size - at), at) for at in pieces
        )
