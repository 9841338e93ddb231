"""Checks one segment: its batches by themselves, and the index files beside it against the batches.

The indexes have no checksums (log/index.py and log/txn_index.py describe the formats), so each entry is compared with the batch
it points to while the walk passes that batch. Only the first wrong entry of an index is reported, since the whole index is
rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from ottla.commands.log.files import OFFSET_ENTRY, TIME_ENTRY, TXN_ENTRY, Entries
from ottla.commands.log.segment_walk import MAX_READ_BYTES, Batch, Gap, SegmentWalk
from ottla.log.index import MAX_RELATIVE_OFFSET, OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from ottla.log.markers import Marker, read_marker
from ottla.log.txn_index import TXN_ENTRY_SIZE
from ottla.wire.batch import HEADER_SIZE, BatchHeader
from ottla.wire.compression import TooLarge
from ottla.wire.frame import MALFORMED
from ottla.wire.records import iter_records

_MAX_MARKER_BYTES: Final = 4096
Wrong = tuple[int, str]
"""(position in the file, what is wrong there)"""


class OffsetIndexCheck:
    """Checks the entries of a `.index` while the batches pass, one after the other."""

    def __init__(self, data: bytes, base_offset: int) -> None:
        self._entries = Entries(OFFSET_ENTRY, whole_entries(data, OFFSET_ENTRY_SIZE))
        self._base_offset = base_offset
        self._next = 0
        self._last_offset = base_offset - 1
        self.wrong = torn_entry(data, OFFSET_ENTRY_SIZE)
        pairs = enumerate(pairwise(self._entries), 1)
        at = next((number for number, (before, entry) in pairs if entry[0] <= before[0]), None)
        if at is not None:
            self.wrong = at * OFFSET_ENTRY_SIZE, "its offsets are not in ascending order"

    def batch(self, position: int, header: BatchHeader) -> None:
        while self.wrong is None and self._next < len(self._entries) and self._entries[self._next][1] <= position:
            relative, points_to = self._entries[self._next]
            offset = self._base_offset + relative
            if points_to < position or offset < header.base_offset:
                self._refuse(f"offset {offset} is not at position {points_to} of the segment")
            self._next += 1
        self._last_offset = header.last_offset

    def end(self) -> None:
        if self.wrong is None and self._next < len(self._entries):
            self._refuse(f"it points to position {self._entries[self._next][1]} of the segment, where no batch begins")
        elif self.wrong is None and self._entries and self._base_offset + self._entries[-1][0] > self._last_offset:
            self._next = len(self._entries) - 1
            self._refuse(f"it ends at offset {self._base_offset + self._entries[-1][0]}, but the segment at {self._last_offset}")

    def _refuse(self, text: str) -> None:
        self.wrong = self._next * OFFSET_ENTRY_SIZE, text


class TimeIndexCheck:
    """Checks the entries of a `.timeindex`: each has the greatest timestamp so far and the last offset of the batch with it."""

    def __init__(self, data: bytes, base_offset: int) -> None:
        self._entries = Entries(TIME_ENTRY, whole_entries(data, TIME_ENTRY_SIZE))
        self._base_offset = base_offset
        self._next = 0
        self._greatest_ms = -1
        self.wrong = torn_entry(data, TIME_ENTRY_SIZE)

    def batch(self, header: BatchHeader) -> None:
        self._greatest_ms = max(self._greatest_ms, header.max_timestamp)
        while self.wrong is None and self._next < len(self._entries):
            timestamp_ms, relative = self._entries[self._next]
            if self._base_offset + relative > header.last_offset:
                return
            if timestamp_ms != self._greatest_ms:
                self._refuse(f"{timestamp_ms} is not the greatest timestamp up to offset {self._base_offset + relative}")
            self._next += 1

    def end(self, *, is_last: bool) -> None:
        """Finishes the check. Once a segment is inactive, its last entry has the greatest timestamp of the segment."""
        if self.wrong is not None:
            return
        if self._next < len(self._entries):
            self._refuse(f"offset {self._base_offset + self._entries[self._next][1]} is not in the segment")
        elif not is_last and self._greatest_ms >= 0 and (not self._entries or self._entries[-1][0] != self._greatest_ms):
            self._refuse(f"the segment's greatest timestamp, {self._greatest_ms}, is not in it")

    def _refuse(self, text: str) -> None:
        self.wrong = self._next * TIME_ENTRY_SIZE, text


class TxnIndexCheck:
    """Checks the entries of a `.txnindex` against the abort markers in the segment; `aborted` is called for each marker.

    In a compacted log, markers that the index still names may be gone, and the other way round. With `compacted`, only the order
    of the entries is checked.
    """

    def __init__(self, data: bytes, *, compacted: bool) -> None:
        self._entries = Entries(TXN_ENTRY, data)
        self._next = 0
        self._compacted = compacted
        self.wrong = torn_entry(data, TXN_ENTRY_SIZE)
        last = -1
        for number, (version, _, first_offset, last_offset, _) in enumerate(self._entries):
            if version != 0 or not 0 <= first_offset <= last_offset or last_offset <= last:
                self.wrong = self.wrong or (number * TXN_ENTRY_SIZE, "an impossible entry")
            last = last_offset

    def aborted(self, producer_id: int, first_offset: int | None, last_offset: int) -> None:
        """Compares an abort with the index. `first_offset` is None if the transaction began before the part that was walked."""
        if self.wrong is not None or self._compacted:
            return
        found = self._entries[self._next] if self._next < len(self._entries) else None
        if found is None or (found[1], found[3]) != (producer_id, last_offset) or first_offset not in (None, found[2]):
            text = f"the aborted transaction of producer {producer_id} that ends at offset {last_offset} is not in it"
            self.wrong = self._next * TXN_ENTRY_SIZE, text
        self._next += 1

    def end(self) -> None:
        if self.wrong is None and not self._compacted and self._next < len(self._entries):
            self.wrong = self._next * TXN_ENTRY_SIZE, f"no marker at offset {self._entries[self._next][3]} aborts a transaction"


def whole_entries(data: bytes, size: int) -> bytes:
    """Returns the data without a partial entry at the end, and without the zeros that Kafka puts at the end of an open index."""
    used = len(data.rstrip(b"\0"))
    return data[: min(len(data) // size, -(-used // size)) * size]


def torn_entry(data: bytes, size: int) -> Wrong | None:
    left = len(data) % size
    return (len(data) - left, f"{left} bytes that are not a whole entry") if left else None


class SegmentCheck:
    """One walk over the batches of one segment. `expected` is the lowest offset that the first batch may have.

    Afterwards `sound` holds the places of the batches as [(start, end)] in order, neighbours joined, and `damage` holds
    (position, offset expected there, reason) for each place between them. `torn`: nothing sound follows the first of these, which
    was proven. `unread` holds (position, reason) for each batch whose records were not all read because there are too many bytes.
    """

    def __init__(
        self, walk: SegmentWalk, base_offset: int, expected: int, *, deep: bool, on_batch: Callable[[Batch], None]
    ) -> None:
        self._walk = walk
        self._base_offset = base_offset
        self._deep = deep
        self._on_batch = on_batch
        self.expected = expected
        self.sound: list[tuple[int, int]] = []
        self.damage: list[tuple[int, int, str]] = []
        self.unread: list[tuple[int, str]] = []
        self._in_damage = False
        self._given_up = False

    @property
    def torn(self) -> bool:
        return bool(self.damage) and not self._given_up and (not self.sound or self.sound[-1][1] <= self.damage[0][0])

    def run(self) -> None:
        for found in self._walk:
            if isinstance(found, Gap):
                self._refuse(found.position, found.why)
                self._given_up = found.given_up
                continue
            why = self._why_not(found)
            if why is not None:
                self._refuse(found.position, why)
                continue
            if self.sound and self.sound[-1][1] == found.position:
                self.sound[-1] = self.sound[-1][0], found.end
            else:
                self.sound.append((found.position, found.end))
            self._in_damage = False
            self._on_batch(found)
            self.expected = found.header.next_offset

    def _refuse(self, position: int, why: str) -> None:
        if not self._in_damage:
            self.damage.append((position, self.expected, why))
        self._in_damage = True

    def _why_not(self, batch: Batch) -> str | None:
        header = batch.header
        offsets = f"offsets {header.base_offset} to {header.last_offset}"
        if not batch.is_sound:
            return f"{offsets}: CRC {header.crc:#010x} does not match the bytes, which give {batch.crc:#010x}"
        if header.base_offset < self.expected or header.last_offset_delta < 0:
            return f"{offsets} where {self.expected} or more is expected"
        if header.last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            return f"{offsets} are too far from the segment's base offset"
        return self._why_not_records(batch) if self._deep else None

    def _why_not_records(self, batch: Batch) -> str | None:
        header = batch.header
        offsets = f"offsets {header.base_offset} to {header.last_offset}"
        if header.size > MAX_READ_BYTES:
            self.unread.append((batch.position, f"{offsets}: the records of a batch of {header.size} bytes were not checked"))
            return None
        view = self._walk.window.view(batch.position, header.size)
        try:
            for _ in iter_records(view, MAX_READ_BYTES, MAX_READ_BYTES):
                pass  # it raises where anything is wrong, also the count
        except TooLarge as error:
            self.unread.append((batch.position, f"{offsets}: the records were not all checked: {error}"))
        except MALFORMED as error:
            return f"{offsets}: the records cannot be read: {error}"
        return None

    def marker_of(self, batch: Batch) -> Marker | None:
        """Returns the marker in a control batch; None if the batch does not end a transaction."""
        if not HEADER_SIZE <= batch.header.size <= _MAX_MARKER_BYTES:
            return None
        try:
            return read_marker(self._walk.window.view(batch.position, batch.header.size))
        except MALFORMED:
            return None


def holes(sound: list[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Yields the parts of a file of `size` bytes that no sound batch covers."""
    position = 0
    for start, end in sound:
        if start > position:
            yield position, start
        position = end
    if position < size:
        yield position, size
