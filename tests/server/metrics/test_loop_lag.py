"""LoopLag: how late timers ring, for as long as somebody wants to know."""

from __future__ import annotations

from ottla.server.base.recent_times import PERIOD_S
from ottla.server.metrics.loop_lag import INTERVAL_S, LoopLag
from tests.fakes import ManualClock


def test_a_loop_that_is_held_up() -> None:
    clock = ManualClock()
    lag = LoopLag(clock)
    lag.start()
    assert lag.longest_s == 0
    clock.advance(10 * INTERVAL_S)
    assert lag.longest_s == 0, "every timer rang when it should"
    clock.spend(3.0)
    clock.advance()
    assert lag.longest_s == 3.0 - INTERVAL_S
    clock.advance(10 * INTERVAL_S)
    assert lag.longest_s == 3.0 - INTERVAL_S, "a scrape finds it later as well"
    clock.advance(3 * PERIOD_S)
    assert lag.longest_s == 0


def test_nothing_is_measured_after_the_end() -> None:
    clock = ManualClock()
    lag = LoopLag(clock)
    lag.start()
    clock.advance(INTERVAL_S)
    lag.stop()
    assert clock.waiting == 0
    lag.stop()
