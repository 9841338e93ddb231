"""log/compaction/cleaner_manager.py: which log is cleaned next, and what becomes of a cleaning."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ottla.log.compaction.cleaner import Throttle
from ottla.log.compaction.cleaner_manager import CleanerSettings, LogCleanerManager, unthrottled
from ottla.log.compaction.cleaning_job import CleaningJob
from ottla.log.disk.directory import LogDirectory
from ottla.log.management.moving import create_future
from ottla.log.management.passes import run_pass
from ottla.log.partition import PartitionLog
from tests.log.compaction.cleaning import COMPACT, CleanerRig, compacted, segments
from tests.log.support import batch

DELETE = frozenset({"delete"})
CHECKPOINT = "/data/cleaner-offset-checkpoint"


class ManyRig(CleanerRig):
    """Partitions of topic "t"; `dirty` makes one of so many segments, of which `clean` were cleaned."""

    def partition(self, index: int, segments: int, clean: int = 0, **changes: Any) -> PartitionLog:
        config = compacted(**changes)
        log = self.manager.create("t", index, bytes([index]) * 16, config)
        for _ in range(segments):
            log.append_as_leader(batch(), leader_epoch=0)
            log.roll()
        if clean:
            log.directory.set_cleaned(("t", index), clean)
        return log


def test_the_dirtiest_goes_first() -> None:
    rig = ManyRig()
    rig.partition(1, segments=4, clean=3)
    rig.partition(2, segments=4, clean=1)
    rig.partition(3, segments=4, clean=2)
    cleaner = LogCleanerManager(rig.manager, lambda: rig.now_ms, Random(1))
    order = [cleaner.next_cleaning() for _ in range(4)]
    assert [cleaning and cleaning.partition[1] for cleaning in order] == [2, 3, 1, None]
    assert cleaner.max_dirty_ratio == 0.0, "all that are not in cleaning"
    assert rig.manager.in_cleaning == {("t", 1), ("t", 2), ("t", 3)}


def test_it_looks_at_a_log_a_step_and_once_more_at_what_it_takes() -> None:
    rig = ManyRig()
    for index in range(1, 5):
        rig.partition(index, segments=4, clean=index - 1)
    choosing = rig.cleaner.choose()
    for _ in range(4):
        next(choosing)
    changed = rig.manager.logs["t", 1]
    changed.roll()
    changed.append_as_leader(batch(), leader_epoch=0)
    changed.roll()
    cleaning = run_pass(choosing)
    assert cleaning is not None
    assert (cleaning.partition, cleaning.plan.uncleanable_offset) == (("t", 1), 5), "planned as it is now"


@pytest.mark.parametrize("change", ["deleted", "cut", "taken", "left alone"])
def test_what_happens_to_the_dirtiest_log_while_it_looks_on_lets_the_next_one_be_taken(change: str) -> None:
    rig = ManyRig()
    dirtiest = rig.partition(1, segments=4)
    rig.partition(2, segments=4, clean=1)
    choosing = rig.cleaner.choose()
    for _ in range(3):
        next(choosing)
    if change == "deleted":
        rig.manager.delete("t", 1)
    elif change == "cut":
        dirtiest.truncate_to(0)
    elif change == "taken":
        rig.manager.in_cleaning.add(("t", 1))
    else:
        rig.cleaner.leave_alone(dirtiest, "for a test")
    cleaning = run_pass(choosing)
    assert cleaning is not None
    assert cleaning.partition == ("t", 2)


def test_retention_looks_at_a_log_a_step() -> None:
    rig = ManyRig()
    for index in range(1, 5):
        rig.partition(index, segments=1)
    rig.manager.logs["t", 2].directory.fail("a test", OSError("no more"))
    assert len(list(rig.cleaner.delete_old())) == len(rig.manager.logs)


def test_logs_that_are_left_alone_are_passed_over() -> None:
    rig = ManyRig()
    worst = rig.partition(1, segments=4)
    rig.partition(2, segments=4, clean=1)
    rig.cleaner.leave_alone(worst, "for a test")
    cleaning = rig.cleaner.next_cleaning()
    assert cleaning is not None
    assert cleaning.partition == ("t", 2)
    assert rig.cleaner.next_cleaning() is None
    assert rig.cleaner.uncleanable_bytes(rig.directory) == worst.size_bytes


def test_a_topic_that_is_not_compacted_is_not_cleaned() -> None:
    rig = ManyRig()
    rig.partition(1, segments=4, cleanup_policy=DELETE)
    rig.partition(2, segments=4, cleanup_policy=frozenset())
    assert rig.cleaner.next_cleaning() is None


def test_logs_in_a_directory_that_failed_are_passed_over() -> None:
    rig = CleanerRig()
    segments(rig, 2)
    rig.log.directory.fail("a test", OSError("no more"))
    assert rig.cleaner.next_cleaning() is None


def test_a_log_whose_plan_fails_is_left_alone_and_others_go_on() -> None:
    rig = ManyRig()
    broken = rig.partition(1, segments=4, min_compaction_lag_ms=1)
    rig.partition(2, segments=4)
    rig.now_ms += 10
    for suffix in (".index", ".timeindex"):
        rig.memory._inode(broken.segments[0].path(suffix)).data[:] = b"xyz"
    rig.memory._inode(broken.segments[0].path(".log")).data[16] = 77
    broken.segments[0].close()
    broken.segments[0]._max_timestamp = -2
    cleaning = rig.cleaner.next_cleaning()
    assert cleaning is not None
    assert cleaning.partition == ("t", 2)
    assert list(rig.cleaner.uncleanable) == [("t", 1)]


def test_delete_old_is_for_compacted_logs_that_nobody_cleans() -> None:
    rig = ManyRig(segment_bytes=100)
    both = rig.partition(1, segments=3, cleanup_policy=COMPACT | DELETE, retention_ms=10)
    compact = rig.partition(2, segments=3, retention_ms=10)
    deleted = rig.partition(3, segments=3, cleanup_policy=DELETE, retention_ms=10)
    compact.raise_log_start_offset(2)
    rig.now_ms += 100
    rig.manager.in_cleaning.add(("t", 1))
    assert run_pass(rig.cleaner.delete_old()) == 2, "only what lies below the start of the compacted one"
    rig.manager.in_cleaning.clear()
    assert run_pass(rig.cleaner.delete_old()) == 3
    assert [log.first_base_offset for log in (both, compact, deleted)] == [3, 2, 0]


def test_where_a_cleaning_ended_is_written_down_and_read_at_the_next_start() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1, 0])
    rig.clean()
    assert rig.disk.read_bytes(CHECKPOINT) == b"0\n1\nt 0 3\n"
    rig.restart(clean=False)
    assert rig.cleaned_upto == 3
    assert rig.cleaner.next_cleaning() is None


@pytest.mark.parametrize(
    "change",
    [
        lambda rig: rig.log.close(),
        lambda rig: rig.log.truncate_to(1),
        lambda rig: rig.log.directory.fail("a test", OSError("no more")),
        lambda rig: rig.manager.delete("t", 0),
    ],
    ids=["closed", "cut", "its directory fails", "deleted"],
)
def test_a_log_that_changed_meanwhile_makes_its_cleaning_void(change: Callable[[CleanerRig], object]) -> None:
    rig = CleanerRig()
    rig.put_each([0, 1, 0])
    cleaning = rig.begin()
    rig.put_each([1])
    assert not cleaning.is_void, "appends change nothing that it reads"
    change(rig)
    assert cleaning.is_void


def test_a_cleaning_that_became_void_while_it_ran_does_not_count() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1, 0])
    rig.roll()
    rig.put_each([2])
    cleaning = rig.cleaner.next_cleaning()
    assert cleaning is not None

    def cut_meanwhile(_: CleaningJob) -> Throttle:
        rig.log.truncate_to(3)
        return unthrottled(cleaning.job)

    assert rig.cleaner.clean_here(cleaning, cut_meanwhile) is False
    assert (rig.offsets(), rig.names(".cleaned"), rig.cleaner.cleanings) == ([0, 1, 2], [], 0)
    rig.put_each([2])
    assert rig.clean() == 1


def test_a_cleaning_that_is_given_up_moves_nothing() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0])
    cleaning = rig.begin()
    rig.cleaner.give_up(cleaning)
    assert rig.cleaned_upto is None
    assert rig.clean() == 1


def test_a_cleaning_that_is_given_up_leaves_no_files_of_a_killed_worker() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0])
    cleaning = rig.begin()
    before = rig.names()
    for ending in (".log.cleaned", ".index.cleaned", ".timeindex.cleaned.tmp"):
        rig.disk.write_bytes(f"{rig.log.path}/{0:020d}{ending}", b"")
    rig.disk.write_bytes(f"{rig.log.path}/a.cleaned.tmp", b"")
    rig.cleaner.give_up(cleaning)
    assert sorted(rig.names()) == sorted([*before, "a.cleaned.tmp"]), "a name that no segment has is somebody else's"


def test_the_checkpoint_follows_a_cut() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1, 2, 0])
    rig.clean()
    rig.log.truncate_to(2)
    assert rig.disk.read_bytes(CHECKPOINT) == b"0\n1\nt 0 2\n"
    rig.put_each([1])
    rig.clean()
    assert rig.offsets() == [2]


def test_a_deleted_partition_leaves_the_checkpoint() -> None:
    rig = ManyRig()
    rig.partition(1, segments=2, clean=1)
    rig.partition(2, segments=2, clean=2)
    rig.manager.delete("t", 1)
    assert rig.disk.read_bytes(CHECKPOINT) == b"0\n1\nt 2 2\n"


def test_a_log_that_moves_is_not_compacted_meanwhile() -> None:
    """Its copy would hold records below where it counts as clean. What was cleaned before moves with it."""
    rig = ManyRig(segment_bytes=100)
    rig.put_each([0, 1, 2])
    rig.clean()
    rig.put_each([0, 1])
    cleaning = rig.begin()
    other = LogDirectory(rig.disk, "/other", rig.manager.open_files)
    rig.disk.makedirs("/other")
    future = create_future(other, rig.log, rig.manager.opening_of_future("t", 0, rig.topic_id))
    rig.manager.futures["t", 0] = future
    assert cleaning.is_void
    rig.cleaner.give_up(cleaning)
    assert rig.clean() == 0
    while (found := future.next_read()) is not None:
        for _ in future.take(found.read()):
            continue
    future.settle()
    future.swap()
    assert rig.disk.read_bytes(CHECKPOINT) == b"0\n0\n"
    assert rig.disk.read_bytes("/other/cleaner-offset-checkpoint") == b"0\n1\nt 0 3\n"


def test_a_checkpoint_of_any_bytes_means_that_nothing_is_clean() -> None:
    rig = CleanerRig()
    segments(rig, 2)
    rig.manager.close()
    rig.disk.write_bytes(CHECKPOINT, b"\xff\x00 nonsense")
    rig.start()
    assert rig.cleaned_upto is None
    assert rig.cleaner.clean_pass() == 1


@pytest.mark.parametrize(
    ("threads", "shares"),
    [
        (1, (4_000_000, 400.0, 262_144)),
        (2, (2_000_000, 200.0, 131_072)),
        (4, (1_000_000, 100.0, 65_536)),
        (8, (500_000, 50.0, 65_536)),
    ],
)
def test_settings_are_shared_by_the_threads(threads: int, shares: tuple[int, float, int]) -> None:
    rig = CleanerRig(cleaner=CleanerSettings(threads=threads, dedupe_buffer_size=4_000_000, io_max_bytes_per_second=400.0))
    segments(rig, 1)
    job = rig.begin().job
    assert (job.map_bytes, job.bytes_per_second, job.buffer_bytes) == shares


def test_a_map_is_no_larger_than_kafkas_may_be() -> None:
    rig = CleanerRig(cleaner=CleanerSettings(dedupe_buffer_size=2**33))
    segments(rig, 1)
    assert rig.begin().job.map_bytes == 2**31 - 1


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_settings_that_kafka_does_not_bound(value: float) -> None:
    rig = CleanerRig(cleaner=CleanerSettings(io_buffer_load_factor=value, io_max_bytes_per_second=value))
    rig.put_each([0, 1, 0])
    waited: list[float] = []
    rig.clean(throttle=lambda job: Throttle(job.bytes_per_second, lambda: 0.0, waited.append))
    assert rig.cleaner.uncleanable == {}
    assert rig.offsets() == [1, 2]
    assert sum(waited) > 0
