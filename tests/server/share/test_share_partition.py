"""These tests cover records in flight: acknowledged, released, timed out, archived; what is stored of them; and where a new
leader goes on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.server.base.clock import TURN_NS
from ottla.server.share.acknowledgement import Acknowledgement
from ottla.server.share.persister import ShareError
from ottla.server.share.states import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    NOBODY,
    REJECT,
    RELEASE,
    RENEW,
    RecordState,
)
from ottla.server.share_state.batches import StateBatch
from ottla.wire.errors import ErrorCode
from tests.fakes import ManualClock
from tests.server.share.support import LOCK_SECONDS, SETTINGS, MemoryPersister, Partition, given

TEN = [(0, 9)]


@pytest.fixture
def ten() -> Partition:
    """Makes a partition with ten records in one batch, all held by m."""
    partition = Partition(TEN)
    assert given(partition.acquire()) == [(0, 9, 1)]
    return partition


def refused(partition: Partition, code: ErrorCode, *acknowledgements: Acknowledgement, member: str = "m") -> str:
    """Returns the text of the refusal; nothing must have changed or been written."""
    before, writes = partition.states(), len(partition.persister.writes)
    with pytest.raises(ShareError) as caught:
        partition.share.acknowledge(member, acknowledgements)
    assert caught.value.code is code
    assert partition.states() == before
    assert len(partition.persister.writes) == writes
    return caught.value.message or ""


# Acknowledging


def test_all_accepted_the_start_moves_behind_and_nothing_is_in_flight(ten: Partition) -> None:
    ten.acknowledge(0, 9, ACCEPT)
    assert (ten.share.start, ten.share.end, ten.share.batches, ten.share.in_flight) == (10, 10, [], 0)
    assert ten.persister.writes == [[StateBatch(0, 9, 1, ACKNOWLEDGED)]]
    assert ten.share.next_fetch_offset() == 10


@pytest.mark.parametrize(("kind", "state"), [(GAP, ARCHIVED), (ACCEPT, ACKNOWLEDGED), (RELEASE, AVAILABLE), (REJECT, ARCHIVED)])
def test_each_type_of_acknowledgement(ten: Partition, kind: int, state: RecordState) -> None:
    ten.acknowledge(3, 5, kind)
    assert ten.states() == [(0, 2, ACQUIRED, 1, "m"), (3, 5, state, 1, NOBODY), (6, 9, ACQUIRED, 1, "m")]
    assert ten.persister.writes == [[StateBatch(3, 5, 1, state)]]


def test_a_type_for_each_offset(ten: Partition) -> None:
    ten.acknowledge(0, 9, *([ACCEPT] * 3 + [REJECT, GAP] + [RELEASE] * 5))
    assert (ten.share.start, ten.share.next_fetch_offset()) == (5, 5)
    assert ten.states() == [
        (0, 2, ACKNOWLEDGED, 1, NOBODY),
        (3, 4, ARCHIVED, 1, NOBODY),
        (5, 9, AVAILABLE, 1, NOBODY),
    ]


def test_the_start_moves_only_behind_what_is_done_from_the_front(ten: Partition) -> None:
    ten.acknowledge(5, 9, ACCEPT)
    assert ten.share.start == 0
    ten.acknowledge(0, 2, REJECT)
    assert ten.share.start == 3
    assert ten.share.delivery_complete_count == 5
    ten.acknowledge(3, 4, ACCEPT)
    assert ten.share.start == 10


def test_an_acknowledgement_over_several_batches() -> None:
    partition = Partition([(0, 9), (10, 19), (20, 29)])
    assert given(partition.acquire(batch_size=10)) == [(0, 9, 1), (10, 19, 1), (20, 29, 1)]
    partition.acknowledge(5, 24, ACCEPT)
    assert partition.share.start == 0
    partition.acknowledge(0, 4, ACCEPT)
    assert (partition.share.start, len(partition.share.batches)) == (25, 1)


@pytest.mark.parametrize("first_whole", [True, False])
def test_who_does_not_hold_it_is_refused(ten: Partition, first_whole: bool) -> None:
    if not first_whole:
        ten.acknowledge(0, 0, ACCEPT)
    refused(ten, ErrorCode.INVALID_RECORD_STATE, Acknowledgement(1, 9, [ACCEPT]), member="other")


def test_what_is_done_is_not_done_again(ten: Partition) -> None:
    ten.acknowledge(5, 9, ACCEPT)
    refused(ten, ErrorCode.INVALID_RECORD_STATE, Acknowledgement(5, 9, [ACCEPT]))
    refused(ten, ErrorCode.INVALID_RECORD_STATE, Acknowledgement(0, 9, [ACCEPT]))
    ten.acknowledge(0, 4, ACCEPT)
    ten.acknowledge(0, 9, ACCEPT)  # below the start: that is as good


def test_offsets_that_nobody_was_given(ten: Partition) -> None:
    assert "first offset" in refused(ten, ErrorCode.INVALID_REQUEST, Acknowledgement(10, 12, [ACCEPT]))
    assert "last offset" in refused(ten, ErrorCode.INVALID_REQUEST, Acknowledgement(5, 12, [ACCEPT]))
    empty = Partition()
    refused(empty, ErrorCode.INVALID_RECORD_STATE, Acknowledgement(5, 12, [ACCEPT]))


def test_one_bad_acknowledgement_takes_all_back(ten: Partition) -> None:
    refused(ten, ErrorCode.INVALID_REQUEST, Acknowledgement(0, 4, [ACCEPT]), Acknowledgement(5, 12, [ACCEPT]))
    ten.acknowledge(0, 9, ACCEPT)


def test_what_cannot_be_kept_does_not_happen(ten: Partition) -> None:
    ten.persister.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    refused(ten, ErrorCode.COORDINATOR_NOT_AVAILABLE, Acknowledgement(0, 9, [ACCEPT]))
    ten.persister.refusal = None
    ten.acknowledge(0, 9, ACCEPT)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH])
def test_fenced_is_not_the_leader(ten: Partition, code: ErrorCode) -> None:
    ten.persister.refusal = code
    refused(ten, ErrorCode.NOT_LEADER_OR_FOLLOWER, Acknowledgement(0, 9, [ACCEPT]))


def test_the_start_moves_over_a_gap_that_compaction_left() -> None:
    partition = Partition([(0, 4), (10, 14)])
    partition.acquire(batches=1)
    partition.acquire()
    partition.acknowledge(0, 4, ACCEPT)
    assert partition.share.start == 10


# Being tried again


def test_what_is_released_is_delivered_again_with_its_count_until_the_limit() -> None:
    partition = Partition([(0, 0)])
    for count in range(1, SETTINGS.delivery_count_limit + 1):
        assert given(partition.acquire()) == [(0, 0, count)]
        partition.acknowledge(0, 0, RELEASE)
    assert partition.acquire() == []
    assert partition.share.start == 1
    assert partition.persister.writes[-1] == [StateBatch(0, 0, SETTINGS.delivery_count_limit, ARCHIVED)]


def test_who_leaves_leaves_what_it_holds_to_others(ten: Partition) -> None:
    ten.acknowledge(0, 4, ACCEPT)
    ten.share.release("other")
    assert ten.share.next_fetch_offset() == 10
    ten.share.release("m")
    assert given(ten.acquire("other")) == [(5, 9, 2)]


def test_waiting_members_are_woken_by_what_is_available_again(ten: Partition) -> None:
    woken: list[str] = []
    ten.share.watchers["x"] = lambda: woken.append("x")
    ten.acknowledge(0, 0, RELEASE)
    assert (woken, ten.share.watchers) == (["x"], {})
    ten.share.watchers["y"] = lambda: woken.append("y")
    ten.clock.advance(LOCK_SECONDS)
    assert woken == ["x", "y"]


# Locks


def test_a_lock_that_is_over_makes_its_records_available(ten: Partition) -> None:
    ten.clock.advance(LOCK_SECONDS - 0.001)
    assert ten.acquire("other") == []
    ten.clock.advance(0.001)
    assert ten.persister.writes == [[StateBatch(0, 9, 1, AVAILABLE)]]
    assert given(ten.acquire("other")) == [(0, 9, 2)]
    refused(ten, ErrorCode.INVALID_RECORD_STATE, Acknowledgement(0, 9, [ACCEPT]))


def test_each_lock_has_its_own_end() -> None:
    partition = Partition([(0, 9), (10, 19)])
    partition.acquire("a", batches=1)
    partition.clock.advance(10)
    partition.acquire("b")
    partition.acknowledge(10, 14, ACCEPT, member="b")
    partition.clock.advance(LOCK_SECONDS - 10)
    assert partition.states()[0] == (0, 9, AVAILABLE, 1, NOBODY)
    assert partition.states()[-1] == (15, 19, ACQUIRED, 1, "b")
    partition.clock.advance(10)
    assert partition.states()[-1] == (15, 19, AVAILABLE, 1, NOBODY)


def test_a_lock_ends_even_if_that_cannot_be_kept(ten: Partition) -> None:
    ten.persister.refusal = ErrorCode.NOT_COORDINATOR
    ten.clock.advance(LOCK_SECONDS)
    assert ten.states() == [(0, 9, AVAILABLE, 1, NOBODY)]
    assert ten.persister.writes == []


def test_a_shorter_lock_after_a_longer_one_ends_first() -> None:
    partition = Partition([(0, 9), (10, 19)])
    partition.acquire(batches=1)
    partition.settings = replace(SETTINGS, record_lock_duration_ms=1000)
    partition.acquire()
    partition.clock.advance(1)
    assert [state for _, _, state, _, _ in partition.states()] == [ACQUIRED, AVAILABLE]


def test_a_renewed_lock_begins_anew_and_nothing_is_written(ten: Partition) -> None:
    ten.clock.advance(20)
    ten.acknowledge(0, 4, RENEW)
    assert ten.persister.writes == []
    ten.clock.advance(10)
    assert ten.states() == [(0, 4, ACQUIRED, 1, "m"), (5, 9, AVAILABLE, 1, NOBODY)]
    ten.clock.advance(20)
    assert [state for _, _, state, _, _ in ten.states()] == [AVAILABLE]


def test_renewing_may_be_forbidden(ten: Partition) -> None:
    ten.settings = replace(SETTINGS, renew_enabled=False)
    refused(ten, ErrorCode.INVALID_RECORD_STATE, Acknowledgement(0, 9, [RENEW]))


def test_nothing_rings_when_it_is_forgotten(ten: Partition) -> None:
    ten.share.close()
    ten.share.lock()
    assert ten.clock.waiting == 0
    ten.clock.advance(LOCK_SECONDS)
    assert ten.persister.writes == []


# The log's start


def test_the_logs_start_takes_what_is_available_with_it() -> None:
    partition = Partition([(0, 9), (10, 19)])
    partition.acquire(batch_size=10)
    partition.acknowledge(0, 19, RELEASE)
    partition.share.raise_start(15)
    assert (partition.share.start, partition.share.next_fetch_offset()) == (15, 15)
    assert given(partition.acquire()) == [(15, 19, 2)]


def test_the_logs_start_passes_everything(ten: Partition) -> None:
    ten.share.raise_start(50)
    assert (ten.share.start, ten.share.end, ten.share.next_fetch_offset()) == (50, 50, 50)
    ten.acknowledge(0, 9, ACCEPT)  # as good
    ten.clock.advance(LOCK_SECONDS)
    assert ten.states() == []
    assert ten.persister.batches == ()


def test_what_is_held_below_the_logs_start_is_archived_when_its_lock_ends(ten: Partition) -> None:
    ten.share.raise_start(5)
    ten.clock.advance(LOCK_SECONDS)
    assert ten.persister.writes == [[StateBatch(0, 4, 1, ARCHIVED), StateBatch(5, 9, 1, AVAILABLE)]]


# Where a new leader goes on


def test_what_was_acknowledged_survives_and_the_rest_is_delivered_again(ten: Partition) -> None:
    ten.acknowledge(2, 5, ACCEPT)
    ten.restart()
    assert (ten.share.start, ten.share.end) == (0, 5)
    assert ten.share.next_fetch_offset() == 0
    assert given(ten.acquire()) == [(0, 1, 1), (6, 9, 1)]
    ten.acknowledge(0, 1, ACCEPT)
    ten.acknowledge(6, 9, ACCEPT)
    assert ten.share.start == 10


def test_counts_survive_where_they_were_written(ten: Partition) -> None:
    ten.acknowledge(0, 9, RELEASE)
    ten.acquire()
    ten.restart()
    assert given(ten.acquire()) == [(0, 9, 2)]


def test_all_done_but_a_gap_the_start_stays_before_it() -> None:
    persister = MemoryPersister(0, [StateBatch(10, 19, 1, ACKNOWLEDGED)])
    partition = Partition([(0, 9), (10, 19), (20, 29)], persister=persister)
    assert (partition.share.start, partition.share.next_fetch_offset()) == (0, 0)
    assert given(partition.acquire(batches=1)) == [(0, 9, 1)]
    partition.acknowledge(0, 9, ACCEPT)
    assert partition.share.start == 20


def test_a_gap_that_compaction_left_is_looked_at_once() -> None:
    persister = MemoryPersister(0, [StateBatch(0, 4, 1, ACKNOWLEDGED), StateBatch(10, 14, 1, AVAILABLE)])
    partition = Partition([(0, 4), (10, 14), (15, 19)], persister=persister)
    assert (partition.share.start, partition.share.next_fetch_offset()) == (5, 5)
    assert given(partition.acquire(batches=1)) == [(10, 14, 2)]
    assert partition.share.next_fetch_offset() == 15
    partition.acknowledge(10, 14, ACCEPT)
    assert partition.share.start == 15


def test_a_share_partition_that_has_not_begun_starts_at_the_given_offset() -> None:
    partition = Partition(persister=MemoryPersister(start_offset=-1))
    partition.share.load(lambda: 7, 100)
    assert (partition.share.start, partition.share.next_fetch_offset()) == (7, 7)


@pytest.mark.parametrize("kept", [StateBatch(0, 9, 1, ACKNOWLEDGED), StateBatch(9, 8, 1, ACKNOWLEDGED), StateBatch(6, 9, 1, 7)])
def test_a_state_that_makes_no_sense_is_refused(kept: StateBatch) -> None:
    with pytest.raises(ShareError) as caught:
        Partition(persister=MemoryPersister(5, [kept]))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_who_held_something_then_is_not_known() -> None:
    partition = Partition(TEN, persister=MemoryPersister(0, [StateBatch(0, 9, 2, ACQUIRED)]))
    assert given(partition.acquire()) == [(0, 9, 3)]


def test_a_log_that_lost_its_end() -> None:
    """New records get offsets that the group had done before the log lost its end; these are not done."""
    persister = MemoryPersister(2, [StateBatch(4, 11, 1, ACKNOWLEDGED), StateBatch(14, 15, 1, ACKNOWLEDGED)])
    partition = Partition(TEN, persister=persister)
    assert given(partition.acquire()) == [(2, 3, 1)]
    partition.log.append((10, 19))
    assert given(partition.acquire()) == [(10, 19, 1)]
    behind = Partition(TEN, persister=MemoryPersister(start_offset=50))
    assert (behind.share.start, behind.share.next_fetch_offset()) == (10, 10)


# Many


class SlowPersister(MemoryPersister):
    """Takes a turn for each write."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def write(self, *arguments: Any, **options: Any) -> None:
        super().write(*arguments, **options)
        self._clock.spend(TURN_NS / 1e9)


def test_locks_that_end_together_end_in_turns() -> None:
    clock = ManualClock()
    partitions = [Partition(TEN, persister=SlowPersister(clock), clock=clock) for _ in range(5)]
    for partition in partitions:
        partition.acquire()
    clock.advance(LOCK_SECONDS)
    ended = [len(partition.persister.writes) for partition in partitions]
    assert 0 < sum(ended) < 5
    partitions[4].share.close()
    for _ in range(5):
        clock.advance()
    assert [len(partition.persister.writes) for partition in partitions] == [1, 1, 1, 1, 0], "a closed one is left alone"


def test_acknowledgements_can_be_checked_before_they_are_carried_out(ten: Partition) -> None:
    check = ten.share.check_acknowledged
    check("m", [Acknowledgement(0, 4, [ACCEPT]), Acknowledgement(5, 9, [RELEASE] * 5)])
    ten.acknowledge(0, 4, ACCEPT)
    check("m", [Acknowledgement(0, 4, [ACCEPT]), Acknowledgement(5, 9, [ACCEPT])])
    ten.acknowledge(7, 7, RELEASE)
    for wrong, member, code in (
        (Acknowledgement(5, 9, [ACCEPT]), "m", ErrorCode.INVALID_RECORD_STATE),
        (Acknowledgement(5, 5, [ACCEPT]), "other", ErrorCode.INVALID_RECORD_STATE),
        (Acknowledgement(8, 10, [ACCEPT]), "m", ErrorCode.INVALID_REQUEST),
    ):
        states = ten.states()
        with pytest.raises(ShareError) as caught:
            check(member, [wrong])
        assert caught.value.code is code
        assert ten.states() == states
