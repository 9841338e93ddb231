"""log/compaction/swap.py: a cleaned segment takes its place whatever happens to the log, or to the broker, meanwhile."""

from __future__ import annotations

import errno
import random

import pytest

from ottla.log.compaction.cleaner_manager import Cleaning
from ottla.log.compaction.cleaning_job import CleanedGroup
from ottla.log.compaction.swap import SegmentSwap
from ottla.log.errors import StorageError
from ottla.log.management.passes import delete_steps, run_pass
from tests.log.compaction.cleaning import BATCH_BYTES, CleanerRig, cleaned_groups
from tests.log.support import NOW_MS
from tests.memdisk import MemDisk, PowerCut


def test_a_read_in_flight_ends_with_what_it_began() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0, 1])
    found = rig.log.read(0, 1 << 20, upto=3)
    assert found is not None
    before = found.read()
    rig.clean()
    rig.now_ms += 10**6
    run_pass(delete_steps(rig.manager, rig.now_ms))
    assert found.read() == before


def test_old_files_go_after_file_delete_delay() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0])
    rig.clean()
    assert rig.names(".deleted")
    rig.now_ms += rig.config.file_delete_delay_ms
    run_pass(delete_steps(rig.manager, rig.now_ms))
    assert rig.names(".deleted") == []
    assert rig.offsets() == [1]


def test_each_swap_notes_how_far_the_log_is_clean() -> None:
    """So what was cleaned counts even if the rest of the cleaning comes to nothing."""
    rig = CleanerRig()
    rig.put_each([0])
    cleaning = rig.begin()
    (group,) = cleaned_groups(rig, cleaning)
    assert rig.cleaner.swap(cleaning, group).run()
    assert rig.cleaned_upto == 1


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
    for steps in range(5):
        rig = CleanerRig(segment_bytes=2 * BATCH_BYTES)
        rig.put_each([0, 1, 0, 2, 0, 3])
        cleaning = rig.begin()
        swapped_halfway(rig, cleaning, cleaned_groups(rig, cleaning)[0], steps)
        rig.restart(clean=True)
        assert rig.read()[-3:] == [3, 4, 5]
        assert sorted(set(rig.keys())) == [0, 1, 2, 3]
        assert rig.log.log_end_offset == 6
        assert not [name for name in rig.names() if "swap" in name or "cleaned" in name]


def half_cleaned() -> tuple[CleanerRig, Cleaning, list[CleanedGroup]]:
    """A cleaning of two segments, the first of which becomes empty, with nothing swapped in yet."""
    rig = CleanerRig(segment_bytes=2 * BATCH_BYTES)
    rig.put_each([0, 1, 0, 1, 2])
    cleaning = rig.begin()
    groups = cleaned_groups(rig, cleaning)
    assert [(group.base_offset, group.end_offset) for group in groups] == [(0, 2), (2, 4), (4, 5)]
    return rig, cleaning, groups


def test_a_cleaning_that_ends_early_has_cleaned_what_was_swapped_in(caplog: pytest.LogCaptureFixture) -> None:
    rig, cleaning, groups = half_cleaned()
    assert rig.cleaner.swap(cleaning, groups[0]).run()
    rig.cleaner.give_up(cleaning)
    assert rig.cleaned_upto == 2
    rig.restart(clean=False)
    assert rig.log.segments[0].size == 0
    assert "records are lost" not in caplog.text
    assert rig.offsets() == [2, 3, 4]
    assert rig.clean() == 1
    assert rig.cleaned_upto == 5


def test_a_cut_behind_the_exchange_leaves_the_checkpoint_to_the_cut() -> None:
    rig, cleaning, groups = half_cleaned()
    rig.cleaner.swap(cleaning, groups[0]).run()
    swap = swapped_halfway(rig, cleaning, groups[1], 3)
    rig.log.truncate_to(3)
    rig.put_each([7])
    swap.steps[3]()
    assert rig.cleaned_upto == 2
    assert rig.offsets() == [2, 3]
    assert rig.keys() == [0, 7]


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
    """Returns whether the operation that comes after `skip` others of its kind, in a cleaning, was there to fail."""
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
