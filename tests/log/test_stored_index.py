"""log/stored_index.py: every answer is the one that the loaded index has, and how much is read for it."""

from __future__ import annotations

import random
from contextlib import suppress

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
    """A block answers from the entry before it to the second one behind it."""
    index = offsets_of(4 * BLOCK_ENTRIES)
    disk.write_bytes(PATH, index.encode())
    stored = StoredOffsets(disk, PATH, BASE, index.last_position() + 1)
    entries = index.entries()
    stored.lookup(entries[BLOCK_ENTRIES][0])
    disk.remove(PATH)
    for offset, position in entries[BLOCK_ENTRIES - 1 : 2 * BLOCK_ENTRIES + 1]:
        assert stored.lookup(offset) == position
    for outside in (entries[BLOCK_ENTRIES - 2], entries[2 * BLOCK_ENTRIES + 1]):
        with pytest.raises(CorruptIndex, match="missing"):
            stored.lookup(outside[0])


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


def test_a_file_that_became_shorter(disk: MemDisk) -> None:
    index = offsets_of(2000)
    disk.write_bytes(PATH, index.encode())
    stored = StoredOffsets(disk, PATH, BASE, index.last_position() + 1)
    disk.write_bytes(PATH, index.encode()[: 3 * 8 * BLOCK_ENTRIES + 4])
    with pytest.raises(CorruptIndex):
        stored.lookup(index.entries()[-1][0])
