"""A walk over a segment, whatever its bytes: its batches, sound or not, and the gaps where there is no batch. In bounded memory.

A segment is record batches back to back (wire/batch.py). The walk reads one header after the other through a window of one MiB,
and computes the CRC of a larger batch piece by piece, so that no length is trusted before it is proven.

Where there is no whole batch, the walk searches for the next sound one (log/opening/search.py). If there is one, the bytes
between are corrupt, and the walk continues after them. If there is none, the file is torn: that is how a crash leaves the end of
a segment, and recovery cuts it off. If the search is given up, the walk ends, and it stays open which of the two it is. `ottla
log dump`, `verify` and `repair` are all based on this walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ottla.commands.log.files import open_to_read
from ottla.log.disk.files import File
from ottla.log.opening.search import BatchSearch, SearchTooLong, Window
from ottla.wire.batch import CRC_START, BatchHeader

MAX_READ_BYTES: Final = 128 * 1024 * 1024
"""The records of batches that are larger, compressed or not, are not read to their end. It is twice what a broker takes by
default, so only another's can be. Records go by in pieces, so the bound is for the time and for the largest record."""


class Batch(NamedTuple):
    """A whole batch, judging by its header. `crc` is computed from its bytes."""

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
    """A `position` without a whole batch, and `why`. `following` is the position of the next sound batch; None if there is none
    or if the search for it was given up."""

    position: int
    following: int | None
    why: str
    given_up: bool = False


class SegmentWalk:
    """One walk over one segment. `advance` is called with the number of bytes just passed. `start` is where to begin: at a batch,
    as an index has it."""

    def __init__(self, file: File, advance: Callable[[int], object] = int, *, start: int = 0) -> None:
        self.window = Window(file)
        self.advance = advance
        self.start = start
        self._search = BatchSearch(self.window)

    def __iter__(self) -> Iterator[Batch | Gap]:
        position, size = self.start, self.window.size
        suspect: int | None = None  # start of the previous batch if its CRC was wrong: then its length may be wrong, too
        while position < size:
            header = self.window.header(position)
            if isinstance(header, str):
                try:
                    following = self._search.next_sound(1 + (position if suspect is None else suspect))
                except SearchTooLong:
                    yield Gap(position, None, f"{header}; the search for a sound batch after it takes too long", given_up=True)
                    return
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

    def _reason(self, position: int, following: int | None, why: str) -> str:
        if following is not None:
            return f"{why}; the next sound batch is at position {following}"
        left = self.window.size - position
        if self.window.is_zero(position):
            return f"{left} bytes of zeros to the end, never written or lost in a crash"
        return f"{why}; nothing sound in the last {left} bytes"


def first_damage(path: Path) -> tuple[int, str] | None:
    """Returns the position of the first damage in a file of batches, and what it is; None if all are sound."""
    for found in SegmentWalk(open_to_read(path)):
        if isinstance(found, Gap):
            return found.position, found.why
        if not found.is_sound:
            return found.position, "a CRC does not match"
    return None
