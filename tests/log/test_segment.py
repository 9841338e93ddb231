"""log/segment.py: what an append leaves behind, on success and on failure, and finding it again with good and bad indexes."""

from __future__ import annotations

import errno

import pytest

from ottla.log.disk.files import FileSlice, OpenFiles
from ottla.log.errors import CorruptRecord
from ottla.log.segment import Segment
from ottla.wire.batch import read_header, stamp
from tests.log.one_segment import INTERVAL, fill, segment
from tests.log.support import NOW_MS, batch, last_time_entry
from tests.memdisk import MemDisk


@pytest.fixture
def disk() -> MemDisk:
    disk = MemDisk(lambda: NOW_MS)
    disk.makedirs("/p")
    return disk


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


def spoil_eleventh(disk: MemDisk, filled: Segment) -> None:
    """Gives the eleventh of twenty batches a magic that there is not."""
    data = bytearray(disk.read_bytes(filled.path(".log")))
    data[filled.size // 20 * 10 + 16] = 9
    disk.write_bytes(filled.path(".log"), bytes(data))


def test_a_damaged_log_is_said_not_searched_forever(disk: MemDisk, filled: Segment) -> None:
    again = reopened(disk, filled)
    spoil_eleventh(disk, again)
    assert again.locate(119) is not None  # the index leads past it
    with pytest.raises(CorruptRecord, match=f"position {again.size // 20 * 10}"):
        again.locate(111)
    disk.remove(again.path(".index"))
    with pytest.raises(CorruptRecord):
        reopened(disk, again).next_offset()


def test_damage_that_was_cut_off_is_damage_no_more(disk: MemDisk, filled: Segment) -> None:
    """Wrong indexes are rebuilt as in any other segment."""
    again = reopened(disk, filled)
    spoil_eleventh(disk, again)
    with pytest.raises(CorruptRecord):
        again.locate(111)
    again.truncate_to(108)
    assert_a_wrong_index_is_rebuilt(again)


def test_damage_that_a_rebuild_did_not_meet_again_is_damage_no_more(disk: MemDisk, filled: Segment) -> None:
    """One bad read, for instance."""
    again = reopened(disk, filled)
    sound = disk.read_bytes(again.path(".log"))
    spoil_eleventh(disk, again)
    with pytest.raises(CorruptRecord):
        again.locate(111)
    again.close()
    disk.write_bytes(again.path(".log"), sound)
    again.rebuild_indexes()
    assert_a_wrong_index_is_rebuilt(again)


def assert_a_wrong_index_is_rebuilt(of: Segment) -> None:
    (offset, position), *_ = of.offset_index.entries()
    of.offset_index.truncate_to(0)
    of.offset_index.append(offset, position + 1)
    found = of.locate(offset)
    assert found is not None
    assert found.position == position


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


def test_a_rebuild_keeps_aborts_that_are_not_written_yet(filled: Segment) -> None:
    aborts = filled.change_txn_index()
    filled.rebuild_indexes()
    assert filled.txn_index is aborts
