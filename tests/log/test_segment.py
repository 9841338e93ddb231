"""log/segment.py: what an append leaves behind, on success and on failure, and finding it again with good and bad indexes."""

from __future__ import annotations

import errno

import pytest

from ottla.log.disk.files import FileSlice, OpenFiles
from ottla.log.errors import CorruptRecord
from ottla.log.segment import Segment
from ottla.log.stored_index import BLOCK_ENTRIES, LOADED_ENTRIES
from ottla.wire.batch import HEADER_SIZE, read_header, stamp
from tests.log.support import NOW_MS, batch, last_time_entry
from tests.memdisk import MemDisk

INTERVAL = 400


def segment(disk: MemDisk, *, base: int = 100, size: int = 0, limit: int = 8, index_bytes: int = 1 << 20) -> Segment:
    return Segment(
        disk,
        "/p",
        base,
        size=size,
        open_files=OpenFiles(limit),
        index_bytes=index_bytes,
        index_interval_bytes=INTERVAL,
        now_ms=NOW_MS,
    )


@pytest.fixture
def disk() -> MemDisk:
    disk = MemDisk(lambda: NOW_MS)
    disk.makedirs("/p")
    return disk


def fill(target: Segment, count: int, *, start: int = 100, step_ms: int = 10) -> list[int]:
    """One-record batches; returns their positions."""
    positions = []
    for offset in range(start, start + count):
        timestamp = NOW_MS + (offset - 100) * step_ms
        data = batch(timestamp_ms=timestamp)
        data = stamp(read_header(data), offset, 0) + data[16:]
        positions.append(target.append([data[:20], data[20:]], len(data), offset, timestamp))
    return positions


@pytest.fixture
def filled(disk: MemDisk) -> Segment:
    made = segment(disk)
    made.create_files()
    fill(made, 20)
    return made


def reopened(disk: MemDisk, old: Segment) -> Segment:
    old.write_indexes(final=True)
    size = old.size
    old.close()
    return segment(disk, size=size)


def test_files_are_named_as_kafkas(disk: MemDisk, filled: Segment) -> None:
    assert disk.list("/p") == [f"00000000000000000100{suffix}" for suffix in (".index", ".log", ".timeindex")]


def test_an_entry_follows_every_interval(disk: MemDisk, filled: Segment) -> None:
    size = filled.size // 20
    every = INTERVAL // size + 1
    expected = [(offset, (offset - 100) * size) for offset in range(100 + every, 120, every)]
    assert filled.offset_index.entries() == expected
    assert filled.time_index.entries() == [(NOW_MS + (offset - 100) * 10, offset) for offset, _ in expected]
    again = reopened(disk, filled)
    assert again.offset_index.entries() == expected
    assert again.time_index.last() == (NOW_MS + 190, 119)  # the last one, as the segment ended


def test_locating(disk: MemDisk, filled: Segment) -> None:
    size = filled.size // 20
    for target in (filled, reopened(disk, filled)):
        for offset in range(100, 120):
            found = target.locate(offset)
            assert found is not None
            assert (found.position, found.base_offset) == ((offset - 100) * size, offset)
        assert target.locate(120) is None
        assert target.locate(0) == target.locate(100)
        assert target.next_offset() == 120
        assert last_time_entry(target) == (NOW_MS + 190, 119)
        assert target.waited_ms(0, NOW_MS + 50) == 50


@pytest.mark.parametrize(
    "damage",
    [b"", b"x" * 7, b"\xff" * 80, bytes(800), (3).to_bytes(4, "big") + (7).to_bytes(4, "big"), None],
    ids=["empty", "cut", "noise", "zeros", "plausible and wrong", "missing"],
)
def test_a_bad_index_is_rebuilt(disk: MemDisk, filled: Segment, damage: bytes | None) -> None:
    good = filled.offset_index.entries()
    again = reopened(disk, filled)
    if damage is None:
        disk.remove(again.path(".index"))
    else:
        disk.write_bytes(again.path(".index"), damage)
    for offset in (119, 104, 100):
        found = again.locate(offset)
        assert found is not None
        assert found.base_offset == offset
    assert again.next_offset() == 120
    assert again.max_timestamp == NOW_MS + 190
    if damage:
        assert again.offset_index.entries() == good


def with_base_offset(disk: MemDisk, old: Segment, batch_number: int, base_offset: int) -> Segment:
    """The segment without its indexes, and with another base offset in one of its batches, which no CRC covers."""
    old.write_indexes(final=True)
    size = old.size
    old.close()
    path, position = old.path(".log"), batch_number * (size // 20)
    data = disk.read_bytes(path)
    disk.write_bytes(path, data[:position] + base_offset.to_bytes(8, "big", signed=True) + data[position + 8 :])
    for suffix in (".index", ".timeindex"):
        disk.remove(old.path(suffix))
    return segment(disk, size=size)


@pytest.mark.parametrize("base_offset", [-(2**63), 99, 108, 115])
def test_an_index_is_not_rebuilt_over_offsets_that_do_not_ascend(disk: MemDisk, filled: Segment, base_offset: int) -> None:
    damaged = with_base_offset(disk, filled, 9, base_offset)
    with pytest.raises(CorruptRecord, match="offsets"):
        damaged.locate(118)


def test_an_index_is_rebuilt_without_the_batches_that_are_too_far_from_the_first(disk: MemDisk, filled: Segment) -> None:
    """Recovery moves them to a segment of their own."""
    strange = with_base_offset(disk, filled, 19, 100 + 2**31)
    assert (strange.next_offset(), strange.max_timestamp) == (101 + 2**31, NOW_MS + 180)
    strange.write_indexes(final=True)
    assert strange.time_index.last() == (NOW_MS + 180, 118)


def test_a_damaged_log_is_said_not_searched_forever(disk: MemDisk, filled: Segment) -> None:
    again = reopened(disk, filled)
    data = bytearray(disk.read_bytes(again.path(".log")))
    data[again.size // 20 * 10 + 16] = 9  # the magic of the eleventh batch
    disk.write_bytes(again.path(".log"), bytes(data))
    assert again.locate(119) is not None  # the index leads past it
    with pytest.raises(CorruptRecord, match=f"position {again.size // 20 * 10}"):
        again.locate(111)
    disk.remove(again.path(".index"))
    with pytest.raises(CorruptRecord):
        reopened(disk, again).next_offset()


@pytest.mark.parametrize("written", [0, 1, 100])
def test_a_failed_write_leaves_no_trace(disk: MemDisk, filled: Segment, written: int) -> None:
    before, entries = filled.size, filled.offset_index.entries()
    disk.fail("append", errno.ENOSPC, written=written)
    with pytest.raises(OSError, match=r"No space|wrote 1"):
        fill(filled, 1, start=120)
    assert (filled.size, disk.size(filled.path(".log"))) == (before, before)
    assert filled.offset_index.entries() == entries
    fill(filled, 1, start=120)
    assert filled.next_offset() == 121


def test_truncation_takes_indexes_and_times_along(disk: MemDisk, filled: Segment) -> None:
    size = filled.size // 20
    filled.truncate_to(107)
    assert filled.size == 7 * size == disk.size(filled.path(".log"))
    assert all(offset < 107 for offset, _ in filled.offset_index.entries())
    assert last_time_entry(filled) == (NOW_MS + 60, 106)
    assert filled.next_offset() == 107
    fill(filled, 5, start=107)
    assert filled.next_offset() == 112
    filled.truncate_to(0)
    assert (filled.size, filled.max_timestamp, filled.next_offset()) == (0, -1, 100)
    assert filled.waited_ms(NOW_MS + 7, 0) == 7  # empty: since it was made


def test_records_without_time(disk: MemDisk) -> None:
    made = segment(disk)
    made.create_files()
    data = batch(timestamp_ms=-1)
    for offset in range(100, 110):
        made.append([data], len(data), offset, -1)
    assert (made.max_timestamp, len(made.time_index), len(made.offset_index) > 0) == (-1, 0, True)
    assert made.largest_timestamp() == NOW_MS  # the file's
    assert made.waited_ms(NOW_MS + 9, -1) == 9


def test_of_equal_timestamps_the_first_counts(disk: MemDisk) -> None:
    """However the batches come: one by one, several at once, after a truncation, or when lost indexes are rebuilt."""
    one_by_one, at_once, truncated = segment(disk), segment(disk, base=200), segment(disk, base=300)
    for made in (one_by_one, at_once, truncated):
        made.create_files()
    fill(one_by_one, 10, step_ms=0)
    data = disk.read_bytes(one_by_one.path(".log"))
    at_once.append_run([data], len(data), [(len(data) // 10, offset, NOW_MS) for offset in range(200, 210)])
    fill(truncated, 3, start=300, step_ms=0)
    truncated.truncate_to(302)
    assert [last_time_entry(made) for made in (one_by_one, at_once, truncated)] == [(NOW_MS, base) for base in (100, 200, 300)]
    disk.remove(one_by_one.path(".index"))
    rebuilt = reopened(disk, one_by_one)
    assert rebuilt.locate(109) is not None
    assert last_time_entry(rebuilt) == (NOW_MS, 100)


def test_a_full_index_says_so_and_takes_no_more(disk: MemDisk) -> None:
    made = segment(disk, index_bytes=24)
    made.create_files()
    assert not made.indexes.are_full
    fill(made, 30)
    assert made.indexes.are_full
    assert (len(made.offset_index), len(made.time_index)) == (3, 1)
    assert made.locate(129) is not None


def test_settings_that_become_known_after_the_indexes_were_read(disk: MemDisk, filled: Segment) -> None:
    """As at a start, where a partition is opened before its topic's settings are known."""
    opened = reopened(disk, filled)
    assert (len(opened.offset_index), opened.indexes.are_full) == (6, False)
    opened.configure(index_bytes=48, index_interval_bytes=1)
    assert opened.indexes.are_full
    opened.configure(index_bytes=1 << 20, index_interval_bytes=1)
    assert not opened.indexes.are_full
    fill(opened, 4, start=120)
    assert [offset for offset, _ in opened.offset_index.entries()][6:] == [121, 122, 123]


def test_an_index_of_records_without_time_is_kept_whatever_the_interval_is_now(disk: MemDisk) -> None:
    made = segment(disk)
    made.create_files()
    data = batch(timestamp_ms=-1)
    for offset in range(100, 110):
        made.append([stamp(read_header(data), offset, 0) + data[16:]], len(data), offset, -1)
    entries = made.offset_index.entries()
    opened = reopened(disk, made)
    opened.configure(index_bytes=1 << 20, index_interval_bytes=1)
    assert opened.offset_index.entries() == entries
    assert opened.max_timestamp == -1


def test_offsets_fit_31_bits(disk: MemDisk) -> None:
    made = segment(disk)
    assert [made.can_hold(offset) for offset in (99, 100, 100 + 2**31 - 1, 100 + 2**31)] == [False, True, True, False]


def test_released_files_open_again_and_slices_live_on(disk: MemDisk, filled: Segment) -> None:
    again = reopened(disk, filled)
    found = FileSlice(again.open_file(), 0, 10)
    assert again.locate(110) is not None
    again.release_file()
    assert again.file != found.file
    assert len(found.read()) == 10
    assert again.locate(110) is not None


def test_released_while_indexes_are_dirty_keeps_them(filled: Segment) -> None:
    entries = filled.offset_index.entries()
    filled.release_file()
    assert filled.offset_index.entries() == entries != []


def test_few_files_stay_open(disk: MemDisk) -> None:
    open_files = OpenFiles(3)
    segments = []
    for base in range(10):
        made = segment(disk, base=base)
        made._open_files = open_files
        made.create_files()
        fill(made, 1, start=base)
        segments.append(made)
    assert [made.file is not None for made in segments] == [False] * 7 + [True] * 3


def test_deletion_renames_everything(disk: MemDisk, filled: Segment) -> None:
    slice_ = FileSlice(filled.open_file(), 0, 61)
    paths = filled.rename_deleted()
    assert sorted(path.removeprefix("/p/") for path in paths) == disk.list("/p")
    assert all(path.endswith(".deleted") for path in paths)
    assert read_header(slice_.read()).base_offset == 100


# Large indexes, which are searched in their files

LARGE = LOADED_ENTRIES + 3 * BLOCK_ENTRIES


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
    entry = len(whole) // (LARGE - (suffix == "index"))
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


def test_a_rebuild_keeps_aborts_that_are_not_written_yet(filled: Segment) -> None:
    aborts = filled.change_txn_index()
    filled.rebuild_indexes()
    assert filled.txn_index is aborts


def test_large_indexes_of_records_without_time(disk: MemDisk) -> None:
    made = without_times(disk)
    again = segment(disk, size=made.size)
    assert again.max_timestamp == -1
    assert again.locate(50 + LARGE) == made.locate(50 + LARGE)
