"""Parked requests: woken by growth, ended by time, forgotten when nobody wants the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.server.waiting import park
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


async def scenario(enough: int = 1, places: int = 2) -> tuple[ManualClock, list[Place], Request, asyncio.Future[str]]:
    clock, request = ManualClock(), Request(enough)
    parking = [Place() for _ in range(places)]
    return clock, parking, request, park(clock, parking, 500, request.attempt)


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
        failing = park(clock, [place], 500, lambda last: 1 // 0)
        fine = park(clock, [place], 500, lambda last: 42)
        place.grow()
        clock.advance()
        assert fine.result() == 42
        with pytest.raises(ZeroDivisionError):
            failing.result()

    asyncio.run(run())
