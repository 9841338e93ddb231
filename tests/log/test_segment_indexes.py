"""log/segment_indexes.py: large indexes of a segment, which are searched in their files, and loaded by who appends."""

from __future__ import annotations

import pytest

from ottla.log.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from ottla.log.segment import Segment
from ottla.log.stored_index import BLOCK_ENTRIES, LOADED_ENTRIES
from ottla.wire.batch import HEADER_SIZE, read_header, stamp
from tests.log.one_segment import fill, segment
from tests.log.support import NOW_MS, batch
from tests.memdisk import MemDisk

LARGE = LOADED_ENTRIES + 3 * BLOCK_ENTRIES
ENTRY_SIZES = {"index": OFFSET_ENTRY_SIZE, "timeindex": TIME_ENTRY_SIZE}


@pytest.fixture
def disk() -> MemDisk:
    disk = MemDisk(lambda: NOW_MS)
    disk.makedirs("/p")
    return disk


def ended(disk: MemDisk) -> tuple[Segment, list[int]]:
    """A segment that has ended, of one batch an entry and 10 ms between two, and the positions of its batches."""
    made = segment(disk)
    made.index_interval_bytes = 1
    made.create_files()
    positions = fill(made, LARGE)
    end(made)
    return made, positions


def end(made: Segment) -> None:
    made.write_indexes(final=True)
    made.indexes.release_large()


@pytest.fixture(scope="module")
def large_disk() -> MemDisk:
    """A disk with such a segment."""
    disk = MemDisk(lambda: NOW_MS)
    disk.makedirs("/p")
    ended(disk)
    return disk


@pytest.fixture
def large(large_disk: MemDisk) -> Segment:
    made = segment(large_disk, size=large_disk.size("/p/00000000000000000100.log"))
    made.index_interval_bytes = 1
    return made


def test_large_indexes_find_what_loaded_ones_find(large_disk: MemDisk, large: Segment) -> None:
    loaded = segment(large_disk, size=large.size)
    assert len(loaded.offset_index) == LARGE - 1
    for offset in (99, 100, 101, 102, *range(103, 100 + LARGE, 211), 99 + LARGE, 100 + LARGE):
        assert large.locate(offset) == loaded.locate(offset)
        assert large.position_of(offset) == loaded.offset_index.lookup(offset)
        position = loaded.offset_index.lookup(offset)
        assert large.offset_at(position) == loaded.offset_index.offset_at(position)
        timestamp = NOW_MS + (offset - 100) * 10
        assert large.offset_before(timestamp) == loaded.time_index.lookup(timestamp)
    assert large.max_timestamp == loaded.max_timestamp == NOW_MS + (LARGE - 1) * 10
    assert (large.indexes.offsets, large.indexes.times) == (None, None)


def test_what_was_loaded_goes_when_the_segment_has_ended(large: Segment) -> None:
    assert len(large.offset_index) == LARGE - 1
    large.indexes.release_large()
    assert (large.indexes.offsets, large.indexes.times) == (None, None)
    large.offset_index.truncate_to(100 + LOADED_ENTRIES + 2)
    large.indexes.release_large()
    assert large.indexes.offsets is None
    large.offset_index.truncate_to(100 + LOADED_ENTRIES + 1)
    large.indexes.release_large()
    assert large.indexes.offsets is not None  # it is small


def test_what_is_not_on_disk_stays(large: Segment) -> None:
    loaded = large.offset_index
    large.indexes.are_dirty = True
    large.indexes.release_large()
    assert large.offset_index is loaded


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", [None, 0, 1, 8 * LOADED_ENTRIES])
@pytest.mark.parametrize("in_use", [False, True])
@pytest.mark.parametrize("first", ["offset", "time", "greatest time"])
def test_a_bad_large_index_is_rebuilt(
    large: Segment, suffix: str, damage: int | None, large_disk: MemDisk, in_use: bool, first: str
) -> None:
    """At its first use, or while it is in use: it is missing, empty, spoiled at the entry that is searched, cut."""
    path = f"/p/00000000000000000100.{suffix}"
    whole = large_disk.read_bytes(path)
    entry = ENTRY_SIZES[suffix]
    spoilt = {0: b"", 1: whole[: 2000 * entry] + b"\x7f" + whole[2000 * entry + 1 :]}
    if in_use:
        assert large.locate(101) is not None
    try:
        if damage is None:
            large_disk.remove(path)
        else:
            large_disk.write_bytes(path, spoilt.get(damage, whole[: damage + 3]))
        if first == "time":
            assert large.offset_before(NOW_MS + 20_000) == 100 + 1999
        elif first == "greatest time":
            assert large.max_timestamp == NOW_MS + (LARGE - 1) * 10
        found = large.locate(100 + 2000)
        assert found is not None
        assert found.base_offset == 100 + 2000
        assert large.offset_before(NOW_MS + 20_000) == 100 + 1999
        assert large.max_timestamp == NOW_MS + (LARGE - 1) * 10
        if (suffix, damage) != ("index", 0):  # one without entries leads to the beginning of the segment, which is right
            assert large.indexes.are_dirty  # it was rebuilt
            assert len(large.offset_index) == LARGE - 1
    finally:
        large_disk.write_bytes(path, whole)
        large.close()


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("wrong", [b"\x7f", bytes(4096)], ids=["an entry", "a page of zeros"])
def test_an_append_rebuilds_a_bad_large_index(disk: MemDisk, suffix: str, wrong: bytes) -> None:
    made, _ = ended(disk)
    path, at = f"/p/00000000000000000100.{suffix}", 2000 * ENTRY_SIZES[suffix]
    whole = disk.read_bytes(path)
    disk.write_bytes(path, whole[:at] + wrong + whole[at + len(wrong) :])
    fill(made, 1, start=100 + LARGE)
    assert (made.offset_index if suffix == "index" else made.time_index).encode()[: len(whole)] == whole


def test_a_time_index_that_is_rightly_empty_is_no_reason_to_rebuild(disk: MemDisk) -> None:
    made = without_times(disk)
    again = segment(disk, size=made.size)
    assert again.position_of(50 + LARGE) == made.position_of(50 + LARGE)
    assert again.offset_before(NOW_MS) == 100
    assert not again.indexes.are_dirty
    again.indexes.release()
    assert again.indexes.offsets is None


def test_a_cut_loads_what_it_cuts_before_the_log_is_shorter(disk: MemDisk) -> None:
    """The entries behind the cut would be wrong then, and the whole segment be walked for others."""
    made, _ = ended(disk)
    log = "/p/00000000000000000100.log"
    disk.write_bytes(log, b"\xff" * HEADER_SIZE + disk.read_bytes(log)[HEADER_SIZE:])  # a walk from the beginning would end here
    made.truncate_to(90 + LARGE)
    assert len(made.offset_index) == LARGE - 11
    assert fill(made, 2, start=90 + LARGE)


def test_a_cut_ends_the_search_in_files(disk: MemDisk) -> None:
    made, positions = ended(disk)
    assert made.position_of(98 + LARGE) == positions[-2]
    made.truncate_to(90 + LARGE)
    assert made.position_of(98 + LARGE) == positions[-11]
    assert made.locate(90 + LARGE) is None
    assert fill(made, 2, start=90 + LARGE) == positions[-10:-8]
    assert made.position_of(98 + LARGE) == positions[-9]


def without_times(disk: MemDisk) -> Segment:
    """A large segment of records without timestamps, which has ended."""
    made = segment(disk)
    made.index_interval_bytes = 1
    made.create_files()
    for offset in range(100, 100 + LARGE):
        data = batch(timestamp_ms=-1)
        made.append([stamp(read_header(data), offset, 0), data[16:]], len(data), offset, -1)
    made.write_indexes(final=True)
    return made


def test_what_is_searched_is_what_was_written_last(disk: MemDisk) -> None:
    made, positions = ended(disk)
    assert made.position_of(98 + LARGE) == positions[-2]  # from a block that is kept
    made.truncate_to(90 + LARGE)
    fill(made, 4, start=96 + LARGE)
    end(made)
    assert made.position_of(98 + LARGE) == positions[-8]


def test_renamed_files_are_searched(disk: MemDisk) -> None:
    made, positions = ended(disk)
    assert made.position_of(101) == positions[1]
    made.rename_files(".swap")
    assert made.position_of(98 + LARGE) == positions[-2]
    assert made.indexes.offsets is None  # nothing was loaded, nor rebuilt


def test_large_indexes_of_records_without_time(disk: MemDisk) -> None:
    made = without_times(disk)
    again = segment(disk, size=made.size)
    assert again.max_timestamp == -1
    assert again.locate(50 + LARGE) == made.locate(50 + LARGE)
