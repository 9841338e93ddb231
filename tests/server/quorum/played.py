"""Controllers that the test plays: what is asked of each is noted, and answered when the test says so. Time is a ManualClock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

from ottla.server.base.promise import Promise
from ottla.server.base.randomness import from_seed
from ottla.server.peers.handshake import Versions
from ottla.server.quorum.channel import Channel
from ottla.server.quorum.controllers import Controllers
from ottla.server.quorum.finder import Address, Finder
from ottla.wire.api import APIS
from ottla.wire.primitives import WireStruct
from tests.fakes import ManualClock

A, B = Address("a", 9093), Address("b", 9093)
RETRY_MS = 20
ALL: Versions = {key: (api.min_version, api.max_version) for key, api in APIS.items()}


class Asked(NamedTuple):
    """One request, the controller that got it, and the promise of its answer."""

    address: Address
    request: Any
    timeout_ms: int
    answer: Promise[Any]


class PlayedPeer:
    """The connection to one of them."""

    def __init__(self, address: Address, asked: list[Asked]) -> None:
        self.name = str(address)
        self.address = address
        self.versions: Versions = ALL
        self._asked = asked

    def call(self, request: WireStruct, timeout_ms: int, *, min_version: int = 0) -> Promise[Any]:
        answer: Promise[Any] = Promise()
        self._asked.append(Asked(self.address, request, timeout_ms, answer))
        return answer

    async def close(self) -> None:
        """Nothing is open."""


class Played:
    """The controllers, their clock, and a channel to the active one. The first leader is not known."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.finder = Finder({1: A, 2: B}, [], from_seed(1))
        self.asked: list[Asked] = []
        self.peers: dict[Address, PlayedPeer] = {}
        self.channel = Channel(self.finder, self.controllers, self.clock, RETRY_MS)

    @property
    def controllers(self) -> Controllers:
        return cast(Controllers, self)

    def at(self, address: Address) -> PlayedPeer:
        if address not in self.peers:
            self.peers[address] = PlayedPeer(address, self.asked)
        return self.peers[address]

    @property
    def open(self) -> list[Asked]:
        """Returns what has no answer yet."""
        return [each for each in self.asked if not each.answer.done()]

    def answer(self, answer: object) -> Any:
        """Answers the oldest request that has no answer, or fails it with an error, and returns the request."""
        asked = self.open[0]
        if isinstance(answer, Exception):
            asked.answer.set_exception(answer)
        else:
            asked.answer.set_result(answer)
        return asked.request

    async def pass_time(self, seconds: float) -> None:
        """Lets time pass, with what comes due meanwhile."""
        await turns()
        steps = max(1, min(200, round(seconds * 100)))
        for _ in range(steps):
            self.clock.advance(seconds / steps)
            await turns()


async def turns(count: int = 10) -> None:
    """Gives the loop as many turns as anything that is ready needs."""
    for _ in range(count):
        await asyncio.sleep(0)


def run(scenario: Callable[[Played], Awaitable[object]]) -> None:
    """Runs a scenario; afterwards nothing of it may be left that runs."""

    async def main() -> None:
        played = Played()
        await asyncio.wait_for(scenario(played), 30)
        await turns()
        assert asyncio.all_tasks() <= {asyncio.current_task()}, "a task is left"

    asyncio.run(main())
