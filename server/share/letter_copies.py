"""`LetterCopies` reads the keys and values of records from the log, for dead letters that are copies (dead_letters.py).

A stored batch may unfold to millions of records, or to one of many megabytes. It is therefore opened in steps
(server/base/turns.py): a step decodes one piece of it, or looks at the records in WINDOW_BYTES, and a large batch is read in a
thread. Appends, retention and compaction may go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log.errors import CorruptRecord
from ottla.log.scan import Located, find
from ottla.server.base.turns import Steps, Workers, call_in_thread
from ottla.wire import kernel
from ottla.wire.batch import HEADER_SIZE, BatchHeader, check_crc, read_header
from ottla.wire.record_pieces import record_pieces

if TYPE_CHECKING:
    from ottla.log.disk.files import File
    from ottla.log.partition import PartitionLog

WINDOW_BYTES: Final = 16 * 1024
"""The records in so many bytes are looked at in one step; so is a record that is larger by itself. At 7 bytes, the least that a
record takes, these are 2,300."""
READ_AT_ONCE: Final = 1024 * 1024
"""A batch of so many bytes is read and checked within a step."""


class Copy(NamedTuple):
    """The parts of a record that its letter has, too."""

    key: bytes | None
    value: bytes | None


NO_COPY: Final = Copy(None, None)


class _Found(NamedTuple):
    """A record in the window, and where its key and its value are; a size is -1 if there is none."""

    offset: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int


class LetterCopies:
    """Reads records of a log in the order of their offsets. `workers` returns what does long work in threads."""

    __slots__ = ("_at", "_base_offset", "_found", "_log", "_next_offset", "_window", "_windows", "_workers")

    def __init__(self, log: PartitionLog, workers: Callable[[], Workers]) -> None:
        self._log = log
        self._workers = workers
        self._base_offset = self._next_offset = 0
        """The offset at which the batch that is open begins, and the offset behind it."""
        self._windows: Iterator[tuple[bytes, int, int]] = iter(())
        """The rest of that batch: bytes, and from where to where they are the whole records of a window."""
        self._window = b""
        self._found: list[_Found] = []
        """The records in the window."""
        self._at = 0
        """The number of them that were passed."""

    def read(self, offset: int) -> Steps[Copy]:
        """Makes steps that return what the record at `offset` holds, which must be behind all that were asked for before; NO_COPY
        if the log no longer has it. Raises LogError, CompressionError or another ValueError if it cannot be read.
        """
        while offset >= self._log.log_start_offset:
            while self._at < len(self._found) and self._found[self._at].offset < offset:
                self._at += 1
            if self._at < len(self._found):
                found = self._found[self._at]
                if found.offset > offset:
                    return NO_COPY
                return Copy(self._cut(found.key_at, found.key_size), self._cut(found.value_at, found.value_size))
            window = next(self._windows, None) if offset < self._next_offset else None
            if window is not None:
                self._look_at(*window)
            elif offset < self._next_offset or not (yield from self._open(offset)):
                break
            yield None
        return NO_COPY

    def _cut(self, at: int, size: int) -> bytes | None:
        return None if size < 0 else self._window[at : at + size]

    def _look_at(self, window: bytes, start: int, end: int) -> None:
        self._window, self._at = window, 0
        self._found = [
            _Found(self._base_offset + delta, key_at, key_size, value_at, value_size)
            for _, _, _, delta, key_at, key_size, value_at, value_size in kernel.spans(window, start, end)
        ]

    def _open(self, offset: int) -> Steps[bool]:
        """Opens the batch that holds `offset`, or the next one if none does. Returns False if there is none."""
        log = self._log
        log.check_usable()
        with log.directory.guard(f"reading {log.path}"):
            located = _locate(log, offset)
            if located is None:
                return False
            file, batch = located
            if batch.size <= READ_AT_ONCE:
                data, header = _read(file, batch)
            else:
                data, header = yield from call_in_thread(lambda: _read(file, batch), self._workers)
        self._base_offset, self._next_offset = header.base_offset, header.next_offset
        self._windows = _windows(data, header, log.config.decompression_bounds)
        self._found = []
        return True


def _locate(log: PartitionLog, offset: int) -> tuple[File, Located] | None:
    """Finds the batch that holds `offset`, or, where compaction left a gap, the next one."""
    segments = log.segments
    for index in range(segments.floor(offset), len(segments)):
        segment = segments[index]
        file = segment.open_file()
        batch = find(file, segment.position_of(offset), segment.size, offset)
        if batch is not None:
            return file, batch
    return None


def _read(file: File, batch: Located) -> tuple[bytes, BatchHeader]:
    """Reads a batch. Raises OSError, and CorruptRecord if it is damaged."""
    data = file.pread(batch.size, batch.position)
    header = read_header(data)
    if not check_crc(data, header):
        raise CorruptRecord(f"{file!r}: the CRC of the batch at position {batch.position} does not fit its bytes")
    return data, header


def _windows(data: bytes, header: BatchHeader, bounds: tuple[int, int]) -> Iterator[tuple[bytes, int, int]]:
    """Yields the records of a batch as (bytes, start, end), of which bytes[start:end] are whole records, or nothing. Raises
    CompressionError.
    """
    for piece, end in record_pieces(header.codec, memoryview(data)[HEADER_SIZE : header.size], *bounds):
        at = 0
        while at < end:
            _, stop, needed = kernel.whole_records(piece, at, min(at + WINDOW_BYTES, end))
            if stop == at:  # one record is larger than the window, or the piece ends within one
                stop = min(at + needed, end) if needed else end
            yield piece, at, stop
            at = stop
        if end == 0:
            yield piece, 0, 0
