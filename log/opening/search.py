"""Searches for the next sound batch behind damage, in a file of any bytes, in bounded memory and bounded time.

A batch does not begin with a mark, and its length may be what is damaged. So every place is tried where a header could be (magic,
known attributes, counts that fit each other), and the CRC decides. Since a file may be full of bytes that look like the headers
of huge batches, all searches of a file share a budget of bytes, a few times the file's size. When it is used up, `SearchTooLong`
says that nobody knows whether something sound follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ottla.log.disk.files import File
from ottla.wire.batch import CRC_START, HEADER_SIZE, KNOWN_BITS, MAGIC, BatchHeader, read_header
from ottla.wire.crc import crc32c

WINDOW_BYTES: Final = 1024 * 1024

_MAGIC_AT: Final = 16
_SEEMS_BATCH: Final = re.compile(rb"\x02(?=.{4}\x00[\x00-\x7f])", re.DOTALL)  # magic, any CRC, attributes that are known
_BEHIND_MAGIC: Final = 6  # how many bytes behind the magic the pattern looks at
_FIRST_BYTES: Final = 4096  # searched first, because the next batch is mostly near
_CANDIDATE_COST: Final = 256  # a look at a header takes as long as the CRC over so many bytes
_LEAST_BUDGET: Final = 64 * 1024 * 1024


class SearchTooLong(Exception):
    """The search was given up because its budget is used up."""


class Window:
    """Reads the bytes of a file through one block of memory that moves along."""

    def __init__(self, file: File, window_bytes: int = WINDOW_BYTES) -> None:
        self.file = file
        self.size = file.size
        self.window_bytes = window_bytes
        self._start = 0
        self._block = memoryview(b"")

    def view(self, position: int, length: int) -> memoryview:
        """Returns `length` bytes from `position`, fewer only at the file's end; also more than the window holds, if asked."""
        at = position - self._start
        if at < 0 or at + length > len(self._block):
            self._start, at = position, 0
            self._block = memoryview(self.file.pread(min(max(self.window_bytes, length), self.size - position), position))
        return self._block[at : at + length]

    def pieces(self, start: int, end: int) -> Iterator[memoryview]:
        """Yields all bytes from `start` to `end`, a window at a time."""
        while start < end:
            piece = self.view(start, min(self.window_bytes, end - start))
            if not piece:
                return  # the file was cut while it was read
            yield piece
            start += len(piece)

    def crc(self, start: int, end: int) -> int:
        value = 0
        for piece in self.pieces(start, end):
            value = crc32c(piece, value)
        return value

    def is_zero(self, start: int) -> bool:
        """Returns whether there are only zeros from `start` to the file's end."""
        return all(bytes(piece).count(0) == len(piece) for piece in self.pieces(start, self.size))

    def header(self, position: int) -> BatchHeader | str:
        """Returns the header at the position, or as text why there is no whole batch."""
        left = self.size - position
        if left < HEADER_SIZE:
            return f"{left} bytes are not a batch header"
        data = self.view(position, HEADER_SIZE)
        if len(data) < HEADER_SIZE:
            return "the file was cut off while it was read"

        header = read_header(data)
        if header.magic != MAGIC:
            old = ", a message format of before Kafka 0.11" if header.magic in (0, 1) else ""
            return f"magic {header.magic}{old} where {MAGIC} is known"
        if header.size < HEADER_SIZE:
            return f"a batch length of {header.batch_length} is less than a header's"
        if header.size > left:
            return f"a batch of {header.size} bytes, of which {left} are there"
        return header


class BatchSearch:
    """Does searches in one file, which share a budget."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._budget = 4 * window.size + _LEAST_BUDGET

    def next_sound(self, start: int) -> int | None:
        """Returns the position of the first whole batch with a right CRC from `start` on, None if there is none. Raises
        SearchTooLong."""
        window = self._window
        at, length = start + _MAGIC_AT, _FIRST_BYTES
        while at < window.size:
            block = bytes(window.view(at, min(length, window.size - at)))
            if not block:
                return None
            self._spend(len(block))
            for found in _SEEMS_BATCH.finditer(block):
                begin = at + found.start() - _MAGIC_AT
                self._spend(_CANDIDATE_COST)
                header = window.header(begin)
                if isinstance(header, BatchHeader) and is_plausible(header):
                    self._spend(header.size)
                    if window.crc(begin + CRC_START, begin + header.size) == header.crc:
                        return begin
            last = at + len(block) >= window.size
            at += len(block) if last else max(1, len(block) - _BEHIND_MAGIC)
            length = min(4 * length, window.window_bytes)
        return None

    def _spend(self, size: int) -> None:
        self._budget -= size
        if self._budget < 0:
            raise SearchTooLong


def is_plausible(header: BatchHeader) -> bool:
    """Returns whether these 61 bytes could be a header at all. That saves a CRC over the length that they declare."""
    return (
        header.base_offset >= 0
        and header.last_offset_delta >= 0
        and header.attributes & ~KNOWN_BITS == 0
        and 0 <= header.records_count <= header.last_offset_delta + 1
    )
