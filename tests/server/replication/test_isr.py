"""These tests cover who is in sync: each rule with its boundary, and what follows each answer of the controllers."""

from __future__ import annotations

import pytest

from ottla.server.partitions.roles import Leader
from ottla.server.replication.isr import State
from ottla.wire.errors import ErrorCode
from tests.fakes import NODE_ID
from tests.followers import THREE, TWO
from tests.leader import LAG, Cluster

ALL = {NODE_ID, TWO, THREE}
E = ErrorCode


# Who may join


def test_a_follower_joins_at_the_high_watermark_and_not_below() -> None:
    cluster = Cluster(TWO)
    cluster.append(5)
    cluster.fetch(TWO, 4)
    cluster.fetch(THREE, 3)
    assert cluster.controllers.open == []
    cluster.fetch(THREE, 4)
    assert cluster.controllers.isr == {NODE_ID: NODE_ID, TWO: TWO, THREE: THREE}
    assert cluster.isr.state is State.EXPANDING


def test_it_has_to_have_all_that_earlier_leaders_wrote() -> None:
    cluster = Cluster(TWO)
    cluster.append(5)
    cluster.fetch(TWO, 3)
    cluster.change(leader=TWO)
    cluster.change(leader=NODE_ID)
    cluster.append(1)
    assert (cluster.replica.log.high_watermark, cluster.replica.log.log_end_offset) == (3, 6)
    cluster.fetch(THREE, 4)
    assert cluster.controllers.open == []
    cluster.fetch(THREE, 5)
    assert set(cluster.controllers.isr) == ALL


def test_a_fenced_broker_does_not_join() -> None:
    cluster = Cluster(TWO)
    cluster.fence(THREE)
    cluster.fetch(THREE, 0)
    assert cluster.controllers.open == []


def test_a_broker_that_is_about_to_stop_does_not_join() -> None:
    cluster = Cluster(TWO)
    cluster.begin_shutdown(THREE)
    cluster.fetch(THREE, 0)
    assert cluster.controllers.open == []


@pytest.mark.parametrize(("epoch", "joins"), [(THREE, True), (-1, True), (THREE + 1, False)])
def test_its_fetch_has_the_broker_epoch_of_the_metadata_or_none(epoch: int, joins: bool) -> None:
    cluster = Cluster(TWO)
    assert cluster.fetch(THREE, 0, epoch)
    assert bool(cluster.controllers.open) == joins
    if joins:
        assert cluster.controllers.isr[THREE] == epoch


def test_a_fetch_of_an_earlier_life_says_nothing() -> None:
    cluster = Cluster(TWO)
    assert not cluster.fetch(THREE, 0, THREE - 1)
    assert cluster.high_watermark.followers[THREE].broker_epoch is None
    assert cluster.controllers.open == []


def test_who_is_in_sync_is_not_proposed() -> None:
    cluster = Cluster(TWO, THREE)
    cluster.fetch(TWO, 0)
    assert cluster.controllers.open == []


# Who falls out


@pytest.mark.parametrize(("seconds", "out"), [(LAG, False), (LAG + 0.001, True)])
def test_a_follower_that_is_behind_falls_out_after_the_lag(seconds: float, out: bool) -> None:
    cluster = Cluster(TWO, THREE)
    cluster.append(1)
    cluster.fetch(TWO, 1)
    cluster.advance(seconds)
    cluster.shrink()
    assert bool(cluster.controllers.open) == out
    if out:
        assert cluster.controllers.isr == {NODE_ID: NODE_ID, TWO: TWO}
        assert cluster.isr.state is State.SHRINKING


def test_at_the_end_of_the_log_it_stays_however_long_nothing_comes() -> None:
    cluster = Cluster(TWO, THREE)
    cluster.append(1)
    cluster.fetch(TWO, 1)
    cluster.fetch(THREE, 1)
    cluster.advance(1000 * LAG)
    cluster.shrink()
    assert cluster.controllers.open == []


def test_all_that_are_behind_fall_out_at_once_and_the_leader_never() -> None:
    cluster = Cluster(TWO, THREE)
    cluster.append(1)
    cluster.advance(LAG + 1)
    cluster.shrink()
    assert cluster.controllers.isr == {NODE_ID: NODE_ID}


def test_who_fetched_without_an_epoch_that_we_know_is_named_without_one() -> None:
    cluster = Cluster(TWO, THREE)
    cluster.append(1)
    cluster.advance(LAG + 1)
    cluster.fetch(TWO, 1, -1)
    cluster.shrink()
    assert cluster.controllers.isr == {NODE_ID: NODE_ID, TWO: -1}


# What counts meanwhile


def test_a_follower_that_is_proposed_counts_at_once() -> None:
    cluster = Cluster(TWO)
    cluster.fetch(THREE, 0)
    cluster.append(2)
    cluster.fetch(TWO, 2)
    assert cluster.replica.log.high_watermark == 0
    cluster.fetch(THREE, 1)
    assert cluster.replica.log.high_watermark == 1


def test_one_that_falls_out_counts_until_the_controllers_say_so() -> None:
    cluster = Cluster(TWO, THREE)
    cluster.append(1)
    cluster.fetch(TWO, 1)
    cluster.advance(LAG + 1)
    cluster.shrink()
    assert cluster.replica.log.high_watermark == 0
    cluster.controllers.answer()
    assert cluster.replica.log.high_watermark == 1
    assert cluster.high_watermark.in_sync == {NODE_ID, TWO}


def test_min_insync_replicas_goes_by_what_is_written_down() -> None:
    cluster = Cluster(min_insync_replicas=2)
    assert cluster.replica.under_min_isr
    cluster.fetch(TWO, 0)
    assert cluster.replica.under_min_isr
    cluster.controllers.answer()
    assert not cluster.replica.under_min_isr


def test_the_high_watermark_waits_for_one_that_is_about_to_join() -> None:
    cluster = Cluster(TWO)
    cluster.append(2)
    cluster.fetch(TWO, 1)
    assert cluster.replica.log.high_watermark == 1
    cluster.high_watermark.followers[THREE].caught_up_at = cluster.broker.clock.monotonic()
    cluster.high_watermark.followers[THREE].broker_epoch = THREE
    cluster.high_watermark.followers[THREE].end_offset = 0
    cluster.fetch(TWO, 2)
    assert cluster.replica.log.high_watermark == 1
    cluster.advance(LAG)
    cluster.shrink()
    assert cluster.replica.log.high_watermark == 1
    cluster.advance(0.001)
    cluster.shrink()
    assert cluster.replica.log.high_watermark == 2


def test_but_not_for_one_that_may_not_join() -> None:
    cluster = Cluster(TWO)
    cluster.append(2)
    cluster.fence(THREE)
    state = cluster.high_watermark.followers[THREE]
    state.caught_up_at, state.broker_epoch, state.end_offset = cluster.broker.clock.monotonic(), THREE, 0
    cluster.fetch(TWO, 2)
    assert cluster.replica.log.high_watermark == 2


# One proposal at a time


def test_nothing_else_is_proposed_until_the_answer() -> None:
    cluster = Cluster()
    cluster.fetch(TWO, 0)
    cluster.fetch(THREE, 0)
    cluster.append(1)
    cluster.advance(LAG + 1)
    cluster.shrink()
    assert len(cluster.controllers.open) == 1
    cluster.controllers.answer()
    cluster.fetch(THREE, 1)
    assert set(cluster.controllers.isr) == ALL


def test_a_proposal_names_the_epochs() -> None:
    cluster = Cluster(TWO)
    cluster.change(leader=NODE_ID)
    cluster.fetch(THREE, 0)
    ((change, _),) = cluster.controllers.open
    image = cluster.broker.image.partition("t", 0)
    assert image is not None
    assert (change.topic_id, change.partition) == (cluster.broker.topic_id("t"), 0)
    assert (change.leader_epoch, change.partition_epoch) == (image.leader_epoch, image.partition_epoch)


def test_new_metadata_end_a_proposal_and_its_answer_counts_no_more() -> None:
    cluster = Cluster(TWO)
    cluster.fetch(THREE, 0)
    cluster.change(isr=[NODE_ID])
    assert cluster.isr.state is State.COMMITTED
    cluster.controllers.answer()
    assert cluster.high_watermark.in_sync == {NODE_ID}


def test_an_answer_counts_before_the_metadata_come() -> None:
    cluster = Cluster(TWO)
    cluster.fetch(THREE, 0)
    cluster.controllers.answer()
    assert cluster.high_watermark.in_sync == ALL
    cluster.change(isr=sorted(ALL))
    assert cluster.high_watermark.in_sync == ALL
    assert cluster.leading.expands == 1


def test_metadata_of_an_answer_do_not_end_what_was_proposed_after_it() -> None:
    """The controllers may have written the second proposal down: its follower must go on to count."""
    cluster = Cluster()
    cluster.fetch(TWO, 0)
    cluster.controllers.answer()
    cluster.fetch(THREE, 0)
    cluster.change(isr=[NODE_ID, TWO])
    assert cluster.isr.state is State.EXPANDING
    cluster.append(1)
    cluster.fetch(TWO, 1)
    assert cluster.replica.log.high_watermark == 0
    cluster.controllers.answer()
    assert cluster.high_watermark.in_sync == ALL
    cluster.fetch(THREE, 1)
    assert cluster.replica.log.high_watermark == 1


# Errors


@pytest.mark.parametrize("error", [E.OPERATION_NOT_ATTEMPTED, E.INELIGIBLE_REPLICA])
def test_what_was_not_written_down_is_taken_back_and_the_next_fetch_looked_at(error: ErrorCode) -> None:
    cluster = Cluster(TWO)
    cluster.fetch(THREE, 0)
    cluster.append(1)
    cluster.fetch(TWO, 1)
    cluster.high_watermark.followers[THREE].caught_up_at = float("-inf")
    cluster.controllers.answer(error)
    assert cluster.replica.log.high_watermark == 1
    assert (cluster.isr.state, cluster.controllers.open) == (State.COMMITTED, [])
    cluster.fetch(THREE, 1)
    assert set(cluster.controllers.isr) == ALL
    assert cluster.leading.failed_updates == 1


@pytest.mark.parametrize(
    "error",
    [
        E.INVALID_UPDATE_VERSION,
        E.FENCED_LEADER_EPOCH,
        E.NEW_LEADER_ELECTED,
        E.UNKNOWN_TOPIC_ID,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.INVALID_REQUEST,
    ],
)
def test_what_says_that_our_metadata_are_old_waits_for_them(error: ErrorCode) -> None:
    cluster = Cluster(TWO)
    cluster.fetch(THREE, 0)
    cluster.append(1)
    cluster.fetch(TWO, 1)
    cluster.controllers.answer(error)
    cluster.fetch(THREE, 0)
    assert cluster.controllers.open == []
    assert cluster.replica.log.high_watermark == 0, "the larger set counts"
    cluster.change(isr=[NODE_ID, TWO])
    cluster.fetch(THREE, 1)
    assert set(cluster.controllers.isr) == ALL


@pytest.mark.parametrize("error", [E.UNKNOWN_SERVER_ERROR, E.NOT_CONTROLLER, 9999])
def test_any_other_error_means_that_the_same_is_proposed_again(error: int) -> None:
    cluster = Cluster(TWO)
    cluster.fetch(THREE, 0)
    ((change, _),) = cluster.controllers.open
    cluster.controllers.answer(error)
    assert [each[0] for each in cluster.controllers.open] == [change]


# The end


def test_the_answer_to_a_leader_that_was_is_not_heard() -> None:
    cluster = Cluster(TWO)
    cluster.fetch(THREE, 0)
    isr = cluster.isr
    cluster.change(leader=TWO)
    assert isr.is_over
    cluster.controllers.answer(E.UNKNOWN_SERVER_ERROR)
    assert cluster.controllers.open == []


def test_a_partition_that_nobody_follows_any_more() -> None:
    cluster = Cluster(TWO)
    isr = cluster.isr
    cluster.change(replicas=[NODE_ID], isr=[NODE_ID])
    assert isr.is_over
    assert isinstance(cluster.replica.role, Leader)
