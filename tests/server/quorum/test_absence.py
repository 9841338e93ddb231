"""Absence: how long is too long, and what has to come before the broker knows again what it leads."""

from __future__ import annotations

import pytest

from ottla.server.quorum.absence import TRANSITIONS, Absence, State
from tests.fakes import ManualClock

LONGEST = 6.0


class Rig:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.doubts: list[bool] = []
        self.absence = Absence(self.clock.monotonic, LONGEST, self.doubts.append)
        self.absence.begin()

    def is_in(self, state: State) -> bool:
        return self.absence.state is state

    def stand_still(self, seconds: float = LONGEST + 1) -> None:
        """The clock goes on, and nothing else runs."""
        self.clock.advance(seconds)

    @property
    def now(self) -> float:
        return self.clock.monotonic()


def test_a_loop_that_runs_is_never_in_doubt() -> None:
    rig = Rig()
    for _ in range(3):
        rig.stand_still(LONGEST)
        rig.absence.look()
        rig.absence.run()
    assert (rig.doubts, rig.absence.state) == ([], State.PRESENT)


def test_what_was_before_the_session_does_not_count() -> None:
    rig = Rig()
    rig.stand_still()
    rig.absence.begin()
    rig.absence.run()
    assert rig.doubts == []
    rig.stand_still()
    rig.absence.run()
    assert rig.doubts == [True]


def test_a_look_is_no_sign_of_life() -> None:
    rig = Rig()
    rig.stand_still(LONGEST)
    rig.absence.look()
    rig.stand_still(1)
    rig.absence.look()
    assert rig.doubts == [True]


def test_it_is_noticed_once_by_whoever_looks_first() -> None:
    rig = Rig()
    rig.stand_still()
    rig.absence.look()
    rig.absence.look()
    rig.absence.run()
    assert rig.doubts == [True]


def test_the_timer_notices_it_too() -> None:
    rig = Rig()
    rig.stand_still()
    rig.absence.run()
    assert rig.doubts == [True]


def test_a_heartbeat_and_then_metadata_end_it() -> None:
    rig = Rig()
    before = rig.now
    rig.stand_still()
    rig.absence.look()
    rig.absence.fetched(rig.now + 1)
    assert rig.is_in(State.RETURNED), "metadata without a heartbeat may be from before the broker was fenced"
    rig.absence.answered(before)
    rig.absence.answered(rig.now)
    assert rig.is_in(State.RETURNED), "these heartbeats were sent before or while it stood still"
    rig.clock.advance(1)
    sent_at = rig.now
    rig.clock.advance(1)
    rig.absence.answered(sent_at)
    assert rig.is_in(State.INFORMED)
    rig.absence.fetched(sent_at)
    rig.absence.fetched(rig.now)
    assert rig.doubts == [True], "these were asked for before the heartbeat was answered"
    rig.clock.advance(0.1)
    rig.absence.fetched(rig.now)
    assert (rig.doubts, rig.absence.state) == ([True, False], State.PRESENT)
    rig.absence.fetched(rig.now)
    assert rig.doubts == [True, False]


@pytest.mark.parametrize("informed", [False, True])
def test_standing_still_once_more_begins_it_anew(informed: bool) -> None:
    rig = Rig()
    rig.stand_still()
    rig.absence.look()
    rig.clock.advance(1)
    if informed:
        rig.absence.answered(rig.now)
    rig.stand_still()
    rig.absence.look()
    rig.absence.fetched(rig.now + 1)
    assert (rig.absence.state, rig.doubts) == (State.RETURNED, [True, True])


@pytest.mark.parametrize("informed", [None, False, True])
def test_who_stands_back_comes_back_as_one_that_stood_still(informed: bool | None) -> None:
    rig = Rig()
    if informed is not None:
        rig.stand_still()
        rig.absence.look()
        rig.clock.advance(1)
    if informed:
        rig.absence.answered(rig.now)
    rig.absence.stand_back()
    assert (rig.absence.state, rig.doubts[-1]) == (State.RETURNED, True)
    rig.absence.answered(rig.now)
    assert rig.is_in(State.RETURNED), "this heartbeat did not ask to be fenced yet"
    rig.clock.advance(1)
    rig.absence.answered(rig.now)
    rig.clock.advance(1)
    rig.absence.fetched(rig.now)
    assert (rig.absence.state, rig.doubts[-1]) == (State.PRESENT, False)


def test_every_state_can_be_left() -> None:
    assert set(TRANSITIONS) == set(State)
    assert {state for afters in TRANSITIONS.values() for state in afters} == set(State)
