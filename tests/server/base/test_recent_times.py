"""Tests of what is reported of recent times, and for how long."""

from __future__ import annotations

from ottla.server.base.recent_times import PERIOD_S, RecentTimes
from tests.fakes import ManualClock


def test_the_mean_and_the_longest_of_two_periods() -> None:
    clock = ManualClock()
    times = RecentTimes(clock)
    assert (times.mean_ms, times.longest_ms) == (None, None)
    times.note(0.25)
    times.note(0.75)
    assert (times.mean_ms, times.longest_ms) == (500.0, 750.0)
    clock.advance(PERIOD_S)
    times.note(0.5)
    assert (times.mean_ms, times.longest_ms) == (500.0, 750.0)
    clock.advance(PERIOD_S)
    assert (times.mean_ms, times.longest_ms) == (500.0, 500.0)
    clock.advance(PERIOD_S)
    assert (times.mean_ms, times.longest_ms) == (None, None)


def test_what_is_older_than_two_periods_does_not_count() -> None:
    clock = ManualClock()
    times = RecentTimes(clock)
    times.note(0.5)
    clock.advance(2 * PERIOD_S)
    assert times.longest_ms is None
