"""These tests cover deadlines that are pushed back."""

from __future__ import annotations

from ottla.server.group.timers import Timer
from tests.server.coordination.memory import CoordinatorClock


def test_a_timer_that_is_pushed_back_fires_once_at_the_last_deadline() -> None:
    clock, fired = CoordinatorClock(), []
    timer = Timer(clock, lambda: fired.append(clock.monotonic()))
    start = clock.monotonic()
    timer.reset(10_000)
    clock.advance(6)
    timer.reset(10_000)
    clock.advance(6)
    timer.reset(10_000)
    clock.advance(9.5)
    assert fired == []
    clock.advance(1)
    assert [round(at - start, 3) for at in fired] == [22.0]
    assert not timer.active


def test_a_nearer_deadline_replaces_the_armed_one() -> None:
    clock, fired = CoordinatorClock(), []
    timer = Timer(clock, lambda: fired.append(clock.monotonic()))
    timer.reset(300_000)
    timer.reset(1_000)
    clock.advance(1)
    assert len(fired) == 1
    clock.advance(400)
    assert len(fired) == 1


def test_pushing_back_arms_no_new_timer() -> None:
    clock = CoordinatorClock()
    timer = Timer(clock, lambda: None)
    for _ in range(100):
        timer.reset(10_000)
        clock.advance(0.01)
    assert clock.armed == 1
    clock.advance(10)
    assert clock.armed == 2


def test_cancel_stops_it_and_reset_starts_it_anew() -> None:
    clock, fired = CoordinatorClock(), []
    timer = Timer(clock, lambda: fired.append(1))
    timer.reset(1_000)
    timer.cancel()
    clock.advance(5)
    assert fired == []
    timer.reset(1_000)
    clock.advance(1)
    assert fired == [1]


def test_a_deadline_is_postponed_by_so_much() -> None:
    clock, rang = CoordinatorClock(), []
    begin, timer = clock.monotonic(), Timer(clock, lambda: rang.append(clock.monotonic()))
    timer.reset(45_000)
    timer.postpone(3600)
    clock.advance(3644)
    assert rang == []
    timer.postpone(10)
    clock.advance(20)
    assert rang == [begin + 3655]


def test_what_is_left_until_the_deadline_is_known() -> None:
    clock = CoordinatorClock()
    timer = Timer(clock, lambda: None)
    assert timer.seconds_left is None
    timer.reset(1_000)
    clock.advance(0.25)
    assert timer.seconds_left == 0.75
    timer.postpone(2)
    assert timer.seconds_left == 2.75
    timer.cancel()
    assert timer.seconds_left is None
