"""log/compaction/plan.py: how far a log may be cleaned, and whether it is due. test_cleaner_scenarios.py lists Kafka's cases."""

from __future__ import annotations

import pytest

from ottla.log.compaction.plan import CleaningPlan, is_due, plan
from ottla.log.disk import checkpoint
from tests.log.compaction.cleaning import COMPACT, CleanerRig, segments
from tests.log.support import NOW_MS

DELETE = frozenset({"delete"})
CHECKPOINT = "/data/cleaner-offset-checkpoint"


def planned(rig: CleanerRig, cleaned_upto: int | None = None) -> CleaningPlan:
    return plan(rig.log, cleaned_upto, rig.now_ms)


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
    rig.log.replicate_by(lambda end_offset: True)  # other replicas count
    segments(rig, 3)
    rig.log.raise_high_watermark(1)
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
    found = planned(rig, 2)
    assert (found.dirty_offset, found.checkpoint_is_wrong) == (2, False)


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


@pytest.mark.parametrize(("first_ms", "waits"), [(-1, False), (0, False), (1, True)])
def test_only_a_positive_time_says_since_when_a_segment_is_dirty(first_ms: int, waits: bool) -> None:
    rig = CleanerRig(max_compaction_lag_ms=10_000)
    rig.put((b"0", b"v"), timestamps=[first_ms])
    rig.roll()
    assert planned(rig).delay_ms == (rig.now_ms - 10_000 - first_ms if waits else 0)


# Deleting


# The checkpoint
