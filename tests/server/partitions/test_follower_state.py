"""These tests cover when a follower counts as caught up, by its fetches alone, with the boundary of each rule."""

from __future__ import annotations

import pytest

from ottla.server.partitions.follower_state import NEVER, UNKNOWN, FollowerState

LAG = 30.0


def fetch(state: FollowerState, end_offset: int, now: float, leader_end: int) -> None:
    state.note_fetch(end_offset, 0, 7, now, leader_end)


def test_nothing_is_known_before_the_first_fetch() -> None:
    state = FollowerState()
    assert (state.end_offset, state.log_start_offset, state.broker_epoch) == (UNKNOWN, UNKNOWN, None)
    assert not state.is_caught_up(0, 1e9, LAG)


def test_a_follower_in_sync_at_the_beginning_gets_the_time_of_one_lag() -> None:
    state = FollowerState(caught_up_at=100.0)
    assert state.is_caught_up(5, 100.0 + LAG, LAG)
    assert not state.is_caught_up(5, 100.0 + LAG + 0.001, LAG)


def test_a_fetch_says_where_it_is() -> None:
    state = FollowerState()
    state.note_fetch(4, 2, 9, 1.0, 10)
    assert (state.end_offset, state.log_start_offset, state.broker_epoch) == (4, 2, 9)


def test_at_the_leaders_end_it_is_caught_up_however_long_ago_it_fetched() -> None:
    state = FollowerState()
    fetch(state, 10, 1.0, 10)
    assert state.is_caught_up(10, 1e9, LAG)
    assert not state.is_caught_up(11, 1.0 + LAG + 0.001, LAG)
    assert state.is_caught_up(11, 1.0 + LAG, LAG)


@pytest.mark.parametrize(("second", "caught_up_at"), [(9, NEVER), (10, 1.0), (11, 1.0), (19, 1.0), (20, 2.0), (21, 2.0)])
def test_who_reaches_the_end_of_the_fetch_before_was_caught_up_then(second: int, caught_up_at: float) -> None:
    state = FollowerState()
    fetch(state, 5, 1.0, 10)
    fetch(state, second, 2.0, 20)
    assert state.caught_up_at == caught_up_at


def test_the_end_of_the_fetch_before_does_not_go_back() -> None:
    state = FollowerState()
    fetch(state, 5, 1.0, 10)
    fetch(state, 6, 2.0, 8)
    fetch(state, 9, 3.0, 20)
    assert state.caught_up_at == NEVER, "it has not reached 10 yet"


def test_the_time_does_not_go_back() -> None:
    state = FollowerState(caught_up_at=5.0)
    fetch(state, 5, 1.0, 10)
    fetch(state, 10, 2.0, 20)
    assert state.caught_up_at == 5.0
    fetch(state, 20, 3.0, 20)
    assert state.caught_up_at == 5.0
    fetch(state, 20, 6.0, 20)
    assert state.caught_up_at == 6.0
