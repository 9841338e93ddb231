"""Finds entries in index files that are too large to be kept in memory: a GiB of small batches has 5 MiB of them.

A file is searched by its blocks of 512 entries, one read for each step, and the block with the answer is decoded as an index of
its own. That of offsets stays: who reads on finds what follows there, without a read.

Indexes carry no checksum, so what is decoded is checked, as where a whole file is loaded (log/index.py). That covers one wrong
entry which led there, too: a search ends between two entries that it looked at, the first of a block and the first of the next.
Both are decoded together with the entries beside them, and a wrong one does not ascend from the one before it, or to the next.
A block answers only between those two, because what is beside them was compared on one side only.

All methods raise CorruptIndex if the file is missing, empty, cut or wrong where it is needed, and OSError.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from struct import Struct
from typing import Final

from ottla.log.disk.files import Disk, File
from ottla.log.index import CorruptIndex, OffsetIndex, TimeIndex

LOADED_ENTRIES: Final = 2048
"""Up to so many entries are loaded, which takes less than a millisecond."""
BLOCK_ENTRIES: Final = 512

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")


def is_large(disk: Disk, path: str) -> bool:
    """Returns whether an offset index is to be searched in its file. Raises CorruptIndex and OSError."""
    try:
        return disk.size(path) > LOADED_ENTRIES * _OFFSET_ENTRY.size
    except FileNotFoundError:
        raise CorruptIndex("missing") from None


class StoredOffsets:
    """The offset index of a segment with a log of `log_size` bytes, in its file."""

    __slots__ = ("_base_offset", "_block", "_end", "_entries", "_first", "_high", "_log_size", "_low")

    def __init__(self, disk: Disk, path: str, base_offset: int, log_size: int, block_entries: int = BLOCK_ENTRIES) -> None:
        self._entries = _Entries(disk, path, _OFFSET_ENTRY, block_entries)
        self._base_offset = base_offset
        self._log_size = log_size
        self._block = OffsetIndex(base_offset, 0)
        self._first = self._end = 0  # which offsets the block answers for: from the first to below the end
        self._low = self._high = 0  # and which positions: above the low one, up to the high one

    def lookup(self, offset: int) -> int:
        """Returns what OffsetIndex.lookup returns."""
        if not self._first <= offset < self._end:
            relative = offset - self._base_offset
            self._load(lambda last_offset, _: last_offset <= relative)
        return self._block.lookup(offset)

    def offset_at(self, position: int) -> int | None:
        """Returns what OffsetIndex.offset_at returns."""
        if not self._low < position <= self._high:
            self._load(lambda _, at: at < position)
        return self._block.offset_at(position)

    def _load(self, precedes: Callable[[int, int], bool]) -> None:
        data, first, next_first = self._entries.block(precedes)
        block = OffsetIndex(self._base_offset, 0)
        block.decode(data, self._log_size)
        entries = block.entries()
        self._block = block
        self._first, self._low = (-1, -1) if first is None else entries[first]
        self._end, self._high = (sys.maxsize, sys.maxsize) if next_first is None else entries[next_first]


class StoredTimes:
    """The time index of a segment, in its file."""

    __slots__ = ("_base_offset", "_entries")

    def __init__(self, disk: Disk, path: str, base_offset: int, block_entries: int = BLOCK_ENTRIES) -> None:
        self._entries = _Entries(disk, path, _TIME_ENTRY, block_entries)
        self._base_offset = base_offset

    def lookup(self, timestamp: int) -> int:
        """Returns what TimeIndex.lookup returns."""
        return self._block(lambda at, _: at < timestamp).lookup(timestamp)

    def last(self) -> tuple[int, int]:
        """Returns what TimeIndex.last returns."""
        return self._block(lambda _, __: True).last()

    def _block(self, precedes: Callable[[int, int], bool]) -> TimeIndex:
        index = TimeIndex(self._base_offset, 0)
        index.decode(self._entries.block(precedes)[0])
        return index


class _Entries:
    """The entries of a file, in blocks of `block_entries`. The file is open only while it is searched."""

    __slots__ = ("_block_entries", "_disk", "_entry", "_path")

    def __init__(self, disk: Disk, path: str, entry: Struct, block_entries: int) -> None:
        self._disk = disk
        self._path = path
        self._entry = entry
        self._block_entries = block_entries

    def block(self, precedes: Callable[[int, int], bool]) -> tuple[bytes, int | None, int | None]:
        """Returns the last block whose first entry precedes what is searched, or the first block: its entries with one before
        them and two behind them, as far as there are any, then which of these are the first of the block and the first of the
        next one; None for the first of the first block and for what follows the last one."""
        file, size, entries = self._open(), self._entry.size, self._block_entries
        count = file.size // size
        low, high = 0, (count - 1) // entries
        while low < high:
            middle = (low + high + 1) // 2
            if precedes(*self._entry.unpack(_read(file, middle * entries * size, size))):
                low = middle
            else:
                high = middle - 1
        before = 1 if low else 0
        start, end = low * entries - before, min((low + 1) * entries + 2, count)
        data = _read(file, start * size, (end - start) * size)
        return data, before or None, before + entries if (low + 1) * entries < count else None

    def _open(self) -> File:
        try:
            file = self._disk.open(self._path)
        except FileNotFoundError:
            raise CorruptIndex("missing") from None
        if not file.size:
            raise CorruptIndex("empty")
        if file.size % self._entry.size:
            raise CorruptIndex(f"{file.size} bytes are not a whole number of entries")
        return file


def _read(file: File, position: int, length: int) -> bytes:
    data = file.pread(length, position)
    if len(data) != length:
        raise CorruptIndex("it became shorter")
    return data
