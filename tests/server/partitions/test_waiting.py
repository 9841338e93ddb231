"""Parked requests: woken by growth, ended by time, forgotten when nobody wants the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.server.base.promise import Promise
from ottla.server.partitions.waiting import Woken, park
from tests.fakes import ManualClock


class Place:
    def __init__(self) -> None:
        self.parked: dict[object, Callable[[], None]] = {}

    def grow(self) -> None:
        parked, self.parked = self.parked, {}
        for wake in parked.values():
            wake()


class Request:
    """Answers once `enough` places have grown."""

    def __init__(self, enough: int = 1) -> None:
        self.enough = enough
        self.found = 0
        self.looks: list[bool] = []

    def attempt(self, last: bool) -> str | None:
        self.looks.append(last)
        return f"{self.found}" if last or self.found >= self.enough else None


async def scenario(enough: int = 1, places: int = 2) -> tuple[ManualClock, list[Place], Request, Promise[str]]:
    clock, request = ManualClock(), Request(enough)
    parking = [Place() for _ in range(places)]
    return clock, parking, request, park(Woken(clock), parking, 500, request.attempt)


async def settle() -> None:
    """The done callbacks of futures run in the loop's next turn."""
    await asyncio.sleep(0)


def test_growth_wakes_in_the_next_turn_and_once_for_many_appends() -> None:
    async def run() -> None:
        clock, places, request, answer = await scenario()
        request.found = 7
        places[0].grow()
        places[1].grow()
        assert request.looks == []  # not inside the append
        clock.advance()
        await settle()
        assert answer.result() == "7"
        assert request.looks == [False]
        assert not any(place.parked for place in places)
        assert clock.waiting == 0

    asyncio.run(run())


def test_too_little_parks_again_and_time_ends_it() -> None:
    async def run() -> None:
        clock, places, request, answer = await scenario(enough=3)
        for found in (1, 2):
            request.found = found
            places[0].grow()
            clock.advance(0.1)
            assert not answer.done()
            assert all(len(place.parked) == 1 for place in places)
        clock.advance(0.299)
        assert not answer.done()
        clock.advance(0.002)
        assert answer.result() == "2"
        assert request.looks == [False, False, True]
        await settle()
        assert not any(place.parked for place in places)

    asyncio.run(run())


def test_who_gives_up_is_forgotten() -> None:
    async def run() -> None:
        clock, places, request, answer = await scenario()
        places[1].grow()
        answer.cancel()
        await settle()
        assert not any(place.parked for place in places)
        clock.advance(10)
        assert request.looks == []

    asyncio.run(run())


def test_a_failing_attempt_fails_the_request_alone() -> None:
    async def run() -> None:
        clock, place = ManualClock(), Place()
        failing = park(Woken(clock), [place], 500, lambda last: 1 // 0)
        fine = park(Woken(clock), [place], 500, lambda last: 42)
        place.grow()
        clock.advance()
        assert fine.result() == 42
        with pytest.raises(ZeroDivisionError):
            failing.result()

    asyncio.run(run())


def test_a_look_comes_before_the_next_turn_where_somebody_runs_them() -> None:
    async def run() -> None:
        clock, place, request = ManualClock(), Place(), Request()
        woken = Woken(clock)
        answer = park(woken, [place], 500, request.attempt)
        told: list[str] = []
        answer.add_done_callback(lambda done: told.append(done.result()))
        request.found = 3
        place.grow()
        woken.run()
        assert told == ["3"]
        woken.run()
        clock.advance()  # what was asked for with the wake finds nothing left to do
        assert (told, request.looks) == (["3"], [False])

    asyncio.run(run())


def test_who_is_woken_by_a_look_waits_for_the_next_run() -> None:
    clock = ManualClock()
    woken, looks = Woken(clock), list[int]()

    def look() -> None:
        looks.append(len(looks))
        if len(looks) < 3:
            woken.add(look)

    woken.add(look)
    woken.run()
    assert looks == [0]
    woken.run()
    assert looks == [0, 1]
    clock.advance()
    assert looks == [0, 1, 2]


def test_a_look_may_end_in_another_run() -> None:
    woken, looks = Woken(ManualClock()), list[str]()

    def first() -> None:
        looks.append("first")
        woken.run()

    woken.add(first)
    woken.add(lambda: looks.append("second"))
    woken.run()
    assert looks == ["first", "second"]
