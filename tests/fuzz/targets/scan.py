"""A segment's file, read in windows of any size: an input is a few batches with damage between them.

- `check_batches` finds the same in small reads as in one, and stops at the first byte that is not part of a sound batch; what it
  learned leads to where the batches are (log/scan.py, wire/kernel.py).
- The walks from header to header, and from batch to batch, yield the same batches whatever the window; `find` finds for any
  offset what a walk finds.
- The search behind damage finds the first sound batch that there is (log/opening/search.py), in any window.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from ottla.log import scan
from ottla.log.errors import CorruptRecord
from ottla.log.opening.search import BatchSearch, SearchTooLong, Window, is_plausible
from ottla.log.scan import check_batches, find, only_zeros, walk, walk_batches, walk_headers
from ottla.wire.batch import HEADER_SIZE, MAGIC, check_crc, read_header, stamp
from ottla.wire.kernel import NEED_MORE, SCAN_REASONS, BatchScan
from ottla.wire.records import Record, build_batch
from tests.fuzz.draw import Draw, block
from tests.fuzz.sound import with_right_crc, with_right_length
from tests.memdisk import MemDisk, MemFile

_WINDOWS: Final = (61, 70, 128, 300, 4096)
_INTERVALS: Final = (0, 100, 1_000_000)
_MOST_PIECES: Final = 20
_LEARNED: Final = (
    "sound", "expected", "last_position", "last_offset", "last_epoch", "last_crc", "max_timestamp", "offset_of_max",
    "latest_epoch", "gaps", "entries", "times", "epochs", "producers",
)  # fmt: skip


def file_of(draw: Draw) -> bytes:
    """Returns the bytes of a file: blocks one after the other, most of which are given a right length and CRC."""
    pieces: list[bytes] = []
    while draw.left and len(pieces) < _MOST_PIECES:
        repairs = draw.byte()
        piece = draw.block()
        if not repairs & 1:
            piece = with_right_length(piece)
        pieces.append(piece if repairs & 2 else with_right_crc(piece))
    return b"".join(pieces)


def check(data: bytes) -> None:
    draw = Draw(data)
    base_offset = abs(draw.number(1)) * 3
    window = draw.one_of(_WINDOWS)
    interval = draw.one_of(_INTERVALS)
    content = file_of(draw)
    disk = MemDisk()
    disk.write_bytes("/segment", content)
    file = disk.open("/segment")
    assert isinstance(file, MemFile)
    _check_scan(file, base_offset, interval, window)
    _check_walks(file, window)
    _check_search(file, content, window)
    assert only_zeros(file, 0, len(content)) == (not content.strip(b"\0"))


def _check_scan(file: MemFile, base_offset: int, interval: int, window: int) -> None:
    whole, pieces = BatchScan(base_offset, interval, -1), BatchScan(base_offset, interval, -1)
    code = check_batches(file, file.size, whole, _ignored)
    with _reading(window):
        assert check_batches(file, file.size, pieces, _ignored) == code, "small reads end elsewhere"
    assert _state(whole) == _state(pieces), "small reads find something else"
    assert code == NEED_MORE or code in SCAN_REASONS
    assert (whole.sound == file.size) == (code == NEED_MORE)
    places = {}
    expected = base_offset
    for position, view in walk_batches(file, 0, whole.sound):
        header = read_header(view)
        assert check_crc(view, header)
        assert expected <= header.base_offset <= header.last_offset
        expected = header.next_offset
        places[position] = header
    assert expected == whole.expected, "the offset after the last batch is wrong"
    for last_offset, position in whole.entries:
        assert places[position].last_offset == last_offset, "an index entry leads elsewhere"
    for position, size, producer_id, _ in whole.producers:
        assert (places[position].size, places[position].producer_id) == (size, producer_id)


def _state(found: BatchScan) -> list[object]:
    return [getattr(found, name) for name in _LEARNED]


def _ignored(checked_bytes: int) -> None:
    """Nobody asks how far the check is."""


@contextlib.contextmanager
def _reading(size: int) -> Iterator[None]:
    """Lets `check_batches` read so many bytes at a time."""
    before, scan.CHECK_BYTES = scan.CHECK_BYTES, size  # type: ignore[misc]  # a constant for everybody else
    try:
        yield
    finally:
        scan.CHECK_BYTES = before  # type: ignore[misc]  # as above


def _walked(walk_all: Callable[[], Iterator[tuple[int, ...]]]) -> tuple[list[tuple[int, ...]], bool]:
    """Returns what a walk yields, and whether it reached the end."""
    found: list[tuple[int, ...]] = []
    try:
        found.extend(walk_all())
    except CorruptRecord:
        return found, False
    return found, True


def _places(file: MemFile, read_bytes: int) -> Iterator[tuple[int, int]]:
    return ((position, len(view)) for position, view in walk_batches(file, 0, file.size, read_bytes))


def _check_walks(file: MemFile, window: int) -> None:
    end = file.size
    expected = _walked(lambda: (each[:2] for each in walk_headers(file, 0, end)))
    assert _walked(lambda: (each[:2] for each in walk_headers(file, 0, end, window))) == expected
    for read_bytes in (window, scan.READ_BYTES):
        assert _walked(partial(_places, file, read_bytes)) == expected, f"reads of {read_bytes} bytes yield other batches"
    batches, whole = _walked(lambda: walk(file, 0, end))
    for _, _, base_offset, last_offset, _ in batches:
        for offset in (base_offset, last_offset, last_offset + 1):
            wanted = next((batch for batch in batches if batch[3] >= offset), None)
            try:
                assert find(file, 0, end, offset) == wanted, f"offset {offset} is found elsewhere"
            except CorruptRecord:
                assert wanted is None, f"offset {offset} is there"
                assert not whole


def _check_search(file: MemFile, content: bytes, window: int) -> None:
    expected = next((at for at in range(1, len(content)) if _is_sound(content, at)), None)
    try:
        found = BatchSearch(Window(file, window)).next_sound(1)
    except SearchTooLong:
        return
    assert found == expected, f"the next sound batch is at {expected}, and {found} was found"


def _is_sound(content: bytes, at: int) -> bool:
    if len(content) - at < HEADER_SIZE or content[at + 16] != MAGIC:
        return False
    header = read_header(content, at)
    return header.size >= HEADER_SIZE and is_plausible(header) and check_crc(content, header, at)


def seeds() -> Iterator[bytes]:
    records = [Record(0, 1_000 + at, b"k", b"value", []) for at in range(3)]
    batches = []
    for base_offset, fields in ((0, {}), (3, {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}), (6, {"codec": 1})):
        batch = build_batch(records, **fields)  # type: ignore[arg-type]  # each of them takes an int
        batches.append(stamp(read_header(batch), base_offset, 1) + batch[16:])
    one, two, three = (b"\0" + block(batch) for batch in batches)
    for number in range(len(_WINDOWS)):
        begin = bytes((0, number, number % len(_INTERVALS)))
        yield begin + one + two + three
        yield begin + one + b"\3" + block(batches[1][:-5]) + three
        yield begin + one + b"\3" + block(bytes(90)) + two
        yield begin + three + one
