"""The transaction index of a segment, `.txnindex`: the aborted transactions whose marker lies in the segment (KIP-98).

A reader that wants only committed records is told which transactions were aborted, and drops their records itself. An entry is 34
bytes: int16 version (0), int64 producer id, first offset, last offset (the marker's), and the last stable offset that the marker
left behind it. Entries ascend by last offset, as the markers were written.

A transaction may begin several segments before its marker, so a search for the transactions below `upto` goes on into later
segments. It may stop at the first entry whose last stable offset reaches `upto`: everything below was decided by then.

The file exists only if the segment ever had an entry; a missing file means "none". Like the other indexes it is kept in memory
while its segment grows, and is written when the segment becomes inactive or is closed. The file has no checksum, so what is
loaded is checked, and anything that cannot be right is `CorruptIndex`: `log.rebuild` then rebuilds the index from the log.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from ottla.log.disk.files import Disk, FileTooLarge
from ottla.log.index import CorruptIndex

TXN_ENTRY_SIZE: Final = 34
_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0
assert _ENTRY.size == TXN_ENTRY_SIZE


class AbortedTransaction(NamedTuple):
    """An entry of the index. `last_offset` is that of the abort marker; `last_stable_offset` is never beyond the offset after
    it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    """The entries of one segment, whose base offset is `base_offset`. A few arrays: an aborted transaction takes 32 bytes."""

    __slots__ = ("_first_offsets", "_last_offsets", "_producer_ids", "_stable_offsets", "base_offset", "changed")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.changed = False
        """True if the file does not have the same content."""
        self.clear()

    def __len__(self) -> int:
        return len(self._last_offsets)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        columns = zip(self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets, strict=True)
        return map(AbortedTransaction._make, columns)

    def clear(self) -> None:
        """Removes all entries."""
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._stable_offsets = array("q")

    def append(self, entry: AbortedTransaction) -> None:
        """Adds an entry; its last offset must be above the last one's."""
        assert not self._last_offsets or entry.last_offset > self._last_offsets[-1], (entry, self._last_offsets[-1])
        self._producer_ids.append(entry.producer_id)
        self._first_offsets.append(entry.first_offset)
        self._last_offsets.append(entry.last_offset)
        self._stable_offsets.append(entry.last_stable_offset)

    def collect(self, fetch_offset: int, upto: int, found: list[AbortedTransaction]) -> bool:
        """Adds to `found` the transactions that overlap the offsets from `fetch_offset` to below `upto`. Returns True if later
        segments can have no more of them."""
        for slot in range(bisect_left(self._last_offsets, fetch_offset), len(self._last_offsets)):
            first_offset, stable_offset = self._first_offsets[slot], self._stable_offsets[slot]
            if first_offset < upto:
                found.append(AbortedTransaction(self._producer_ids[slot], first_offset, self._last_offsets[slot], stable_offset))
            if stable_offset >= upto:
                return True
        return False

    def truncate_to(self, offset: int) -> bool:
        """Drops the entries whose marker lies at or above `offset`; returns whether there were any."""
        slot = bisect_left(self._last_offsets, offset)
        cut = slot < len(self._last_offsets)
        self.changed |= cut
        for column in (self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets):
            del column[slot:]
        return cut

    def write(self, disk: Disk, path: str) -> bool:
        """Writes the file, unsynced, if it must be; returns whether it was. One without entries is removed, since an empty one
        is taken for one that has lost them. Raises OSError."""
        due = self.changed and len(self) > 0
        if due:
            disk.write_bytes(path, self.encode(), sync=False)
        elif self.changed and disk.exists(path):
            disk.remove(path)
        self.changed = False
        return due

    def encode(self) -> bytes:
        """Returns the file's bytes."""
        pack = _ENTRY.pack
        return b"".join([pack(_VERSION, *entry) for entry in self])

    def decode(self, data: bytes) -> None:
        """Takes the entries of a file. Raises CorruptIndex if they cannot be right; then nothing is taken."""
        if len(data) % TXN_ENTRY_SIZE:
            raise CorruptIndex(f"{len(data)} bytes are not a whole number of entries")
        read = TxnIndex(self.base_offset)
        last = self.base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedTransaction._make(fields)
            if version != _VERSION:
                raise CorruptIndex(f"version {version} is not known, only {_VERSION}")
            if entry.last_offset <= last:
                raise CorruptIndex(f"{entry} is before the segment's start, or does not ascend")
            if not (entry.producer_id >= 0 <= entry.first_offset < entry.last_offset >= entry.last_stable_offset - 1):
                raise CorruptIndex(f"{entry} is impossible")
            last = entry.last_offset
            read.append(entry)
        self._producer_ids, self._first_offsets = read._producer_ids, read._first_offsets
        self._last_offsets, self._stable_offsets = read._last_offsets, read._stable_offsets


NO_ABORTS: Final = TxnIndex(0)
"""The index of all segments that have no entry, which are nearly all. It is never changed."""


def load_txn_index(disk: Disk, path: str, base_offset: int) -> TxnIndex:
    """Returns the index in a file, NO_ABORTS if there is none. Raises CorruptIndex if it cannot be right, and OSError."""
    try:
        data = disk.read_bytes(path)
    except FileNotFoundError:
        return NO_ABORTS
    except FileTooLarge:
        raise CorruptIndex("the file is too large") from None
    if not data:  # it was made for an entry, which a cut may have dropped or a power cut lost
        raise CorruptIndex("the file is empty")
    index = TxnIndex(base_offset)
    index.decode(data)
    return index
