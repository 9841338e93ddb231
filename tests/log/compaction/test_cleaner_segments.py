"""Compaction and segments: grouping, the swap, crashes in it, and what else may happen to a log meanwhile."""

from __future__ import annotations

import errno
import random

import pytest

from ottla.log.compaction.cleaner import Cleaner, Throttle
from ottla.log.compaction.cleaner_manager import Cleaning
from ottla.log.compaction.cleaning_job import CleanedGroup
from ottla.log.compaction.swap import SegmentSwap
from ottla.log.errors import StorageError
from tests.log.compaction.cleaning import CleanerRig
from tests.log.support import NOW_MS
from tests.memdisk import MemDisk, PowerCut

BATCH_BYTES = 70
"""About what a batch of put_each takes."""


def cleaned_groups(rig: CleanerRig, cleaning: Cleaning) -> list[CleanedGroup]:
    cleaner = Cleaner(rig.disk, cleaning.job, Throttle(float("inf"), lambda: 0.0, lambda seconds: None))
    return list(cleaner.groups())


# Grouping


def test_small_segments_become_one() -> None:
    rig = CleanerRig(segment_bytes=10 * BATCH_BYTES)
    rig.put_each(list(range(5)) * 20)
    count = len(rig.bases)
    rig.clean()
    rig.put_each([1])
    rig.clean()
    assert count > 8
    assert rig.bases[0] == 0
    assert len(rig.bases) == 2, "one, and the active one"


def test_a_group_is_no_larger_than_a_segment() -> None:
    rig = CleanerRig(segment_bytes=10 * BATCH_BYTES)
    rig.put_each(range(100))
    before = rig.bases
    groups = cleaned_groups(rig, rig.begin())
    assert [base for group in groups for base in group.replaces] == before
    assert all(group.size <= rig.config.segment_bytes for group in groups)


def test_a_group_has_no_larger_indexes_than_a_segment() -> None:
    rig = CleanerRig(segment_index_bytes=32, index_interval_bytes=1)
    rig.put_each(list(range(3)) * 10)
    cleaning = rig.begin()
    sizes = {base: rig.disk.size(f"{rig.path}/{base:020d}.index") for base, _ in cleaning.job.segments}
    groups = cleaned_groups(rig, cleaning)
    assert sum(sizes.values()) > 3 * 32
    assert all(sum(sizes[base] for base in group.replaces) <= 32 for group in groups)
    assert [base for group in groups for base in group.replaces] == list(sizes)


def test_sparse_offsets_stay_within_what_an_index_can_name() -> None:
    rig = CleanerRig()
    rig.put_each([0])
    rig.roll()
    job = rig.begin().job
    apart = 2**31 - 1

    def groups(*segments: tuple[int, int]) -> list[list[int]]:
        job.segments = list(segments)
        job.uncleanable_offset = segments[-1][0] + 1
        cleaner = Cleaner(rig.disk, job, Throttle(float("inf"), lambda: 0.0, lambda seconds: None))
        found = cleaner._grouped([cleaner._segment(base, size) for base, size in segments])
        return [[segment.base_offset for segment in group] for group in found]

    assert groups((0, 70), (100, 70), (apart, 70)) == [[0, 100, apart]]
    assert groups((0, 70), (100, 70), (apart + 1, 70)) == [[0, 100], [apart + 1]]
    assert groups((0, 70), (apart, 70), (apart + 100, 70)) == [[0], [apart, apart + 100]], "it may end in the next one's range"
    assert groups((0, 0), (apart + 100, 0)) == [[0, apart + 100]], "an empty segment has no offsets"


def test_an_offset_that_no_index_can_name_ends_the_cleaning() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0])
    rig.roll()
    rig.log.flush()
    path = f"{rig.path}/{0:020d}.log"
    data = bytearray(rig.disk.read_bytes(path))
    second = len(data) // 2
    data[second : second + 8] = (2**31).to_bytes(8, "big")
    rig.memory._inode(path).data[:] = data
    rig.log.segments[0].close()
    rig.cleaner.clean_pass()
    assert "too far" in rig.cleaner.uncleanable["t", 0]
    assert rig.names(".cleaned") == []


def test_segments_that_lost_everything_do_not_pile_up() -> None:
    rig = CleanerRig(segment_bytes=BATCH_BYTES)
    for _ in range(5):
        rig.put_each([0] * 10)
        rig.clean()
    rig.put_each([0])
    rig.clean()
    assert rig.offsets() == [50]
    assert len(rig.bases) <= 3


# The new segment


def test_the_new_segment_has_indexes_that_fit_it() -> None:
    rig = CleanerRig(index_interval_bytes=1)
    rig.put_each(list(range(10)) * 3)
    rig.clean()
    segment = rig.log.segments[0]
    entries = segment.offset_index.entries()
    assert entries
    times = segment.time_index.entries()
    segment.rebuild_indexes()
    assert segment.offset_index.entries() == entries
    segment.write_indexes(final=True)
    assert segment.time_index.entries() == times
    assert rig.read(25) == [25, 26, 27, 28, 29]


def test_the_new_segment_keeps_the_time_of_the_last_it_replaces() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1])
    rig.roll()
    rig.now_ms += 5_000
    rig.put_each([0])
    rig.roll()
    rig.now_ms += 5_000
    rig.clean()
    assert rig.disk.modified_ms(rig.log.segments[0].path(".log")) == NOW_MS + 5_000


def test_producer_snapshots_go_with_their_segments() -> None:
    rig = CleanerRig()
    for key in range(3):
        rig.put_each([key])
        rig.roll()
    assert [int(name[:20]) for name in rig.names(".snapshot")] == [1, 2, 3]
    rig.clean()
    assert [int(name[:20]) for name in rig.names(".snapshot")] == [3], "that of the active segment"


def test_a_read_in_flight_ends_with_what_it_began() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0, 1])
    found = rig.log.read(0, 1 << 20, upto=3)
    assert found is not None
    before = found.read()
    rig.clean()
    rig.now_ms += 10**6
    rig.manager.delete_pass(rig.now_ms)
    assert found.read() == before


def test_a_read_of_an_offset_that_is_gone_begins_at_the_next() -> None:
    rig = CleanerRig(segment_bytes=5 * BATCH_BYTES)
    rig.put_each([0] * 20 + [1])
    rig.clean()
    assert rig.read(0) == [19, 20]
    assert rig.read(7) == [19, 20]


def test_old_files_go_after_file_delete_delay() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0])
    rig.clean()
    assert rig.names(".deleted")
    rig.now_ms += rig.config.file_delete_delay_ms
    rig.manager.delete_pass(rig.now_ms)
    assert rig.names(".deleted") == []
    assert rig.offsets() == [1]


# What may happen meanwhile


def swap_comes_to_nothing(rig: CleanerRig, cleaning: Cleaning, groups: list[CleanedGroup]) -> None:
    for group in groups:
        assert not rig.cleaner.swap(cleaning, group).run()
    rig.cleaner.give_up(cleaning)
    assert rig.manager.in_cleaning == set()


def test_a_log_that_is_cut_meanwhile() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1, 2, 0])
    cleaning = rig.begin()
    groups = cleaned_groups(rig, cleaning)
    rig.log.truncate_to(2)
    swap_comes_to_nothing(rig, cleaning, groups)
    assert rig.offsets() == [0, 1]
    assert rig.names(".cleaned") == []
    rig.put_each([0])
    rig.clean()
    assert rig.offsets() == [1, 2]


def test_a_log_that_is_deleted_meanwhile_and_made_again() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0])
    cleaning = rig.begin()
    groups = cleaned_groups(rig, cleaning)
    rig.manager.delete("t", 0)
    rig.log = rig.manager.create("t", 0, bytes(reversed(range(16))), rig.config)
    rig.put_each([5, 5])
    swap_comes_to_nothing(rig, cleaning, groups)
    assert rig.keys() == [5, 5]
    assert rig.clean() == 1
    assert rig.keys() == [5]


def swapped_halfway(rig: CleanerRig, cleaning: Cleaning, group: CleanedGroup, steps: int) -> SegmentSwap:
    """So many steps of the group's swap are taken, and durable."""
    swap = rig.cleaner.swap(cleaning, group)
    for step in swap.steps[:steps]:
        step()
        swap.sync()
    return swap


def test_what_a_cleaning_of_a_deleted_log_wrote_into_its_successors_directory() -> None:
    """A start that finds it takes it for a part of what is swapped in then, and drops that: the old segments are gone by then."""
    rig = CleanerRig(segment_bytes=3 * BATCH_BYTES)
    rig.put_each([0, 1, 2, 0, 3, 1])
    rig.disk.write_bytes(f"{rig.path}/{2:020d}.log.cleaned", b"late")
    cleaning = rig.begin()
    groups = cleaned_groups(rig, cleaning)
    assert groups[-1].base_offset > 2
    for group in groups[:-1]:
        rig.cleaner.swap(cleaning, group).run()
    swapped_halfway(rig, cleaning, groups[-1], 2)
    rig.memory.crash()
    rig.start()
    assert sorted(rig.keys()) == [0, 1, 2, 3]


def test_a_log_that_is_cut_in_the_middle_of_the_swap() -> None:
    """Before and after the exchange of segments, the log reads as if there had been no swap, or a whole one."""
    for steps, left in ((1, [0, 1]), (2, [1])):
        rig = CleanerRig()
        rig.put_each([0, 1, 0])
        rig.roll()
        rig.put_each([9])
        cleaning = rig.begin()
        (group,) = cleaned_groups(rig, cleaning)
        swap = swapped_halfway(rig, cleaning, group, steps)
        rig.log.truncate_to(2)
        assert swap.is_void == (steps == 1)
        rig.cleaner.give_up(cleaning)
        assert rig.offsets() == left
        rig.memory.crash()  # what was not exchanged must not even come back so: a start would believe the `.swap`
        rig.start()
        assert rig.offsets() == left
        assert not [name for name in rig.names() if "swap" in name or "cleaned" in name]


def test_a_clean_stop_in_the_middle_of_the_swap() -> None:
    for steps in range(4):
        rig = CleanerRig(segment_bytes=2 * BATCH_BYTES)
        rig.put_each([0, 1, 0, 2, 0, 3])
        cleaning = rig.begin()
        swapped_halfway(rig, cleaning, cleaned_groups(rig, cleaning)[0], steps)
        rig.restart(clean=True)
        assert rig.read()[-3:] == [3, 4, 5]
        assert sorted(set(rig.keys())) == [0, 1, 2, 3]
        assert rig.log.log_end_offset == 6
        assert not [name for name in rig.names() if "swap" in name or "cleaned" in name]


def test_retention_leaves_a_log_in_cleaning_alone() -> None:
    rig = CleanerRig(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1_000)
    rig.put_each([0, 1])
    cleaning = rig.begin()
    groups = cleaned_groups(rig, cleaning)
    rig.now_ms += 10_000
    assert rig.manager.retention_pass(rig.now_ms) == 0
    for group in groups:
        assert rig.cleaner.swap(cleaning, group).run()
    rig.cleaner.give_up(cleaning)
    assert rig.manager.retention_pass(rig.now_ms) == 1


def test_compact_and_delete_together() -> None:
    rig = CleanerRig(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=60_000)
    rig.put_each([0, 1, 0])
    rig.clean()
    assert rig.offsets() == [1, 2]
    rig.now_ms += 60_001
    rig.put_each([2])
    assert rig.cleaner.clean_pass() == 0
    assert rig.offsets() == [3], "nothing to compact, but a segment whose time is over"
    rig.put_each([3, 3])
    rig.log.delete_records_before(5)
    rig.clean()
    assert rig.offsets() == [5]


def test_a_log_start_inside_a_segment() -> None:
    """Records below it are gone for readers; a cleaning may still copy them, and a start remembers where the log begins."""
    rig = CleanerRig(cleanup_policy=frozenset({"compact", "delete"}))
    rig.put_each([0, 1, 2, 3])
    rig.log.delete_records_before(2)
    rig.put_each([3])
    rig.clean()
    assert rig.offsets() == [2, 4]
    assert rig.log.log_start_offset == 2
    rig.restart(clean=True)
    assert rig.offsets() == [2, 4]


# Crashes


def crashed_at(change: int, seed: int | None) -> bool:
    """Cleans twice on a disk that is cut off before its `change`-th change; then everything must be there. False: it was not
    that many."""
    disk = MemDisk(lambda: NOW_MS)
    rig = CleanerRig(disk=disk, segment_bytes=3 * BATCH_BYTES)
    rig.put_each([0, 1, 2, 0, 3, 1, 4, 0, 5, 1])
    rig.roll()
    rig.log.flush()
    rig.manager.checkpoint_pass()
    disk.stop_after(change)
    try:
        rig.cleaner.clean_pass()
        rig.put_each([6, 2, 0])
        rig.roll()
        rig.log.flush()
        rig.cleaner.clean_pass()
    except PowerCut:
        disk.crash(None if seed is None else random.Random(seed))
    else:
        return False
    rig.start()
    latest = {record.key: record.offset for record in rig.seen()}
    offsets = rig.offsets()
    assert offsets == sorted(set(offsets)), "no record twice"
    assert {int(key or b"") for key in latest} >= set(range(6))
    assert latest[b"5"] == 8, "what was flushed is there"
    assert latest[b"1"] == 9
    assert rig.log.log_end_offset >= 10
    assert not [name for name in rig.names() if name.endswith((".cleaned", ".swap"))]
    rig.put_each([7])
    rig.clean()
    assert len(rig.keys()) == len(set(rig.keys()))
    return True


@pytest.mark.parametrize("seed", [None, 1])
def test_a_power_cut_at_any_change_to_the_disk(seed: int | None) -> None:
    changes = 0
    while crashed_at(changes, seed):
        changes += 1
    assert changes > 60, "the steps of two cleanings"


def failed_at(skip: int, operation: str, code: int) -> bool:
    """Whether the operation that comes after `skip` others of its kind, in a cleaning, was there to fail."""
    rig = CleanerRig(segment_bytes=3 * BATCH_BYTES)
    rig.put_each([0, 1, 2, 0, 3, 1, 4, 0, 5, 1])
    rig.roll()
    rig.log.flush()
    rig.memory.fail(operation, code, path="t-0", skip=skip)
    try:
        rig.cleaner.clean_pass()
    except StorageError:
        pass
    else:
        return False
    if rig.log.directory.failed is None:  # then it goes on, and the next cleaning does all of it
        rig.clean()
        assert rig.offsets() == [2, 4, 6, 7, 8, 9]
        assert not [name for name in rig.names() if name.endswith((".swap", ".cleaned"))]
    rig.restart(clean=False)
    assert set(rig.keys()) == set(range(6))
    assert rig.log.log_end_offset == 10
    rig.clean()
    assert rig.offsets() == [2, 4, 6, 7, 8, 9]
    return True


@pytest.mark.parametrize("operation", ["sync_dir", "rename", "open", "write_bytes"])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
def test_a_failure_that_says_nothing_of_the_disk_is_made_good(operation: str, code: int) -> None:
    skip = 0
    while failed_at(skip, operation, code):
        skip += 1
    assert skip > 2


def test_kill_at_any_change_to_the_disk() -> None:
    """As above with nothing lost that was written: the files are as a killed process leaves them."""
    for change in range(10_000):
        disk = MemDisk(lambda: NOW_MS)
        rig = CleanerRig(disk=disk, segment_bytes=3 * BATCH_BYTES)
        rig.put_each([0, 1, 2, 0, 3, 1, 4, 0, 5, 1])
        rig.roll()
        disk.stop_after(change)
        try:
            rig.cleaner.clean_pass()
            break
        except PowerCut:
            disk.stop_after(None)
            disk._locks.clear()
        rig.start()
        assert set(rig.keys()) == set(range(6))
        assert rig.log.log_end_offset == 10
        rig.clean()
        assert rig.offsets() == [2, 4, 6, 7, 8, 9]
    else:
        raise AssertionError("the cleaning never ended")
