"""The two sparse indexes of a segment, `.index` and `.timeindex`, in Kafka's format.

Offset index: entries of 8 bytes, (int32 offset relative to the segment's base, int32 position in `.log`), both ascending. An
entry names the *last* offset of an append and where that append starts; there is one after every `index.interval.bytes` of log.
Time index (KIP-33): entries of 12 bytes, (int64 timestamp, int32 relative offset): no record up to that offset is later than the
timestamp. One is added with each offset entry if the greatest timestamp grew, and one when the segment becomes inactive.

The entries live in arrays: `bisect` on an array is C speed, and the tens of kilobytes a busy segment needs are bounded by
`segment.index.bytes`. The files are written when a segment becomes inactive, is flushed or is closed, not at every entry: after
an unclean stop every index from the recovery point on is rebuilt from the log anyway, by ottla as by Kafka, and the hot path
saves two system calls. (Kafka maps 10 MiB of zeros and trims them later; it accepts a file of any multiple of the entry size.)

Indexes carry no checksum, so what is loaded is checked: sizes, order, positions inside the log. Anything wrong, Kafka's
preallocated zeros after a kill included, is `CorruptIndex`, and the owner rebuilds the index from the log.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice
from operator import le, lt
from typing import Final

from ottla.log.disk.files import Disk, FileTooLarge
from ottla.log.index_order import offsets_ascend, times_ascend
from ottla.wire.integers import COMPILED

OFFSET_ENTRY_SIZE: Final = 8
TIME_ENTRY_SIZE: Final = 12
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
NO_TIMESTAMP: Final = -1

_HIGH: Final = 1 if sys.byteorder == "little" else 0  # which half of an int64 in memory has the high bits


class CorruptIndex(Exception):
    """An index file cannot be right. This never leaves the log, because the index is rebuilt."""


def _ascending(values: array[int], strictly: bool) -> bool:
    """Returns whether the values ascend. log/index_order.py does that for whole entries in a tenth of the time, if compiled."""
    return all(map(lt if strictly else le, values, islice(values, 1, None)))


def _words(data: bytes) -> array[int]:
    """Returns the big-endian int32s in `data`."""
    words = array("i")
    words.frombytes(data)
    if sys.byteorder == "little":
        words.byteswap()
    return words


def _word_bytes(words: array[int]) -> bytes:
    """Returns int32s as big-endian bytes. `words` is used up."""
    if sys.byteorder == "little":
        words.byteswap()
    return words.tobytes()


class OffsetIndex:
    """Maps relative offsets to positions in the log. `max_bytes` is segment.index.bytes."""

    __slots__ = ("_offsets", "_positions", "base_offset", "max_entries")

    def __init__(self, base_offset: int, max_bytes: int) -> None:
        self.base_offset = base_offset
        self.max_entries = max_bytes // OFFSET_ENTRY_SIZE
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    def resize(self, max_bytes: int) -> None:
        """Takes a new segment.index.bytes. The entries that are there stay."""
        self.max_entries = max_bytes // OFFSET_ENTRY_SIZE

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self.max_entries

    @property
    def room(self) -> int:
        """Returns how many more entries fit."""
        return max(self.max_entries - len(self._offsets), 0)

    def append(self, offset: int, position: int) -> None:
        """Adds an entry; `offset` must be above the last one's."""
        relative = offset - self.base_offset
        assert not self._offsets or relative > self._offsets[-1], (offset, self.base_offset + self._offsets[-1])
        self._offsets.append(relative)
        self._positions.append(position)

    def extend(self, entries: Sequence[tuple[int, int]]) -> None:
        """Adds one (offset, position) after the other, as long as there is room; they must ascend."""
        base = self.base_offset
        entries = entries[: max(self.max_entries - len(self), 0)]
        self._offsets.extend([offset - base for offset, _ in entries])
        self._positions.extend([position for _, position in entries])

    def lookup(self, offset: int) -> int:
        """Returns the position of the last entry at or below `offset`; 0, the segment's start, if there is none."""
        slot = bisect_right(self._offsets, offset - self.base_offset)
        return self._positions[slot - 1] if slot else 0

    def offset_at(self, position: int) -> int | None:
        """Returns the offset of the first entry at or behind `position`, None if there is none: a read that ends there ends below
        that offset.

        Where the very first entry is at `position`, this returns the one after it, because Kafka's search does.
        """
        slot = bisect_left(self._positions, position)
        if slot == 0 and self._positions and self._positions[0] == position:
            slot = 1
        return self.base_offset + self._offsets[slot] if slot < len(self._offsets) else None

    def last_position(self) -> int:
        """Returns the position of the last entry, 0 if there is none: where a walk to the segment's end starts."""
        return self._positions[-1] if self._positions else 0

    def truncate_to(self, offset: int) -> None:
        """Drops entries at or above `offset`."""
        slot = bisect_left(self._offsets, offset - self.base_offset)
        del self._offsets[slot:]
        del self._positions[slot:]

    def entries(self) -> list[tuple[int, int]]:
        """Returns (absolute offset, position) of each entry."""
        return [
            (self.base_offset + relative, position) for relative, position in zip(self._offsets, self._positions, strict=True)
        ]

    def encode(self) -> bytes:
        """Returns the file's bytes."""
        both = array("i", bytes(OFFSET_ENTRY_SIZE * len(self._offsets)))
        both[0::2] = self._offsets
        both[1::2] = self._positions
        return _word_bytes(both)

    def decode(self, data: bytes, log_size: int) -> None:
        """Takes the entries of a file, for a log of `log_size` bytes. Raises CorruptIndex if they cannot be right; then nothing
        is taken.
        """
        if len(data) % OFFSET_ENTRY_SIZE:
            raise CorruptIndex(f"{len(data)} bytes are not a whole number of entries")
        both = _words(data)
        offsets, positions = both[0::2], both[1::2]
        if offsets and (offsets[0] < 0 or positions[0] < 0 or positions[-1] >= log_size):
            raise CorruptIndex(f"entries point outside a log of {log_size} bytes")
        if COMPILED:
            ascending = offsets_ascend(data)
        else:
            ascending = _ascending(offsets, strictly=True) and _ascending(positions, strictly=True)
        if not ascending:
            raise CorruptIndex("entries are not ascending")
        self._offsets, self._positions = offsets, positions


class TimeIndex:
    """Maps the greatest timestamp so far to a relative offset. `max_bytes` is segment.index.bytes."""

    __slots__ = ("_offsets", "_timestamps", "base_offset", "max_entries")

    def __init__(self, base_offset: int, max_bytes: int) -> None:
        self.base_offset = base_offset
        self.max_entries = max_bytes // TIME_ENTRY_SIZE
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._timestamps)

    def resize(self, max_bytes: int) -> None:
        """Takes a new segment.index.bytes. The entries that are there stay."""
        self.max_entries = max_bytes // TIME_ENTRY_SIZE

    @property
    def is_full(self) -> bool:
        """Returns whether the index is full, but for one place kept for the entry that a segment gets when it becomes
        inactive."""
        return len(self._timestamps) >= self.max_entries - 1

    @property
    def room(self) -> int:
        """Returns how many more entries fit, beside the last one of an inactive segment."""
        return max(self.max_entries - 1 - len(self._timestamps), 0)

    def append_if_later(self, timestamp: int, offset: int) -> None:
        """Adds an entry if `timestamp` (ms) is later than the last one's. `offset` never falls."""
        if timestamp > (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            relative = offset - self.base_offset
            assert not self._offsets or relative >= self._offsets[-1]
            self._timestamps.append(timestamp)
            self._offsets.append(relative)

    def extend(self, entries: Sequence[tuple[int, int]]) -> None:
        """Adds one (timestamp, offset) after the other, as long as there is room; timestamps must ascend."""
        base = self.base_offset
        entries = entries[: max(self.max_entries - 1 - len(self), 0)]
        self._timestamps.extend([timestamp for timestamp, _ in entries])
        self._offsets.extend([offset - base for _, offset in entries])

    def last(self) -> tuple[int, int]:
        """Returns (timestamp, absolute offset) of the last entry; (-1, base offset) if there is none."""
        if not self._timestamps:
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[-1], self.base_offset + self._offsets[-1]

    def lookup(self, timestamp: int) -> int:
        """Returns the offset up to which every record is earlier than `timestamp`: that of the last entry below it, or the base
        offset.

        An entry with an equal timestamp does not count, because the first record of that timestamp may lie at or before it.
        """
        slot = bisect_left(self._timestamps, timestamp)
        return self.base_offset + (self._offsets[slot - 1] if slot else 0)

    def truncate_to(self, offset: int) -> None:
        """Drops entries at or above `offset`."""
        slot = bisect_left(self._offsets, offset - self.base_offset)
        del self._offsets[slot:]
        del self._timestamps[slot:]

    def entries(self) -> list[tuple[int, int]]:
        """Returns (timestamp, absolute offset) of each entry."""
        return [(at, self.base_offset + relative) for at, relative in zip(self._timestamps, self._offsets, strict=True)]

    def encode(self) -> bytes:
        """Returns the file's bytes."""
        halves = array("i")
        halves.frombytes(self._timestamps.tobytes())
        words = array("i", bytes(TIME_ENTRY_SIZE * len(self._timestamps)))
        words[0::3], words[1::3] = halves[_HIGH::2], halves[1 - _HIGH :: 2]
        words[2::3] = self._offsets
        return _word_bytes(words)

    def decode(self, data: bytes) -> None:
        """Takes the entries of a file. Raises CorruptIndex if they cannot be right; then nothing is taken."""
        if len(data) % TIME_ENTRY_SIZE:
            raise CorruptIndex(f"{len(data)} bytes are not a whole number of entries")
        words = _words(data)
        halves = array("i", bytes(8 * (len(words) // 3)))
        halves[_HIGH::2], halves[1 - _HIGH :: 2] = words[0::3], words[1::3]
        timestamps, offsets = array("q"), words[2::3]
        timestamps.frombytes(halves.tobytes())
        if offsets and (offsets[0] < 0 or timestamps[0] < 0):
            raise CorruptIndex("an entry is negative")
        if COMPILED:
            ascending = times_ascend(data)
        else:
            ascending = _ascending(timestamps, strictly=True) and _ascending(offsets, strictly=False)
        if not ascending:
            raise CorruptIndex("entries are not ascending")
        self._timestamps, self._offsets = timestamps, offsets


def load_offset_index(disk: Disk, path: str, base_offset: int, max_bytes: int, log_size: int) -> OffsetIndex:
    """Returns the index in a file. Raises CorruptIndex if it is missing or wrong."""
    index = OffsetIndex(base_offset, max_bytes)
    try:
        index.decode(disk.read_bytes(path), log_size)
    except FileNotFoundError:
        raise CorruptIndex("missing") from None
    except FileTooLarge:
        raise CorruptIndex("too large") from None
    return index


def load_time_index(disk: Disk, path: str, base_offset: int, max_bytes: int) -> TimeIndex:
    """Returns the index in a file. Raises CorruptIndex if it is missing or wrong."""
    index = TimeIndex(base_offset, max_bytes)
    try:
        index.decode(disk.read_bytes(path))
    except FileNotFoundError:
        raise CorruptIndex("missing") from None
    except FileTooLarge:
        raise CorruptIndex("too large") from None
    return index
