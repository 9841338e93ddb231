"""A walk over a segment of any bytes: its batches, sound or not, and the places where no batch stands. In bounded memory.

A segment is record batches back to back (wire/batch.py). They are walked header by header over a window of one MiB, and the CRC
of a larger batch is computed piece by piece, so that no length is believed before it is proven.

Where no whole batch stands, the next sound one is looked for. If there is one, what lies between is corrupt and the walk goes on
behind it; if there is none, the file is torn: that is how a crash leaves the tail of a segment, and recovery cuts it off.
`ottla log dump`, `verify` and `repair` all go by this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.log.files import File
from ottla.wire.batch import CRC_START, HEADER_SIZE, KNOWN_BITS, MAGIC, BatchHeader, read_header

WINDOW_BYTES: Final = 1024 * 1024

_MAGIC_AT: Final = 16
_SEEMS_BATCH: Final = re.compile(rb"\x02(?=.{4}\x00[\x00-\x7f])", re.DOTALL)  # magic, any CRC, attributes that are known
_CANDIDATE_COST: Final = 256  # in bytes of CRC: what a look at a header takes
_SEARCH_BYTES: Final = 64 * 1024 * 1024


class Batch(NamedTuple):
    """A whole batch by its header. `crc` is what its bytes give."""

    position: int
    header: BatchHeader
    crc: int

    @property
    def is_sound(self) -> bool:
        return self.crc == self.header.crc

    @property
    def end(self) -> int:
        return self.position + self.header.size


class Gap(NamedTuple):
    """No whole batch stands at `position`, and `why`; the next sound one is at `following`, None if none is."""

    position: int
    following: int | None
    why: str


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
        """Nothing but zeros to the end?"""
        return all(bytes(piece).count(0) == len(piece) for piece in self.pieces(start, self.size))


class SegmentWalk:
    """One walk over one segment. `advance` is told how many bytes are behind."""

    def __init__(self, file: File, advance: Callable[[int], object] = int) -> None:
        self.window = Window(file)
        self.advance = advance

    def __iter__(self) -> Iterator[Batch | Gap]:
        position, size = 0, self.window.size
        suspect: int | None = None  # start of the batch before, if its CRC was wrong: then its length may be, too
        while position < size:
            header = self._header(position)
            if isinstance(header, str):
                following = self._next_sound(1 + (position if suspect is None else suspect))
                yield Gap(position, following, self._reason(position, following, header))
                if following is None:
                    return
                self.advance(following - position)
                position, suspect = following, None
                continue
            end = position + header.size
            batch = Batch(position, header, self.window.crc(position + CRC_START, end))
            yield batch
            suspect = None if batch.is_sound else position
            self.advance(header.size)
            position = end

    def _header(self, position: int) -> BatchHeader | str:
        """The header at the position, or why there is no whole batch."""
        left = self.window.size - position
        if left < HEADER_SIZE:
            return f"{left} bytes are no batch header"
        data = self.window.view(position, HEADER_SIZE)
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

    def _reason(self, position: int, following: int | None, why: str) -> str:
        if following is not None:
            return f"{why}; the next sound batch is at position {following}"
        left = self.window.size - position
        if self.window.is_zero(position):
            return f"{left} bytes of zeros to the end, never written or lost in a crash"
        return f"{why}; nothing sound in the last {left} bytes"

    def _next_sound(self, start: int) -> int | None:
        """Position of the first whole batch with a right CRC from `start` on. Gives up when it has looked for long."""
        size = self.window.size
        budget = 4 * (size - start) + _SEARCH_BYTES
        at = start + _MAGIC_AT
        while at < size:
            block = bytes(self.window.view(at, min(self.window.window_bytes, size - at)))
            if not block:
                return None
            for found in _SEEMS_BATCH.finditer(block):
                begin = at + found.start() - _MAGIC_AT
                header = self._header(begin)
                budget -= _CANDIDATE_COST
                if isinstance(header, BatchHeader) and is_plausible(header):
                    budget -= header.size
                    if self.window.crc(begin + CRC_START, begin + header.size) == header.crc:
                        return begin
                if budget < 0:
                    return None
            at += max(1, len(block) - 6) if at + len(block) < size else len(block)  # six bytes are looked at behind a magic
        return None


def is_plausible(header: BatchHeader) -> bool:
    """Could these 61 bytes be a header at all? Saves a CRC over whatever they say is theirs."""
    return (
        header.base_offset >= 0
        and header.last_offset_delta >= 0
        and header.attributes & ~KNOWN_BITS == 0
        and 0 <= header.records_count <= header.last_offset_delta + 1
    )
