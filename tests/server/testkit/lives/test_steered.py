"""A clock that a test moves: timers at their own moments, passes once at the end, nothing while it is frozen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from ottla.server.base.clock import Clock, LoopClock
from ottla.server.testkit.lives.steered import FEW, SteeredClock, UnknownPass
from tests.fakes import NOW_MS, ManualClock

T = TypeVar("T")
DAY_S = 86_400.0


class LoopTurns(ManualClock):
    """A clock below that stands still, but runs what is not to be later in the loop's next turn."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> asyncio.Handle:  # type: ignore[override]  # both can be cancelled
        if seconds <= 0:
            return asyncio.get_running_loop().call_soon(callback)
        return super().call_later(seconds, callback)  # type: ignore[return-value]  # likewise


def run(scenario: Callable[[], Awaitable[T]]) -> T:
    return asyncio.run(asyncio.wait_for(scenario(), 30))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_it_goes_on_with_the_clock_below_and_rings_in_time() -> None:
    async def scenario() -> None:
        below = LoopTurns()
        clock: Clock = SteeredClock(below)
        rang: list[str] = []
        clock.call_later(2, lambda: rang.append("second"))
        clock.call_later(1, lambda: rang.append("first"))
        clock.call_later(0.5, lambda: rang.append("never")).cancel()
        clock.call_later(0, lambda: rang.append("at once"))
        await turns()
        assert rang == ["at once"]
        below.advance(1)
        await turns()
        assert rang == ["at once", "first"]
        assert (clock.monotonic(), clock.now_ms()) == (1.0, NOW_MS + 1000)
        below.advance(1)
        await turns()
        assert rang == ["at once", "first", "second"]
        assert below.waiting == 0

    run(scenario)


def test_it_is_a_clock_of_the_running_loop() -> None:
    async def scenario() -> None:
        clock = SteeredClock(LoopClock())
        rang = asyncio.Event()
        clock.call_later(0.001, rang.set)
        await rang.wait()
        assert clock.offset_ms == 0

    run(scenario)


def test_an_advance_runs_each_timer_at_its_own_moment_and_what_that_arms() -> None:
    async def scenario() -> None:
        clock = SteeredClock(LoopTurns())
        seen: list[tuple[str, float, int]] = []

        def note(name: str) -> None:
            seen.append((name, clock.monotonic(), clock.now_ms() - NOW_MS))

        def rebalance() -> None:
            note("session")
            clock.call_later(60, lambda: note("rebalance"))
            clock.call_later(0, lambda: note("put off"))

        clock.call_later(45, rebalance)
        clock.call_later(90, lambda: note("other"))
        clock.call_later(7200, lambda: note("later"))
        jump = await clock.advance(3600)
        assert seen == [
            ("session", 45.0, 45_000), ("put off", 45.0, 45_000), ("other", 90.0, 90_000), ("rebalance", 105.0, 105_000),
        ]  # fmt: skip
        assert jump.timers == 3
        assert (clock.monotonic(), clock.now_ms(), clock.offset_ms) == (3600.0, NOW_MS + 3_600_000, 3_600_000)

    run(scenario)


def test_a_timer_that_was_cancelled_on_the_way_does_not_run() -> None:
    async def scenario() -> None:
        clock = SteeredClock(LoopTurns())
        rang: list[str] = []
        second = clock.call_later(1, lambda: rang.append("second"))
        clock.call_later(0.5, second.cancel)
        assert (await clock.advance(5)).timers == 1
        third = clock.call_later(1, lambda: rang.append("third"))
        clock.call_later(1, third.cancel)
        await clock.advance(0.5)
        third.cancel()
        await clock.advance(5)
        assert rang == []

    run(scenario)


def test_two_that_are_due_together_may_cancel_each_other() -> None:
    async def scenario() -> None:
        below = LoopTurns()
        clock = SteeredClock(below)
        rang: list[str] = []
        second = clock.call_later(1.0001, lambda: rang.append("second"))
        clock.call_later(1, second.cancel)
        below.advance(2)
        await turns()
        assert rang == []

    run(scenario)


def test_passes_run_once_at_the_end_in_the_order_in_which_they_were_due() -> None:
    async def scenario() -> None:
        clock = SteeredClock(LoopTurns())
        ran: list[tuple[str, float]] = []

        def plan(name: str, seconds: float) -> None:
            def work() -> None:
                ran.append((name, clock.monotonic()))
                plan(name, seconds)

            clock.call_pass(name, seconds, work)

        plan("retention", 300)
        plan("flush", 1)
        plan("yearly", 365 * DAY_S)
        clock.call_later(10, lambda: ran.append(("timer", clock.monotonic())))
        jump = await clock.advance(7 * DAY_S)
        assert ran == [("timer", 10.0), ("flush", 7 * DAY_S), ("retention", 7 * DAY_S)]
        assert jump.passes == ["flush", "retention"]
        assert clock.passes == ["flush", "retention", "yearly"]
        await clock.advance(0.5)
        assert len(ran) == 3

    run(scenario)


def test_an_advance_waits_for_passes_that_take_longer() -> None:
    async def scenario() -> None:
        clock = SteeredClock(LoopTurns())
        ended: list[str] = []

        async def slow() -> None:
            await turns()
            await turns()
            ended.append("cleaner")

        clock.call_pass("cleaner", 15, slow)
        await clock.advance(60)
        assert ended == ["cleaner"]

    run(scenario)


def test_passes_ring_in_time_as_well() -> None:
    async def scenario() -> None:
        below = LoopTurns()
        clock = SteeredClock(below)
        ran: list[str] = []
        clock.call_pass("flush", 1, lambda: ran.append("flush"))
        below.advance(1)
        await turns()
        assert ran == ["flush"]

    run(scenario)


def test_frozen_nothing_rings_and_the_time_stands_still() -> None:
    async def scenario() -> None:
        below = LoopTurns()
        clock = SteeredClock(below)
        rang: list[str] = []
        clock.call_later(5, lambda: rang.append("before"))
        clock.freeze()
        clock.call_later(10, lambda: rang.append("after"))
        clock.call_pass("flush", 1, lambda: rang.append("flush"))
        clock.call_later(0, lambda: rang.append("at once"))
        below.advance(3600)
        await turns()
        assert rang == ["at once"]
        assert clock.frozen
        assert (clock.monotonic(), clock.now_ms()) == (0.0, NOW_MS)
        assert clock.offset_ms == -3_600_000
        await clock.advance(6)
        assert rang == ["at once", "before", "flush"]
        assert clock.frozen
        assert clock.now_ms() == NOW_MS + 6000
        clock.resume()
        below.advance(3.9)
        await turns()
        assert rang == ["at once", "before", "flush"]
        below.advance(0.1)
        await turns()
        assert rang == ["at once", "before", "flush", "after"]
        assert not clock.frozen

    run(scenario)


def test_what_is_told_while_it_advances_holds_afterwards() -> None:
    async def scenario() -> None:
        below = LoopTurns()
        clock = SteeredClock(below)
        clock.call_later(1, clock.freeze)
        await clock.advance(2)
        below.advance(1)
        assert clock.now_ms() == NOW_MS + 2000
        clock.call_later(1, clock.resume)
        await clock.advance(2)
        below.advance(1)
        assert clock.now_ms() == NOW_MS + 5000

    run(scenario)


def test_a_pass_runs_when_it_is_asked_for() -> None:
    async def scenario() -> None:
        clock = SteeredClock(LoopTurns())
        ran: list[str] = []

        async def work() -> None:
            await turns()
            ran.append("retention")
            clock.call_pass("retention", 300, work)

        clock.call_pass("flush", 1, lambda: ran.append("flush"))
        clock.call_pass("retention", 300, work)
        await clock.run_pass("retention")
        await clock.run_pass("retention")
        assert ran == ["retention", "retention"]
        assert clock.monotonic() == 0
        with pytest.raises(UnknownPass, match="compaction"):
            await clock.run_pass("compaction")

    run(scenario)


def test_another_clock_goes_on_where_it_stands_and_an_ended_one_runs_nothing() -> None:
    async def scenario() -> None:
        below = LoopTurns()
        clock = SteeredClock(below)
        rang: list[str] = []
        await clock.advance(100)
        clock.freeze()
        clock.call_later(1, lambda: rang.append("of the dead"))
        below.advance(5)
        later = SteeredClock(below, clock.moment)
        clock.resume()
        clock.end()
        clock.call_later(1, lambda: rang.append("of the dead"))
        below.advance(50)
        await turns()
        assert rang == []
        assert later.frozen
        assert (later.monotonic(), later.now_ms()) == (100.0, NOW_MS + 100_000)
        later.resume()
        below.advance(1)
        assert (later.monotonic(), later.now_ms()) == (101.0, NOW_MS + 101_000)

    run(scenario)


def test_cancelled_timers_are_forgotten_when_they_are_the_majority() -> None:
    async def scenario() -> None:
        clock = SteeredClock(LoopTurns())
        clock.freeze()
        kept = [clock.call_later(1, lambda: None) for _ in range(10)]
        for _ in range(1000):
            forgotten = clock.call_later(0.5, lambda: None)
            forgotten.cancel()
            forgotten.cancel()
        assert len(clock._timers) <= len(kept) + FEW + 1
        assert (await clock.advance(2)).timers == len(kept)
        assert clock._cancelled == 0

    run(scenario)


def test_a_year_with_a_thousand_timers_takes_no_time_at_all() -> None:
    async def scenario() -> None:
        clock = SteeredClock(LoopTurns())
        ran: list[float] = []
        for each in range(1000):
            clock.call_later(each * 3600 + 1, lambda: ran.append(clock.monotonic()))
        assert (await clock.advance(365 * DAY_S)).timers == 1000
        assert ran == [each * 3600.0 + 1 for each in range(1000)]

    run(scenario)


class Busy(LoopTurns):
    """A clock below that goes on the first four times that somebody looks at it, and whose timers are late."""

    looks = 0

    def monotonic(self) -> float:
        self.looks = min(self.looks + 1, 4)
        return self.looks / 1000

    def call_later(self, seconds: float, callback: Callable[[], object]) -> asyncio.Handle:  # type: ignore[override]  # as above
        return super().call_later(seconds if seconds <= 0 else DAY_S, callback)


def test_it_never_goes_back() -> None:
    """Also where a timer is overdue, and rings later than at the end of an advance that moves it by nothing."""

    async def scenario() -> None:
        clock, seen = SteeredClock(Busy()), list[float]()
        clock.call_later(0.001, lambda: seen.append(clock.monotonic()))
        await clock.advance(0)
        assert clock.monotonic() >= seen[0]

    run(scenario)


def test_after_everything_that_runs_a_listener_is_called() -> None:
    async def scenario() -> None:
        below = LoopTurns()
        clock = SteeredClock(below)
        told: list[str] = []
        done = asyncio.get_running_loop().create_future()
        clock.on_run = lambda: told.append("told")
        clock.call_later(0, lambda: told.append("soon"))
        clock.call_later(1, lambda: told.append("timer"))
        clock.call_later(1, lambda: told.append("never")).cancel()
        clock.call_pass("pass", 2, lambda: done)
        await turns()
        assert told == ["soon", "told"]
        advanced = asyncio.ensure_future(clock.advance(3))
        await turns()
        assert told[2:4] == ["timer", "told"]
        before = len(told)
        done.set_result(None)
        await advanced
        assert told[before:] == ["told"]
        clock.on_run = None
        clock.call_later(0, lambda: told.append("soon"))
        await turns()
        assert told[-1] == "soon"

    run(scenario)
