"""Finds entries in index files that are too large to be kept in memory: a GiB of small batches has 5 MiB of them.

A file is searched by its blocks of 512 entries, one read for each step, and the block with the answer is decoded as an index of
its own. The last one stays: who reads on finds what follows there, without a read.

Indexes carry no checksum, so what is decoded is checked, as where a whole file is loaded (log/index.py). That covers a wrong
entry which led there, too: a search ends between two entries that it looked at, the first of a block and the first of the next.
Both are decoded together with the entries beside them, and a wrong one does not ascend from the one before it, or to the next.

All methods raise CorruptIndex if the file is missing, empty, cut or wrong where it is needed, and OSError.
"""

from __future__ import annotations

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
    return _open(disk, path, _OFFSET_ENTRY).size > LOADED_ENTRIES * _OFFSET_ENTRY.size


class StoredOffsets:
    """The offset index of a segment with a log of `log_size` bytes, in its file."""

    __slots__ = ("_base_offset", "_block", "_disk", "_end", "_first", "_log_size", "_path")

    def __init__(self, disk: Disk, path: str, base_offset: int, log_size: int) -> None:
        self._disk = disk
        self._path = path
        self._base_offset = base_offset
        self._log_size = log_size
        self._block = OffsetIndex(base_offset, 0)
        self._first = self._end = base_offset  # which offsets the block answers for, from the first to below the end

    def lookup(self, offset: int) -> int:
        """Returns what OffsetIndex.lookup returns."""
        if not self._first <= offset < self._end:
            self._load_block_of(offset)
        return self._block.lookup(offset)

    def offset_at(self, position: int) -> int | None:
        """Returns what OffsetIndex.offset_at returns."""
        file = _open(self._disk, self._path, _OFFSET_ENTRY)
        number = _last_block(file, _OFFSET_ENTRY, lambda _, at: at < position)
        return self._decoded(file, number).offset_at(position)

    def _load_block_of(self, offset: int) -> None:
        file, relative = _open(self._disk, self._path, _OFFSET_ENTRY), offset - self._base_offset
        number = _last_block(file, _OFFSET_ENTRY, lambda last_offset, _: last_offset <= relative)
        block = self._decoded(file, number)
        offsets = [at for at, _ in block.entries()]
        self._block = block
        self._first = offsets[0] if number else min(self._base_offset, offset)
        self._end = offsets[-1] if number + 1 < _blocks(file, _OFFSET_ENTRY) else max(offsets[-1], offset) + 1

    def _decoded(self, file: File, number: int) -> OffsetIndex:
        index = OffsetIndex(self._base_offset, 0)
        index.decode(_block(file, number, _OFFSET_ENTRY.size), self._log_size)
        return index


class StoredTimes:
    """The time index of a segment, in its file."""

    __slots__ = ("_base_offset", "_disk", "_path")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self._disk = disk
        self._path = path
        self._base_offset = base_offset

    def lookup(self, timestamp: int) -> int:
        """Returns what TimeIndex.lookup returns."""
        file = _open(self._disk, self._path, _TIME_ENTRY)
        return self._decoded(file, _last_block(file, _TIME_ENTRY, lambda at, _: at < timestamp)).lookup(timestamp)

    def last(self) -> tuple[int, int]:
        """Returns what TimeIndex.last returns."""
        file = _open(self._disk, self._path, _TIME_ENTRY)
        return self._decoded(file, _blocks(file, _TIME_ENTRY) - 1).last()

    def _decoded(self, file: File, number: int) -> TimeIndex:
        index = TimeIndex(self._base_offset, 0)
        index.decode(_block(file, number, _TIME_ENTRY.size))
        return index


def _last_block(file: File, entry: Struct, precedes: Callable[[int, int], bool]) -> int:
    """Returns the number of the last block whose first entry precedes what is searched; 0 if there is none."""
    low, high = 0, _blocks(file, entry) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if precedes(*entry.unpack(_read(file, middle * BLOCK_ENTRIES * entry.size, entry.size))):
            low = middle
        else:
            high = middle - 1
    return low


def _blocks(file: File, entry: Struct) -> int:
    return -(-file.size // (entry.size * BLOCK_ENTRIES))


def _block(file: File, number: int, entry_size: int) -> bytes:
    """Returns a block with one entry before it and two behind it, as far as there are any."""
    start = max(number * BLOCK_ENTRIES - 1, 0) * entry_size
    end = min(((number + 1) * BLOCK_ENTRIES + 2) * entry_size, file.size)
    return _read(file, start, end - start)


def _read(file: File, position: int, length: int) -> bytes:
    data = file.pread(length, position)
    if len(data) != length:
        raise CorruptIndex("it became shorter")
    return data


def _open(disk: Disk, path: str, entry: Struct) -> File:
    try:
        file = disk.open(path)
    except FileNotFoundError:
        raise CorruptIndex("missing") from None
    if not file.size:
        raise CorruptIndex("empty")
    if file.size % entry.size:
        raise CorruptIndex(f"{file.size} bytes are not a whole number of entries")
    return file
