"""These tests cover how records are acquired: whole batches and strict limits, room, records that are available again, gaps, and
records that were delivered often.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.server.share.acquiring import throttling_threshold
from ottla.server.share.states import ACCEPT, ACKNOWLEDGED, ACQUIRED, AVAILABLE, NOBODY, RELEASE
from ottla.server.share_state.batches import StateBatch
from tests.server.share.support import LOCK_SECONDS, SETTINGS, MemoryPersister, Partition, given

THREE = [(0, 9), (10, 19), (20, 29)]


# What is new


def test_batches_of_the_log_come_as_one_while_they_are_below_the_members_batch_size() -> None:
    assert given(Partition(THREE).acquire()) == [(0, 29, 1)]


@pytest.mark.parametrize(
    ("batch_size", "expected"),
    [
        (1, [(0, 9, 1), (10, 19, 1), (20, 29, 1)]),
        (10, [(0, 9, 1), (10, 19, 1), (20, 29, 1)]),
        (11, [(0, 19, 1), (20, 29, 1)]),
        (29, [(0, 29, 1)]),
        (0, [(0, 9, 1), (10, 19, 1), (20, 29, 1)]),
    ],
)
def test_they_are_parted_between_batches_of_the_log(batch_size: int, expected: list[tuple[int, int, int]]) -> None:
    assert given(Partition(THREE).acquire(batch_size=batch_size)) == expected


@pytest.mark.parametrize(("max_records", "last"), [(1, 9), (10, 9), (11, 19), (29, 29), (1000, 29)])
def test_a_limit_of_records_is_met_at_the_end_of_a_batch(max_records: int, last: int) -> None:
    assert given(Partition(THREE).acquire(max_records=max_records)) == [(0, last, 1)]


def test_a_strict_limit_is_kept_and_the_rest_is_for_the_next() -> None:
    partition = Partition(THREE)
    assert given(partition.acquire("a", 4, strict=True)) == [(0, 3, 1)]
    assert partition.states() == [(0, 3, ACQUIRED, 1, "a"), (4, 9, AVAILABLE, 0, NOBODY)]
    assert given(partition.acquire("b", 8, strict=True)) == [(4, 9, 1), (10, 11, 1)]
    assert given(partition.acquire("c", 100, strict=True)) == [(12, 19, 1), (20, 29, 1)]


def test_nothing_is_handed_out_twice() -> None:
    partition = Partition(THREE)
    assert given(partition.acquire("a", batches=1)) == [(0, 9, 1)]
    assert given(partition.acquire("b", batches=1)) == [(10, 19, 1)]
    assert given(partition.acquire("a")) == [(20, 29, 1)]
    assert partition.acquire("b") == []


def test_no_more_than_the_room_for_locks() -> None:
    partition = Partition([(0, 99), (100, 199)], settings=replace(SETTINGS, max_record_locks=100))
    assert given(partition.acquire("a")) == [(0, 99, 1)]
    assert not partition.share.can_acquire()
    partition.acknowledge(50, 50, RELEASE, member="a")
    assert given(partition.acquire("b")) == [(50, 50, 2)]
    assert not partition.share.can_acquire()
    partition.acknowledge(0, 0, ACCEPT, member="a")
    assert given(partition.acquire("b")) == [(100, 199, 1)]


def test_an_offset_below_the_start_is_not_handed_out() -> None:
    partition = Partition([(0, 9)], persister=MemoryPersister(start_offset=5))
    assert given(partition.acquire()) == [(5, 9, 1)]


def test_gaps_between_batches_are_handed_out_with_them() -> None:
    """Members acknowledge them as gaps."""
    assert given(Partition([(0, 9), (20, 29)]).acquire()) == [(0, 29, 1)]


# What is available again


def test_batches_come_again_as_they_were_and_new_ones_behind_them() -> None:
    partition = Partition(THREE)
    partition.acquire(batch_size=10, batches=2)
    partition.acknowledge(0, 19, RELEASE)
    assert given(partition.acquire()) == [(0, 9, 2), (10, 19, 2), (20, 29, 1)]


def test_only_what_was_released_comes_again() -> None:
    partition = Partition(THREE)
    partition.acquire()
    partition.acknowledge(3, 5, RELEASE)
    partition.acknowledge(8, 8, RELEASE)
    assert given(partition.acquire("b")) == [(3, 5, 2), (8, 8, 2)]


def test_offsets_with_different_counts_come_apart() -> None:
    partition = Partition([(0, 9)])
    partition.acquire()
    partition.acknowledge(0, 4, RELEASE)
    partition.acquire("b")
    partition.acknowledge(0, 4, RELEASE, member="b")
    partition.acknowledge(5, 9, RELEASE)
    assert given(partition.acquire()) == [(0, 4, 3), (5, 9, 2)]


def test_a_strict_limit_takes_a_part_of_a_batch() -> None:
    partition = Partition([(0, 9)])
    partition.acquire()
    partition.acknowledge(0, 9, RELEASE)
    assert given(partition.acquire(max_records=3, strict=True)) == [(0, 2, 2)]


def test_what_compaction_took_is_archived() -> None:
    partition = Partition(THREE)
    partition.acquire(batch_size=10)
    partition.acknowledge(0, 29, RELEASE)
    partition.log = [(20, 29)]
    assert given(partition.acquire()) == [(20, 29, 2)]
    partition.acknowledge(20, 29, ACCEPT)
    assert partition.share.start == 30


def test_a_gap_of_what_was_kept_is_handed_out_up_to_the_next_batch() -> None:
    persister = MemoryPersister(0, [StateBatch(5, 7, 1, ACKNOWLEDGED), StateBatch(15, 16, 1, ACKNOWLEDGED)])
    partition = Partition(THREE, persister=persister)
    assert given(partition.acquire(max_records=1)) == [(0, 4, 1)]
    assert partition.share.next_fetch_offset() == 8
    assert given(partition.acquire()) == [(8, 14, 1), (17, 29, 1)]
    partition.acknowledge(0, 4, ACCEPT)
    partition.acknowledge(8, 14, ACCEPT)
    partition.acknowledge(17, 29, ACCEPT)
    assert (partition.share.start, partition.share.batches) == (30, [])


def test_each_gap_that_compaction_left_is_looked_at_once_even_before_a_single_record() -> None:
    persister = MemoryPersister(0, [StateBatch(0, 4, 1, ACKNOWLEDGED), *(StateBatch(at, at, 1, AVAILABLE) for at in (10, 20))])
    partition = Partition([(0, 4), (10, 10), (20, 20), (21, 29)], persister=persister)
    asked = []
    for expected in ((10, 10, 2), (20, 20, 2), (21, 29, 1)):
        asked.append(partition.share.next_fetch_offset())
        assert given(partition.acquire(batches=1)) == [expected]
    assert asked == [5, 11, 21], "it reads on behind each record"


# What was tried often


@pytest.mark.parametrize(("limit", "threshold"), [(2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (10, 5)])
def test_portions_shrink_from_half_of_the_limit_on(limit: int, threshold: int) -> None:
    assert throttling_threshold(limit) == threshold


def test_a_batch_that_fails_again_and_again_comes_in_ever_smaller_portions_and_alone_at_last() -> None:
    partition = Partition([(0, 99)])
    sizes = []
    for _ in range(8):
        acquired = partition.acquire()
        sizes.append([(each.size, each.delivery_count) for each in acquired])
        for each in acquired:
            partition.acknowledge(each.first, each.last, RELEASE)
    assert sizes == [[(100, 1)], [(100, 2)], [(100, 3)], [(50, 4)], [(1, 5)], [(1, 5)], [(1, 5)], [(1, 5)]]


def test_half_of_a_batch_of_three_is_one_record() -> None:
    partition = Partition([(0, 2)], settings=replace(SETTINGS, delivery_count_limit=10))
    for _ in range(5):
        assert [each.size for each in partition.acquire()] == [3]
        partition.acknowledge(0, 2, RELEASE)
    assert given(partition.acquire()) == [(0, 0, 6)]


def test_others_wait_while_one_is_tried_alone() -> None:
    partition = Partition([(0, 0), (1, 1), (2, 2)])
    partition.acquire(batch_size=1)
    for _ in range(2):
        partition.acknowledge(1, 1, RELEASE)
        partition.acquire()
    partition.acknowledge(0, 0, RELEASE)
    partition.acknowledge(1, 1, RELEASE)
    assert given(partition.acquire()) == [(0, 0, 2)]
    assert given(partition.acquire()) == [(1, 1, 4)]


def test_with_a_limit_of_two_nothing_comes_alone() -> None:
    partition = Partition([(0, 9)], settings=replace(SETTINGS, delivery_count_limit=2))
    partition.acquire()
    partition.clock.advance(LOCK_SECONDS)
    assert given(partition.acquire()) == [(0, 9, 2)]
