"""The segments of one partition, in ascending order: finding the one that holds an offset, and reading from it.

A read returns a `FileSlice`: the place of the bytes, not the bytes. Finding it costs a bisect over base offsets, one in the
offset index and a walk over the headers of at most one index interval. Consumers that read to the end come back for exactly the
offset where their last slice ended, so that place is remembered and no walk is needed.

Limits are Kafka's (docs/kafka-behaviour.md, rows F11 to F13): the slice ends at `max_bytes` wherever that falls, inside a batch
too, and the client drops the torn rest. If the first batch alone is larger it comes whole, or a consumer would never get past it.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from ottla.log.disk.files import FileSlice
from ottla.log.errors import CorruptRecord
from ottla.log.names import LOG_SUFFIX
from ottla.log.scan import OVERHEAD, walk_batches
from ottla.log.segment import Segment
from ottla.wire.batch import check_crc, read_header

_MAX_HINTS: Final = 64
_LENGTH: Final = struct.Struct(">i")


class Segments:
    """The segments of a log, of which there is at least one; the last is the active one."""

    __slots__ = ("_all", "_bases", "_ended_bytes", "_hints", "active")

    def __init__(self, segments: list[Segment]) -> None:
        assert segments
        self._all = segments
        self._bases = [segment.base_offset for segment in segments]
        assert self._bases == sorted(set(self._bases))
        self._hints: dict[int, int] = {}  # offset -> where its batch starts, in the active segment
        self.active = segments[-1]
        self._ended_bytes = _sizes(segments[:-1])
        """The size of all segments but the active one, which alone changes its size."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    def __getitem__(self, index: int) -> Segment:
        return self._all[index]

    @property
    def first(self) -> Segment:
        return self._all[0]

    def size_bytes(self) -> int:
        return self._ended_bytes + self.active.size

    def floor(self, offset: int) -> int:
        """Returns the index of the segment whose range holds `offset`: the last that starts at or before it, or the first if none
        does."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def between(self, first: int, upto: int) -> list[Segment]:
        """Returns the segments from index `first` on that start below offset `upto`."""
        return [segment for segment in self._all[first:] if segment.base_offset < upto]

    def add(self, segment: Segment) -> None:
        """Adds a new active segment, which must begin above all others."""
        assert segment.base_offset > self._bases[-1]
        self._all.append(segment)
        self._bases.append(segment.base_offset)
        self._ended_bytes += self.active.size
        self.active = segment
        self._hints.clear()

    def drop_first(self, count: int) -> list[Segment]:
        """Takes out the oldest `count` segments and returns them; at least one must stay."""
        assert 0 <= count < len(self._all)
        dropped = self._all[:count]
        del self._all[:count], self._bases[:count]
        self._ended_bytes -= _sizes(dropped)
        return dropped

    def drop_after(self, index: int) -> list[Segment]:
        """Takes out all segments after `index` and returns them; the segment at `index` becomes active."""
        dropped = self._all[index + 1 :]
        del self._all[index + 1 :], self._bases[index + 1 :]
        self.active = self._all[-1]
        self._ended_bytes = _sizes(self._all[:-1])
        self._hints.clear()
        return dropped

    def replace_all(self, segment: Segment) -> list[Segment]:
        """Replaces all segments by a new one; returns the old ones."""
        dropped = self._all
        self._all, self._bases, self.active, self._ended_bytes = [segment], [segment.base_offset], segment, 0
        self._hints.clear()
        return dropped

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Replaces several neighbours, none of which is the active segment, by one that begins where the first of them does."""
        first = self.floor(new.base_offset)
        assert self._all[first : first + len(old)] == old
        assert self.active not in old
        self._all[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]
        self._ended_bytes += new.size - _sizes(old)

    def forget_hints(self) -> None:
        """Forgets the remembered places, after the active segment was cut."""
        self._hints.clear()

    # Reading

    def read(self, offset: int, max_bytes: int, upto: int, end_offset: int, min_one_batch: bool) -> FileSlice | None:
        """Returns the slice from the batch that holds `offset`, cut at `max_bytes` and never past the batch that ends before
        `upto`; None if nothing may be read.

        `end_offset` is the log's end. With `min_one_batch` the first batch comes whole even if it is larger than `max_bytes`;
        without it such a batch gives None, because no client could use a piece. Raises CorruptRecord if the log cannot be walked,
        and OSError.
        """
        if offset >= upto:
            return None
        if offset >= self.active.base_offset and upto == end_offset:  # the tail, where most reads are
            segment = self.active
            start = self._hints.get(offset, -1)
            if start < 0:
                start = self._position(segment, offset)
            end = segment.size
            self._remember(upto, end)
        else:
            found = self._find(offset)
            if found is None:
                return None
            index, start = found
            segment, end = self._all[index], self._end(index, upto)
        length = end - start
        if start < 0 or length <= 0:
            return None
        file = segment.file or segment.open_file()
        if length > max_bytes:
            length = max_bytes
            first = _LENGTH.unpack(file.pread(4, start + 8))[0] + OVERHEAD
            if first > length:
                if not min_one_batch:
                    return None
                length = first
        return FileSlice(file, start, length)

    def _remember(self, offset: int, position: int) -> None:
        hints = self._hints
        if len(hints) >= _MAX_HINTS:
            del hints[next(iter(hints))]
        hints[offset] = position

    def _position(self, segment: Segment, offset: int) -> int:
        batch = segment.locate(offset)
        return batch.position if batch is not None else -1

    def _find(self, offset: int) -> tuple[int, int] | None:
        """Returns (segment index, position) of the batch that holds `offset`, or, where compaction left a gap, of the next
        one."""
        for index in range(self.floor(offset), len(self._all)):
            position = self._position(self._all[index], offset)
            if position >= 0:
                return index, position
        return None

    def _end(self, index: int, upto: int) -> int:
        """Returns the position in the segment at `index` at which reading up to offset `upto` ends."""
        segment = self._all[index]
        if index + 1 < len(self._all) and upto >= self._all[index + 1].base_offset:
            return segment.size
        position = self._hints.get(upto, -1) if segment is self.active else -1
        if position < 0:
            position = self._position(segment, upto)
        return segment.size if position < 0 else position

    def batches(self, from_offset: int, upto: int) -> Iterator[memoryview]:
        """Yields whole batches from the one that holds `from_offset`, while they start before `upto`, as they are on disk.

        Raises CorruptRecord at a batch whose CRC does not fit its bytes, or whose offsets, which the CRC does not cover, do not
        come after those before it. The message names the file, the position and the offset.
        """
        place = (0, 0) if from_offset <= self.first.base_offset else self._find(from_offset)
        expected = -1
        while place is not None:
            segment, start = self._all[place[0]], place[1]
            expected = max(expected, segment.base_offset)
            for position, batch in walk_batches(segment.file or segment.open_file(), start, segment.size):
                header = read_header(batch)
                if header.base_offset == upto:  # appended since
                    return
                if not check_crc(batch, header):
                    raise CorruptRecord(_damaged(segment, position, header.base_offset, "its CRC does not fit its bytes"))
                if not expected <= header.base_offset < upto or header.last_offset_delta < 0:
                    reason = f"it says that it has the offsets {header.base_offset} to {header.last_offset}"
                    raise CorruptRecord(_damaged(segment, position, expected, reason))
                yield batch
                expected = header.next_offset
            place = self._after(segment, expected)

    def _after(self, segment: Segment, expected: int) -> tuple[int, int] | None:
        """Returns where reading goes on, as `_find` does, when all of `segment` is read and offset `expected` comes next. While
        the caller paused, compaction may have replaced segments, and retention may have dropped some.
        """
        index = bisect_right(self._bases, segment.base_offset)
        if index == 0 or self._all[index - 1] is not segment:
            return self._find(expected)
        return (index, 0) if index < len(self._all) else None


def _sizes(segments: list[Segment]) -> int:
    return sum(segment.size for segment in segments)


def _damaged(segment: Segment, position: int, offset: int, reason: str) -> str:
    return f"{segment.path(LOG_SUFFIX)} is damaged at position {position} (offset {offset}): {reason}"
