"""Tests of what bounds a cleaning, and what ends one: its map, its throttle, damage, a disk that fails."""

from __future__ import annotations

import errno

import pytest

from ottla.log.compaction.cleaner import Cleaner, Throttle
from ottla.log.compaction.cleaner_manager import CleanerSettings
from ottla.log.compaction.cleaning_job import CleaningAborted, CleaningJob
from ottla.log.compaction.offset_map import SLOT_BYTES
from ottla.log.errors import StorageError
from tests.log.compaction.cleaning import CleanerRig

# The map and the bounds


def test_what_finds_no_room_in_the_map_waits_for_the_next_turn() -> None:
    rig = CleanerRig(cleaner=CleanerSettings(dedupe_buffer_size=23 * SLOT_BYTES, io_buffer_load_factor=0.5))
    rig.put_each([*range(30), *range(30)])
    rig.roll()
    cleaning = rig.cleaner.next_cleaning()
    assert cleaning is not None
    assert rig.cleaner.clean_here(cleaning)
    assert rig.cleaned_upto == 11, "half of 23 slots are 11 keys"
    assert rig.offsets() == list(range(60))
    rig.cleaner.clean_pass()
    assert rig.cleaned_upto == 60
    assert rig.offsets() == list(range(30, 60))


def test_the_next_turn_begins_where_the_log_says_whatever_the_index_says() -> None:
    rig = CleanerRig(cleaner=CleanerSettings(dedupe_buffer_size=23 * SLOT_BYTES, io_buffer_load_factor=0.5))
    rig.put_each([*range(30), *range(30)])
    rig.roll()
    cleaning = rig.cleaner.next_cleaning()
    assert cleaning is not None
    rig.cleaner.clean_here(cleaning)
    rig.log.segments[0].close()
    rig.disk.write_bytes(f"{rig.path}/{0:020d}.index", (5).to_bytes(4, "big") + (7).to_bytes(4, "big"))
    rig.cleaner.clean_pass()
    assert rig.cleaner.uncleanable == {}
    assert rig.offsets() == list(range(30, 60))


def test_a_batch_with_more_keys_than_the_map_holds() -> None:
    rig = CleanerRig(cleaner=CleanerSettings(dedupe_buffer_size=5 * SLOT_BYTES, io_buffer_load_factor=1.0))
    rig.put(*((b"%d" % key, b"v") for key in range(6)))
    rig.clean()
    assert "log.cleaner.dedupe.buffer.size" in rig.cleaner.uncleanable["t", 0]
    assert rig.offsets() == list(range(6))


def test_the_map_takes_no_more_memory_than_the_offsets_need() -> None:
    rig = CleanerRig()
    rig.put_each(range(100))
    cleaning = rig.begin()
    cleaner = Cleaner(rig.disk, cleaning.job, Throttle(float("inf"), lambda: 0.0, lambda seconds: None))
    assert cleaner._map.slots < 5_000
    assert cleaning.job.map_bytes == 134_217_728


def test_offsets_that_are_missing_at_a_segments_end_count_as_cleaned() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1])
    rig.put((b"0", b"x"), transactional=True, producer=(1, 0, 0))
    rig.put((b"0", b"x"), transactional=True, producer=(2, 0, 0))
    rig.end(1, commit=False)
    rig.clean()
    assert rig.cleaned_upto is None, "the last stable offset comes before anything cleanable"
    rig.end(2, commit=False)
    rig.put_each([2])
    rig.clean()
    assert rig.cleaned_upto == rig.log.log_end_offset
    assert rig.cleaner.next_cleaning() is None


def test_a_cleaning_begins_inside_a_segment() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1, 2, 3])
    rig.roll()
    rig.log.directory.set_cleaned(("t", 0), 2)
    rig.put_each([0, 2])
    rig.clean()
    assert rig.offsets() == [1, 3, 4, 5]


def test_figures() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1, 0])
    size = rig.log.size_bytes
    rig.clean()
    last = rig.cleaner.last
    assert (last.map_records_read, last.records_read, last.records_written) == (3, 3, 2)
    assert (last.map_bytes_read, last.bytes_read, last.bytes_written) == (size, size, rig.log.size_bytes)
    assert (last.end_offset, rig.cleaner.cleanings) == (3, 1)
    assert 0 < last.map_utilization < 1


def test_the_throttle_spreads_bytes_over_time() -> None:
    waited: list[float] = []
    now = [0.0]

    def wait(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds

    throttle = Throttle(1_000.0, lambda: now[0], wait)
    for _ in range(100):
        throttle.spend(100)
    assert sum(waited) == pytest.approx(10.0)
    assert max(waited) <= 0.2


def test_without_a_bound_nobody_sleeps_but_the_caller_is_asked() -> None:
    waited: list[float] = []
    throttle = Throttle(1.7976931348623157e308, lambda: 0.0, waited.append)
    for _ in range(4):
        throttle.spend(1 << 20)
    assert len(waited) == 4
    assert sum(waited) < 1e-9


# Damage


def damaged(rig: CleanerRig, position: int, byte: int) -> None:
    file = rig.memory._inode(f"{rig.path}/{0:020d}.log")
    file.data[position] = byte


def test_a_damaged_record_is_not_copied_with_a_new_crc() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0, 1])
    rig.roll()
    damaged(rig, 65, 0x55)
    before = rig.memory.read_bytes(f"{rig.path}/{0:020d}.log")
    assert rig.cleaner.clean_pass() == 0
    assert ("t", 0) in rig.cleaner.uncleanable
    assert rig.memory.read_bytes(f"{rig.path}/{0:020d}.log") == before
    assert rig.names(".cleaned") == []
    rig.put_each([0])
    assert rig.clean() == 0, "it is left alone"


@pytest.mark.parametrize(("position", "byte"), [(8, 0x7F), (16, 9), (11, 3)], ids=["too long", "another format", "too short"])
def test_a_damaged_batch_header_ends_the_cleaning(position: int, byte: int) -> None:
    rig = CleanerRig()
    rig.put_each([0, 0, 1])
    rig.roll()
    damaged(rig, position, byte)
    assert rig.cleaner.clean_pass() == 0
    assert ("t", 0) in rig.cleaner.uncleanable
    assert rig.names(".cleaned") == []


@pytest.mark.parametrize("segments", [1, 2])
def test_offsets_that_go_back_end_the_cleaning(segments: int) -> None:
    """No CRC covers a base offset. A fuzzer found that the worker failed at such a batch if an index entry was due there."""
    rig = CleanerRig(index_interval_bytes=0)
    rig.put_each([0, 1, 0, 1])
    size = rig.log.segments[0].size // 4
    if segments == 2:
        rig.roll()
        rig.put_each([2])
    rig.roll()
    damaged(rig, size + 6, 3)
    assert rig.cleaner.clean_pass() == 0
    assert "begins at offset 2, and 770 would be the next" in rig.cleaner.uncleanable["t", 0]
    assert rig.names(".cleaned") == []


def test_a_log_that_is_gone_is_forgotten() -> None:
    rig = CleanerRig()
    rig.cleaner.leave_alone(rig.log, "for a test")
    assert [log.topic for log in rig.cleaner.uncleanable_in(rig.directory)] == ["t"]
    rig.manager.delete("t", 0)
    rig.cleaner.next_cleaning()
    assert rig.cleaner.uncleanable == {}


def test_a_failing_disk_takes_the_directory_offline() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0])
    rig.roll()
    rig.log.flush()
    rig.memory.fail("sync", errno.EIO, path=".cleaned")
    with pytest.raises(StorageError):
        rig.cleaner.clean_pass()
    assert rig.log.directory.failed is not None
    rig.restart(clean=False)
    assert rig.offsets() == [0, 1]
    assert rig.clean() == 1
    assert rig.offsets() == [1]


def test_a_cleaning_that_is_called_off_leaves_no_files() -> None:
    rig = CleanerRig()
    for key in range(40):
        rig.put((b"%d" % key, b"v" * 50_000))
    job: CleaningJob = rig.begin().job
    seen: list[list[str]] = []

    def wait(_: float) -> None:
        seen.append(rig.names(".cleaned"))
        if seen[-1]:
            raise CleaningAborted("for a test")

    cleaner = Cleaner(rig.disk, job, Throttle(float("inf"), lambda: 0.0, wait))
    with pytest.raises(CleaningAborted):
        list(cleaner.groups())
    assert seen[-1]
    assert rig.names(".cleaned") == []
