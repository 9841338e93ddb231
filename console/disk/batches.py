"""A part of a segment, batch by batch, for a page: which batches are there, damaged or not, and what the indexes say of them.

The batches are those of `commands/log/segment_walk.py`. A page begins anywhere: the offset index says where a batch before it
begins, and if the bytes there agree, the walk begins there, else at the start of the file. So what a page shows depends on no
index, and a page near the end of a large segment takes no longer than one at its start, if the index is there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from ottla.commands.log.checks.segment import whole_entries
from ottla.commands.log.dump.schemas import Undecodable, control_fields
from ottla.commands.log.files import OFFSET_ENTRY, TIME_ENTRY, Entries, read_whole
from ottla.commands.log.segment_walk import Batch, Gap, SegmentWalk
from ottla.commands.output import Failure, counted
from ottla.log.disk.files import OsDisk, OsFile
from ottla.log.index import CorruptIndex
from ottla.log.opening.search import Window
from ottla.log.txn_index import AbortedTransaction, load_txn_index
from ottla.wire.batch import CRC_START, BatchHeader
from ottla.wire.frame import MALFORMED
from ottla.wire.records import iter_records

SIZE: Final = 100
"""The number of batches that a page shows: two hundred take more than 60 kB of page."""
WITHIN_S: Final = 4.0
"""The time for which a page looks for its first batch, where no index leads there, and reads on from it."""
_MAX_CONTROL_BYTES: Final = 4096
_MAX_TXN_INDEXES: Final = 50
_PLACES: Final = 20


class Indexes(NamedTuple):
    """The entries of a segment's `.index` and `.timeindex`, without the zeros that Kafka leaves at their end. Nothing says that
    they are right."""

    base_offset: int
    offsets: Entries
    times: Entries

    def positions(self, start: int, end: int) -> set[int]:
        """Returns the positions from `start` to below `end` that the offset index points to."""
        first = bisect_left(self.offsets, start, key=_position)
        last = bisect_left(self.offsets, end, key=_position)
        return {self.offsets[at][1] for at in range(first, min(last, first + 10 * SIZE))}

    def timed(self, header: BatchHeader) -> bool:
        """Returns whether an entry of the time index names an offset of this batch."""
        at = bisect_left(self.times, header.base_offset - self.base_offset, key=_time_offset)
        return at < len(self.times) and self.base_offset + self.times[at][1] <= header.last_offset

    def before(self, position: int, offset: int | None) -> Iterable[int]:
        """Yields where a batch at or before the position, or the offset, may begin, the last of them first."""
        if offset is None:
            found = bisect_right(self.offsets, position, key=_position)
        else:
            found = bisect_right(self.offsets, offset - self.base_offset, key=_relative)
        yield from (self.offsets[at - 1][1] for at in range(found, max(0, found - 2), -1))

    def places(self, size: int) -> list[tuple[int, int]]:
        """Returns (offset, position) of some entries, at even distances of bytes."""
        found: list[tuple[int, int]] = []
        for part in range(1, _PLACES):
            at = bisect_left(self.offsets, size * part // _PLACES, key=_position)
            if at < len(self.offsets) and (not found or self.offsets[at][1] > found[-1][1]):
                found.append((self.base_offset + self.offsets[at][0], self.offsets[at][1]))
        return found


def _relative(entry: tuple[int, ...]) -> int:
    return entry[0]


def _position(entry: tuple[int, ...]) -> int:
    return entry[1]


_time_offset = _position  # a timestamp stands before it


def read_indexes(log: Path, base_offset: int) -> Indexes:
    """Returns the indexes beside a segment, empty if they are not there or cannot be read."""
    return Indexes(
        base_offset,
        read_entries(log.with_suffix(".index"), OFFSET_ENTRY),
        read_entries(log.with_suffix(".timeindex"), TIME_ENTRY),
    )


def read_entries(path: Path, layout: Struct) -> Entries:
    """Returns the entries of an index, none if it is not there or cannot be read."""
    try:
        data = read_whole(path) or b""
    except (OSError, Failure):
        data = b""
    return Entries(layout, whole_entries(data, layout.size))


def aborted_in(log: Path, later: Sequence[Path], first: int, upto: int) -> list[AbortedTransaction]:
    """Returns the aborted transactions with records at the offsets from `first` to below `upto` of a segment, by its `.txnindex`
    and those of the segments after it: a transaction may end there."""
    found: list[AbortedTransaction] = []
    for path in (log, *later[:_MAX_TXN_INDEXES]):
        try:
            if load_txn_index(OsDisk(), str(path.with_suffix(".txnindex")), 0).collect(first, upto, found):
                break
        except (CorruptIndex, OSError):
            continue
    return found


@dataclass(slots=True)
class Row:
    """A batch, or if `header` is None a place without one. `why` says what is wrong; `missing` is how many offsets before it
    belong to no batch here; `control` names a control record."""

    position: int
    size: int
    header: BatchHeader | None = None
    crc: int | None = None
    why: str = ""
    missing: int = 0
    control: str = ""
    is_indexed: bool = False
    is_timed: bool = False
    is_aborted: bool = False

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def notes(self) -> str:
        """Returns in words what a reader would not see in the header's numbers."""
        header = self.header
        if header is None:
            return ""
        words = [f"{self.control} marker"] if self.control in {"ABORT", "COMMIT"} else [self.control] if self.control else []
        if header.is_transactional and not header.is_control:
            words.append("▲ aborted" if self.is_aborted else "transactional")
        if self.missing:
            words.append(f"{counted(self.missing, 'offset')} missing before it")
        if header.last_offset_delta + 1 > header.records_count:
            words.append(f"{header.records_count:,} of {header.last_offset_delta + 1:,} offsets")
        words += ["offset index"] if self.is_indexed else []
        words += ["time index"] if self.is_timed else []
        return ", ".join(words)


@dataclass(slots=True)
class Part:
    """Batches one after the other. `next` is the position after them, None at the file's end; `is_cut`: it took too long to find
    the first. If it takes too long after that, there are fewer of them."""

    rows: list[Row] = field(default_factory=list)
    next: int | None = None
    is_cut: bool = False
    next_offset: int | None = None

    @property
    def start(self) -> int:
        return self.rows[0].position if self.rows else 0

    @property
    def end(self) -> int:
        return self.rows[-1].end if self.rows else 0


def read_part(
    file: OsFile,
    indexes: Indexes,
    *,
    at: int = 0,
    offset: int | None = None,
    count: int = SIZE,
    clock: Callable[[], float],
) -> Part:
    """Returns the batches from the first on that begins at `at` or later or, if an offset is given, that reaches to it."""
    start = _begin(file, indexes, at, offset)
    walk = SegmentWalk(file, start=start)
    part = Part()
    expected = indexes.base_offset if start == 0 else None
    until = clock() + WITHIN_S
    for found in walk:
        size = file.size - found.position if isinstance(found, Gap) and found.following is None else 0
        if isinstance(found, Gap):
            row = Row(found.position, size or max(0, (found.following or 0) - found.position), why=found.why)
            is_before = found.position < at if offset is None else found.following is not None
        else:
            row = _row(walk.window, found, expected)
            is_before = found.position < at if offset is None else found.header.last_offset < offset
            if found.is_sound:
                expected = part.next_offset = found.header.next_offset
        if not part.rows and is_before:
            if clock() > until:
                part.is_cut = True
                return part
            continue
        if len(part.rows) == count or (part.rows and clock() > until):
            part.next = found.position
            break
        if row.header is not None:
            row.control = control_name(walk.window, found) if isinstance(found, Batch) else ""
            row.is_timed = indexes.timed(row.header)
        part.rows.append(row)
    if part.rows:
        positions = indexes.positions(part.start, part.end)
        for row in part.rows:
            row.is_indexed = row.position in positions
    return part


def _row(window: Window, batch: Batch, expected: int | None) -> Row:
    header = batch.header
    row = Row(batch.position, header.size, header, batch.crc)
    if not batch.is_sound:
        row.why = f"CRC {header.crc:#010x} does not match the bytes, which give {batch.crc:#010x}"
    elif expected is not None and header.base_offset < expected:
        row.why = f"offset {header.base_offset} where {expected} or more is expected"
    elif expected is not None:
        row.missing = header.base_offset - expected
    return row


def _begin(file: OsFile, indexes: Indexes, at: int, offset: int | None) -> int:
    """Returns a position at or before the wanted one where a sound batch begins, or 0."""
    window = Window(file)
    if at <= 0 and offset is None:
        return 0
    for position in indexes.before(at, offset):
        if 0 < position < file.size:
            header = window.header(position)
            if (
                isinstance(header, BatchHeader)
                and header.base_offset >= indexes.base_offset
                and window.crc(position + CRC_START, position + header.size) == header.crc
            ):
                return position
    return 0


def earlier(part: Part, indexes: Indexes) -> int:
    """Returns where a page before this one begins, as far as the index tells; else the file's start."""
    average = max(1, (part.end - part.start) // max(1, len(part.rows)))
    wanted = part.start - average * SIZE
    if wanted <= 0:
        return 0
    found = bisect_left(indexes.offsets, wanted, key=_position)
    position = indexes.offsets[found][1] if found < len(indexes.offsets) else 0
    return position if position < part.start else 0


def mark_aborted(rows: Iterable[Row], transactions: Sequence[AbortedTransaction]) -> None:
    """Notes which batches belong to one of the aborted transactions."""
    for row in rows:
        header = row.header
        row.is_aborted = (
            header is not None
            and header.is_transactional
            and not header.is_control
            and any(
                one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
                for one in transactions
            )
        )


def control_name(window: Window, batch: Batch) -> str:
    """Returns what a control batch says, such as COMMIT; "" for any other batch."""
    if not batch.header.is_control:
        return ""
    if not batch.is_sound or batch.header.size > _MAX_CONTROL_BYTES:
        return "control"
    try:
        for record in iter_records(window.view(batch.position, batch.header.size), _MAX_CONTROL_BYTES):
            return str(control_fields(record)["control"])
    except (*MALFORMED, Undecodable):
        pass
    return "control"
