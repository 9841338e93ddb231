"""Behind damage: where in a file of any bytes does the next sound batch stand? In bounded memory, and in a bounded time.

A batch has no mark that it begins with, and its length may be what is damaged. So every place is tried where a header could stand
(magic, attributes that are known, counts that fit each other), and the CRC tells. What stands there may have been made to look
like headers of huge batches, all over the file: a search has a budget of bytes, a few times the file, for all that it is asked,
and says so when that is used up (`SearchTooLong`), for then nobody knows whether something sound follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from ottla.log.disk.files import File
from ottla.wire.batch import CRC_START, HEADER_SIZE, KNOWN_BITS, MAGIC, BatchHeader, read_header

WINDOW_BYTES: Final = 1024 * 1024

_MAGIC_AT: Final = 16
_SEEMS_BATCH: Final = re.compile(rb"\x02(?=.{4}\x00[\x00-\x7f])", re.DOTALL)  # magic, any CRC, attributes that are known
_BEHIND_MAGIC: Final = 6  # bytes that the pattern looks at
_FIRST_BYTES: Final = 4096  # mostly it is near
_CANDIDATE_COST: Final = 256  # in bytes of CRC: what a look at a header takes
_LEAST_BUDGET: Final = 64 * 1024 * 1024


class SearchTooLong(Exception):
    """The search was given up."""


class Window:
    """The bytes of a file through one block that moves along."""

    def __init__(self, file: File, window_bytes: int = WINDOW_BYTES) -> None:
        self.file = file
        self.size = file.size
        self.window_bytes = window_bytes
        self._start = 0
        self._block = memoryview(b"")

    def view(self, position: int, length: int) -> memoryview:
        """The bytes from `position`, fewer only at the file's end. Longer than the window is read as asked."""
        at = position - self._start
        if at < 0 or at + length > len(self._block):
            self._start, at = position, 0
            self._block = memoryview(self.file.pread(min(max(self.window_bytes, length), self.size - position), position))
        return self._block[at : at + length]

    def pieces(self, start: int, end: int) -> Iterator[memoryview]:
        """All bytes from `start` to `end`, a window at a time."""
        while start < end:
            piece = self.view(start, min(self.window_bytes, end - start))
            if not piece:
                return  # cut off while it is read
            yield piece
            start += len(piece)

    def crc(self, start: int, end: int) -> int:
        value = 0
        for piece in self.pieces(start, end):
            value = crc32c(piece, value)
        return value

    def is_zero(self, start: int) -> bool:
        """Returns whether there is nothing but zeros to the end."""
        return all(bytes(piece).count(0) == len(piece) for piece in self.pieces(start, self.size))

    def header(self, position: int) -> BatchHeader | str:
        """The header at the position, or why there is no whole batch."""
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
    """Searches in one file, which share a budget."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._budget = 4 * window.size + _LEAST_BUDGET

    def next_sound(self, start: int) -> int | None:
        """Position of the first whole batch with a right CRC from `start` on, None if there is none. SearchTooLong."""
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
    """Could these 61 bytes be a header at all? Saves a CRC over whatever they say is theirs."""
    return (
        header.base_offset >= 0
        and header.last_offset_delta >= 0
        and header.attributes & ~KNOWN_BITS == 0
        and 0 <= header.records_count <= header.last_offset_delta + 1
    )
