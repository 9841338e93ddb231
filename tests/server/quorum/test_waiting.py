"""ImageWaits: conditions that come true, or not in time."""

from __future__ import annotations

import asyncio

from ottla.server.metadata.image import MetadataImage
from ottla.server.quorum.waiting import ImageWaits
from tests.server.quorum.played import Played, run, turns


def test_a_condition_that_holds_is_not_waited_for() -> None:
    async def scenario(played: Played) -> None:
        assert await ImageWaits(played.clock, MetadataImage("cluster")).until(lambda: True, 1)
        assert played.clock.waiting == 0

    run(scenario)


def test_whoever_waits_is_woken_when_its_condition_holds() -> None:
    async def scenario(played: Played) -> None:
        waits, seen = ImageWaits(played.clock, MetadataImage("cluster")), set[str]()
        first = asyncio.ensure_future(waits.until(lambda: "a" in seen, 1))
        second = asyncio.ensure_future(waits.until(lambda: "b" in seen, 1))
        await turns()
        seen.add("a")
        waits.look()
        await turns()
        assert (first.done(), second.done()) == (True, False)
        assert first.result()
        await played.pass_time(1.1)
        assert second.result() is False
        seen.add("b")
        waits.look()
        assert played.clock.waiting == 0

    run(scenario)


def test_one_that_is_cancelled_is_forgotten() -> None:
    async def scenario(played: Played) -> None:
        waits = ImageWaits(played.clock, MetadataImage("cluster"))
        waiting = asyncio.ensure_future(waits.until(lambda: False, 1))
        await turns()
        waiting.cancel()
        await asyncio.wait([waiting])
        waits.look()
        assert played.clock.waiting == 0

    run(scenario)


def test_nothing_holds_before_everybody_knows_of_a_change() -> None:
    async def scenario(played: Played) -> None:
        image = MetadataImage("cluster")
        waits = ImageWaits(played.clock, image)
        image.is_reporting = True
        waiting = asyncio.ensure_future(waits.until(lambda: True, 1))
        await turns()
        waits.look()
        await turns()
        assert not waiting.done()
        image.is_reporting = False
        waits.look()
        assert await waiting

    run(scenario)
