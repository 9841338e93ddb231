"""log/stored_index.py: every answer is the one that the loaded index has, and how much is read for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.log.index import CorruptIndex, OffsetIndex, TimeIndex
from ottla.log.stored_index import BLOCK_ENTRIES, LOADED_ENTRIES, StoredOffsets, StoredTimes, is_large
from tests.memdisk import MemDisk

BASE = 1000
PATH = "/p/index"
COUNTS = 1, 2, BLOCK_ENTRIES - 1, BLOCK_ENTRIES, BLOCK_ENTRIES + 1, 2 * BLOCK_ENTRIES, 3 * BLOCK_ENTRIES + 7


@pytest.fixture
def disk() -> MemDisk:
    disk = MemDisk(lambda: 0)
    disk.makedirs("/p")
    return disk


def offsets_of(count: int) -> OffsetIndex:
    seeded, index = random.Random(count), OffsetIndex(BASE, 1 << 30)
    offset, position = BASE, 0
    for _ in range(count):
        offset += seeded.choice((1, 1, 2, 9))
        position += seeded.choice((1, 3, 50))
        index.append(offset, position)
    return index


def times_of(count: int) -> TimeIndex:
    seeded, index = random.Random(count), TimeIndex(BASE, 1 << 30)
    timestamp, offset = 10, BASE
    for _ in range(count):
        timestamp += seeded.choice((1, 2, 9))
        offset += seeded.choice((0, 1, 5))
        index.append_if_later(timestamp, offset)
    return index


@pytest.mark.parametrize("count", COUNTS)
def test_offsets_are_found_in_any_order(disk: MemDisk, count: int) -> None:
    index = offsets_of(count)
    log_size = index.last_position() + 1
    disk.write_bytes(PATH, index.encode())
    stored = StoredOffsets(disk, PATH, BASE, log_size)
    asked = list(range(BASE - 1, index.entries()[-1][0] + 3))
    for order in (asked, asked[::-1], random.Random(1).sample(asked, min(len(asked), 300))):
        assert [stored.lookup(offset) for offset in order] == [index.lookup(offset) for offset in order]
    entries = index.entries()
    at_edges = [position for number in range(0, count, BLOCK_ENTRIES) for _, position in entries[max(number - 1, 0) :][:3]]
    for position in {near + by for near in (0, *at_edges, log_size) for by in (-1, 0, 1)} - {-1}:
        assert stored.offset_at(position) == index.offset_at(position), position


@pytest.mark.parametrize("count", COUNTS)
def test_times_are_found(disk: MemDisk, count: int) -> None:
    index = times_of(count)
    disk.write_bytes(PATH, index.encode())
    stored = StoredTimes(disk, PATH, BASE)
    assert stored.last() == index.last()
    for timestamp in range(9, index.last()[0] + 2, 1 if count < 10 else 5):
        assert stored.lookup(timestamp) == index.lookup(timestamp), timestamp


def test_an_empty_file_is_none(disk: MemDisk) -> None:
    """A time index may be empty; who loads it finds out whether that is right."""
    disk.write_bytes(PATH, b"")
    with pytest.raises(CorruptIndex, match="empty"):
        StoredTimes(disk, PATH, BASE).last()
    with pytest.raises(CorruptIndex, match="empty"):
        StoredOffsets(disk, PATH, BASE, 1).lookup(BASE)


def test_who_reads_on_reads_no_index(disk: MemDisk) -> None:
    """A block answers from its first entry to the first of the next one, by offset and by position."""
    index = offsets_of(4 * BLOCK_ENTRIES)
    data, entries = index.encode(), index.entries()
    disk.write_bytes(PATH, data)
    stored = StoredOffsets(disk, PATH, BASE, index.last_position() + 1)
    inside, behind = entries[BLOCK_ENTRIES : 2 * BLOCK_ENTRIES], entries[2 * BLOCK_ENTRIES]
    loads: list[Callable[[], object]] = [lambda: stored.lookup(inside[0][0]), lambda: stored.offset_at(inside[0][1] + 1)]
    for load in loads:
        disk.write_bytes(PATH, data)
        load()
        disk.remove(PATH)
        for offset, position in inside:
            assert stored.lookup(offset) == position
            assert stored.offset_at(position + 1) == index.offset_at(position + 1)
        assert stored.offset_at(behind[1]) == behind[0]
        for outside in (inside[0][0] - 1, behind[0]):
            with pytest.raises(CorruptIndex, match="missing"):
                stored.lookup(outside)
        for outside in (inside[0][1], behind[1] + 1):
            with pytest.raises(CorruptIndex, match="missing"):
                stored.offset_at(outside)


def test_what_is_large(disk: MemDisk) -> None:
    for count, large in ((LOADED_ENTRIES, False), (LOADED_ENTRIES + 1, True)):
        disk.write_bytes(PATH, offsets_of(count).encode())
        assert is_large(disk, PATH) is large
    with pytest.raises(CorruptIndex, match="missing"):
        is_large(disk, "/p/none")


@pytest.mark.parametrize("wrong", [b"\0", b"\x7f", b"\xff"], ids=["zero", "large", "negative"])
@pytest.mark.parametrize("number", [1, 2, 511, 512, 513, 700, 1023, 1024, 1025, 1498])
def test_no_answer_is_wrong_because_of_a_wrong_entry(disk: MemDisk, number: int, wrong: bytes) -> None:
    """It is found out where it could make an answer wrong. (The first may be zero, the last large.)"""
    offsets, times = offsets_of(1500), times_of(1500)
    log_size = offsets.last_position() + 1
    for at in (0, 4):
        data = spoilt(offsets.encode(), number * 8 + at, wrong * 4)
        with pytest.raises(CorruptIndex):
            OffsetIndex(BASE, 0).decode(data, log_size)
        disk.write_bytes(PATH, data)
        for offset, position in around(number, offsets.entries()):
            stored = StoredOffsets(disk, PATH, BASE, log_size)
            with suppress(CorruptIndex):
                assert stored.lookup(offset) == position
            with suppress(CorruptIndex):
                assert stored.offset_at(position) == offsets.offset_at(position)
        with pytest.raises(CorruptIndex):
            StoredOffsets(disk, PATH, BASE, log_size).lookup(offsets.entries()[number][0])
        with pytest.raises(CorruptIndex):
            StoredOffsets(disk, PATH, BASE, log_size).offset_at(offsets.entries()[number][1])
    disk.write_bytes(PATH, spoilt(times.encode(), number * 12, wrong * 8))
    stored_times = StoredTimes(disk, PATH, BASE)
    for timestamp, _ in around(number, times.entries()):
        with suppress(CorruptIndex):
            assert stored_times.lookup(timestamp + 1) == times.lookup(timestamp + 1)
    with pytest.raises(CorruptIndex):
        stored_times.lookup(times.entries()[number][0])


def around(number: int, entries: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns some entries of each block, and all near the one with this number and near the edges of blocks."""
    near = [entry for at in (number, *range(0, 1500, BLOCK_ENTRIES)) for entry in entries[max(at - 4, 0) : at + 4]]
    return [*entries[::61], *near]


@pytest.mark.parametrize("number", range(15))
def test_nor_in_any_order(disk: MemDisk, number: int) -> None:
    """In blocks of four entries: whatever was asked before, an answer is right, or the file is found out. What can be loaded is
    as good as right."""
    index, draw, found_out = offsets_of(15), random.Random(number), 0
    entries, log_size = index.entries(), index.last_position() + 1
    values = [0, -1, 2**31 - 1, *(position for _, position in entries), *(offset - BASE for offset, _ in entries)]
    for value, field in ((value, field) for value in values for field in (0, 4)):
        data = spoilt(index.encode(), number * 8 + field, value.to_bytes(4, "big", signed=True))
        if is_taken(partial(OffsetIndex(BASE, 0).decode, data, log_size)):
            continue
        disk.write_bytes(PATH, data)
        stored = StoredOffsets(disk, PATH, BASE, log_size, block_entries=4)
        for _ in range(40):
            offset, position = draw.randrange(BASE - 1, entries[-1][0] + 2), draw.randrange(log_size + 1)
            try:
                assert stored.lookup(offset) == index.lookup(offset)
                assert stored.offset_at(position) == index.offset_at(position)
            except CorruptIndex:
                found_out += 1
    assert found_out


@pytest.mark.parametrize("number", range(15))
def test_times_in_small_blocks(disk: MemDisk, number: int) -> None:
    index = times_of(15)
    for value in (0, 5, 1 << 40, *(timestamp + 1 for timestamp, _ in index.entries())):
        data = spoilt(index.encode(), number * 12, value.to_bytes(8, "big"))
        if is_taken(partial(TimeIndex(BASE, 0).decode, data)):
            continue
        disk.write_bytes(PATH, data)
        stored = StoredTimes(disk, PATH, BASE, block_entries=4)
        for timestamp in range(9, index.last()[0] + 2):
            with suppress(CorruptIndex):
                assert stored.lookup(timestamp) == index.lookup(timestamp)


def is_taken(decode: Callable[[], None]) -> bool:
    try:
        decode()
    except CorruptIndex:
        return False
    return True


def spoilt(data: bytes, at: int, wrong: bytes) -> bytes:
    return data[:at] + wrong + data[at + len(wrong) :]


def test_an_entry_outside_the_log(disk: MemDisk) -> None:
    index = offsets_of(1500)
    disk.write_bytes(PATH, index.encode())
    stored = StoredOffsets(disk, PATH, BASE, index.last_position())
    assert stored.lookup(BASE) == index.lookup(BASE)
    with pytest.raises(CorruptIndex, match="outside"):
        stored.lookup(index.entries()[-1][0])


@pytest.mark.parametrize("rest", [1, 7])
def test_a_part_of_an_entry(disk: MemDisk, rest: int) -> None:
    disk.write_bytes(PATH, offsets_of(1500).encode() + bytes(rest))
    with pytest.raises(CorruptIndex, match="whole number"):
        StoredOffsets(disk, PATH, BASE, 1 << 20).lookup(BASE)
    disk.write_bytes(PATH, times_of(1500).encode() + bytes(rest))
    with pytest.raises(CorruptIndex, match="whole number"):
        StoredTimes(disk, PATH, BASE).last()


def test_a_file_that_becomes_shorter_while_it_is_read() -> None:
    data = offsets_of(2000).encode()
    file = SimpleNamespace(size=len(data) + 8, pread=lambda length, at: data[at : at + length])
    disk: Any = SimpleNamespace(open=lambda path: file)
    assert StoredOffsets(disk, PATH, BASE, 1 << 20).lookup(BASE) == offsets_of(2000).lookup(BASE)
    with pytest.raises(CorruptIndex, match="shorter"):
        StoredOffsets(disk, PATH, BASE, 1 << 20).lookup(BASE + (1 << 20))
