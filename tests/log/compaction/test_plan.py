"""Which log is cleaned next and how far. test_cleaner_scenarios.py has the list of Kafka's own cases."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.compaction.cleaner import Throttle
from ottla.log.compaction.cleaner_manager import CleanerSettings, LogCleaner
from ottla.log.compaction.plan import CleaningPlan, is_due, plan
from ottla.log.disk import checkpoint
from ottla.log.disk.directory import LogDirectory
from ottla.log.moving import create_future
from ottla.log.partition import PartitionLog
from tests.log.compaction.cleaning import COMPACT, CleanerRig, compacted
from tests.log.support import NOW_MS, batch

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


def planned(rig: CleanerRig, cleaned_upto: int | None = None) -> CleaningPlan:
    return plan(rig.log, cleaned_upto, rig.now_ms)


def segments(rig: CleanerRig, count: int, step_ms: int = 0) -> None:
    for key in range(count):
        rig.put_each([key])
        rig.roll()
        rig.now_ms += step_ms


# How far


def test_without_a_checkpoint_everything_is_dirty() -> None:
    rig = CleanerRig()
    segments(rig, 3)
    found = planned(rig)
    assert (found.dirty_offset, found.uncleanable_offset, found.checkpoint_is_wrong) == (0, 3, False)
    assert (found.clean_bytes, found.cleanable_bytes) == (0, rig.log.size_bytes)
    assert found.dirty_ratio == 1.0


def test_an_empty_log() -> None:
    found = planned(CleanerRig())
    assert (found.dirty_offset, found.uncleanable_offset, found.dirty_ratio) == (0, 0, 0.0)


def test_the_ratio_is_of_clean_and_cleanable_bytes() -> None:
    rig = CleanerRig()
    segments(rig, 4)
    rig.put_each([9])
    found = planned(rig, 3)
    assert found.clean_bytes == 3 * found.cleanable_bytes
    assert found.dirty_ratio == 0.25


def test_the_active_segment_is_never_cleanable() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1])
    assert planned(rig).uncleanable_offset == 0
    assert planned(rig).cleanable_bytes == 0


def test_the_segment_with_the_last_stable_offset_is_not_cleanable() -> None:
    rig = CleanerRig()
    segments(rig, 2)
    rig.put_each([2])
    rig.put((b"9", b"v"), producer=(1, 0, 0), transactional=True)
    rig.roll()
    segments(rig, 2)
    assert planned(rig).uncleanable_offset == 2
    rig.end(1, commit=True)
    rig.roll()
    assert planned(rig).uncleanable_offset == rig.log.log_end_offset


def test_nothing_beyond_the_high_watermark() -> None:
    rig = CleanerRig()
    segments(rig, 3)
    rig.log.on_append = lambda end_offset: True  # other replicas count
    rig.log.high_watermark = 1
    assert planned(rig).uncleanable_offset == 1


def test_records_younger_than_min_compaction_lag() -> None:
    rig = CleanerRig(min_compaction_lag_ms=2_000)
    segments(rig, 4, step_ms=1_000)
    assert planned(rig).uncleanable_offset == 3, "written 4, 3 and 2 s ago; the last is too young"
    rig.now_ms -= 1
    assert planned(rig).uncleanable_offset == 2
    rig.now_ms += 60_000
    assert planned(rig).uncleanable_offset == 4
    rig.now_ms = NOW_MS
    assert planned(rig).uncleanable_offset == 0


def test_one_young_record_holds_back_what_follows() -> None:
    rig = CleanerRig(min_compaction_lag_ms=1_000)
    for age_ms in (5_000, 10, 5_000):
        rig.put((b"0", b"v"), timestamps=[NOW_MS - age_ms])
        rig.roll()
    assert planned(rig).uncleanable_offset == 1


# Checkpoints that cannot be


def test_a_checkpoint_beyond_the_logs_end() -> None:
    rig = CleanerRig()
    segments(rig, 3)
    found = planned(rig, 100)
    assert (found.dirty_offset, found.uncleanable_offset, found.checkpoint_is_wrong) == (0, 3, True)


@pytest.mark.parametrize("policy", [COMPACT, COMPACT | DELETE])
def test_a_checkpoint_below_the_logs_start(policy: frozenset[str]) -> None:
    rig = CleanerRig(cleanup_policy=policy)
    segments(rig, 3)
    rig.log.raise_log_start_offset(2)
    found = planned(rig, 1)
    assert (found.dirty_offset, found.checkpoint_is_wrong) == (2, True)


def test_a_wrong_checkpoint_is_written_anew_although_nothing_is_cleaned() -> None:
    rig = CleanerRig(min_cleanable_dirty_ratio=1.0)
    segments(rig, 2)
    rig.log.directory.set_cleaned(("t", 0), 77)
    assert rig.cleaner.next_cleaning() is None
    assert checkpoint.read_offsets(rig.disk, CHECKPOINT) == {("t", 0): 0}


def test_a_log_that_begins_in_its_active_segment() -> None:
    rig = CleanerRig()
    segments(rig, 2)
    rig.put_each([3, 4])
    rig.log.raise_log_start_offset(3)
    found = planned(rig)
    assert (found.dirty_offset, found.uncleanable_offset, found.cleanable_bytes) == (3, 2, 0)
    assert rig.cleaner.next_cleaning() is None


def test_a_checkpoint_in_the_active_segment() -> None:
    rig = CleanerRig()
    segments(rig, 2)
    rig.put_each([3, 4])
    found = planned(rig, 3)
    assert (found.dirty_offset, found.cleanable_bytes, found.checkpoint_is_wrong) == (3, 0, False)


# When


def test_more_than_the_ratio_is_due() -> None:
    rig = CleanerRig(min_cleanable_dirty_ratio=0.5)
    segments(rig, 4)
    assert not is_due(rig.log, planned(rig, 2)), "half is not more than half"
    assert is_due(rig.log, planned(rig, 1))


def test_max_compaction_lag_makes_a_little_dirt_due() -> None:
    rig = CleanerRig(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=10_000)
    segments(rig, 3, step_ms=1_000)
    assert planned(rig, 2).delay_ms == 0
    rig.now_ms = NOW_MS + 2_000 + 10_000
    assert not is_due(rig.log, planned(rig, 2))
    rig.now_ms += 5
    assert planned(rig, 2).delay_ms == 5
    assert is_due(rig.log, planned(rig, 2))
    assert not is_due(rig.log, planned(rig, 3)), "clean"
    assert rig.cleaner.next_cleaning() is not None
    assert rig.cleaner.max_delay_ms == 2_005


def test_the_dirtiest_goes_first() -> None:
    rig = ManyRig()
    rig.partition(1, segments=4, clean=3)
    rig.partition(2, segments=4, clean=1)
    rig.partition(3, segments=4, clean=2)
    cleaner = LogCleaner(rig.manager, lambda: rig.now_ms)
    order = [cleaner.next_cleaning() for _ in range(4)]
    assert [cleaning and cleaning.partition[1] for cleaning in order] == [2, 3, 1, None]
    assert cleaner.max_dirty_ratio == 0.0, "all that are not in cleaning"
    assert rig.manager.in_cleaning == {("t", 1), ("t", 2), ("t", 3)}


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


# Deleting


def test_delete_old_is_for_compacted_logs_that_nobody_cleans() -> None:
    rig = ManyRig(segment_bytes=100)
    both = rig.partition(1, segments=3, cleanup_policy=COMPACT | DELETE, retention_ms=10)
    compact = rig.partition(2, segments=3, retention_ms=10)
    deleted = rig.partition(3, segments=3, cleanup_policy=DELETE, retention_ms=10)
    compact.raise_log_start_offset(2)
    rig.now_ms += 100
    rig.manager.in_cleaning.add(("t", 1))
    assert rig.cleaner.delete_old() == 2, "only what lies below the start of the compacted one"
    rig.manager.in_cleaning.clear()
    assert rig.cleaner.delete_old() == 3
    assert [log.first_base_offset for log in (both, compact, deleted)] == [3, 2, 0]


# The checkpoint


def test_where_a_cleaning_ended_is_written_down_and_read_at_the_next_start() -> None:
    rig = CleanerRig()
    rig.put_each([0, 1, 0])
    rig.clean()
    assert rig.disk.read_bytes(CHECKPOINT) == b"0\n1\nt 0 3\n"
    rig.restart(clean=False)
    assert rig.cleaned_upto == 3
    assert rig.cleaner.next_cleaning() is None


def test_a_cleaning_that_is_given_up_moves_nothing() -> None:
    rig = CleanerRig()
    rig.put_each([0, 0])
    cleaning = rig.begin()
    rig.cleaner.give_up(cleaning)
    assert rig.cleaned_upto is None
    assert rig.clean() == 1


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


def test_settings_are_shared_by_the_threads() -> None:
    rig = CleanerRig(cleaner=CleanerSettings(threads=4, dedupe_buffer_size=4_000_000, io_max_bytes_per_second=400.0))
    segments(rig, 1)
    job = rig.begin().job
    assert (job.map_bytes, job.bytes_per_second, job.buffer_bytes) == (1_000_000, 100.0, 65_536)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_settings_that_kafka_does_not_bound(value: float) -> None:
    rig = CleanerRig(cleaner=CleanerSettings(io_buffer_load_factor=value, io_max_bytes_per_second=value))
    rig.put_each([0, 1, 0])
    waited: list[float] = []
    rig.clean(throttle=lambda job: Throttle(job.bytes_per_second, lambda: 0.0, waited.append))
    assert rig.cleaner.uncleanable == {}
    assert rig.offsets() == [1, 2]
    assert sum(waited) > 0
