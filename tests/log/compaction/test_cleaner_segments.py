"""Compaction and segments: how they are grouped, what the new ones are like, and what else may happen to a log meanwhile."""

from __future__ import annotations

from ottla.log.compaction.cleaner import Cleaner, Throttle
from ottla.log.management.passes import retention_steps, run_pass
from tests.log.compaction.cleaning import BATCH_BYTES, CleanerRig, cleaned_groups
from tests.log.support import NOW_MS

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


def test_a_read_of_an_offset_that_is_gone_begins_at_the_next() -> None:
    rig = CleanerRig(segment_bytes=5 * BATCH_BYTES)
    rig.put_each([0] * 20 + [1])
    rig.clean()
    assert rig.read(0) == [19, 20]
    assert rig.read(7) == [19, 20]


# What may happen meanwhile


def test_retention_leaves_a_log_in_cleaning_alone() -> None:
    rig = CleanerRig(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1_000)
    rig.put_each([0, 1])
    cleaning = rig.begin()
    groups = cleaned_groups(rig, cleaning)
    rig.now_ms += 10_000
    assert run_pass(retention_steps(rig.manager, rig.now_ms)) == 0
    for group in groups:
        assert rig.cleaner.swap(cleaning, group).run()
    rig.cleaner.give_up(cleaning)
    assert run_pass(retention_steps(rig.manager, rig.now_ms)) == 1


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
