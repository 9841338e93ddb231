"""Pace: moves between log directories take no more than the rate allows, also if it changes while they wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.server.partitions.move_pace import Pace
from tests.fakes import ManualClock


class Paced:
    """A pace of 100 bytes per second, and who went on, in order."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.rate = 100
        self.pace = Pace(self.clock, lambda: self.rate)
        self.gone: list[str] = []
        self.takers: list[asyncio.Future[None]] = []

    async def take(self, name: str, size: int) -> None:
        async def taker() -> None:
            await self.pace.take(size)
            self.gone.append(name)

        self.takers.append(asyncio.ensure_future(taker()))
        await self.turns()

    async def after(self, ms: int) -> list[str]:
        """Returns who has gone on when that time has passed."""
        self.clock.advance(ms / 1000)
        await self.turns()
        return self.gone

    @staticmethod
    async def turns() -> None:
        for _ in range(5):
            await asyncio.sleep(0)


def paced(scenario: Callable[[Paced], Awaitable[None]]) -> None:
    async def main() -> None:
        rig = Paced()
        await scenario(rig)
        for taker in rig.takers:
            taker.cancel()

    asyncio.run(main())


def test_what_was_taken_is_paid_before_the_next() -> None:
    async def scenario(rig: Paced) -> None:
        await rig.take("first", 500)
        await rig.take("second", 100)
        assert await rig.after(4_990) == ["first"]
        assert await rig.after(20) == ["first", "second"]
        await rig.take("third", 1)
        assert await rig.after(970) == ["first", "second"]
        assert await rig.after(30) == ["first", "second", "third"]

    paced(scenario)


def test_who_comes_late_has_nothing_saved_up() -> None:
    async def scenario(rig: Paced) -> None:
        await rig.after(60_000)
        await rig.take("first", 100)
        await rig.take("second", 100)
        assert await rig.after(980) == ["first"]
        assert await rig.after(30) == ["first", "second"]

    paced(scenario)


def test_several_share_the_rate() -> None:
    async def scenario(rig: Paced) -> None:
        for name in "abc":
            await rig.take(name, 100)
        assert await rig.after(1_010) == ["a", "b"]
        assert await rig.after(500) == ["a", "b"]
        assert await rig.after(510) == ["a", "b", "c"]

    paced(scenario)


def test_a_new_rate_holds_at_once() -> None:
    async def scenario(rig: Paced) -> None:
        await rig.take("first", 1_000)
        await rig.take("second", 1)
        assert await rig.after(5_000) == ["first"]
        rig.rate = 1_000  # 500 bytes are left
        rig.pace.look_again()
        assert await rig.after(490) == ["first"]
        assert await rig.after(20) == ["first", "second"]

    paced(scenario)


def test_a_lower_rate_holds_at_once_too() -> None:
    async def scenario(rig: Paced) -> None:
        await rig.take("first", 200)
        await rig.take("second", 1)
        assert await rig.after(1_000) == ["first"]
        rig.rate = 0  # as little as there is
        rig.pace.look_again()
        assert await rig.after(99_000) == ["first"]
        assert await rig.after(1_010) == ["first", "second"]

    paced(scenario)


def test_who_is_cancelled_waits_no_more() -> None:
    async def scenario(rig: Paced) -> None:
        await rig.take("first", 100)
        await rig.take("second", 100)
        rig.takers[1].cancel()
        await rig.turns()
        await rig.take("third", 1)
        assert await rig.after(1_010) == ["first", "third"]

    paced(scenario)
