"""`Spawned`: what sends requests to played controllers by itself, with the tasks that it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from tests.server.quorum.played import Played, run, turns


class Spawned:
    """Played controllers, one of which leads; and `spawn`, which starts tasks that must have ended when the scenario is over."""

    def __init__(self, played: Played) -> None:
        self.played = played
        self.tasks: list[asyncio.Future[None]] = []
        played.finder.learn(3, 1)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))


S = TypeVar("S", bound=Spawned)


def run_spawned(make: Callable[[Played], S], scenario: Callable[[S], Awaitable[object]]) -> None:
    """Runs a scenario; afterwards every request has its answer, and every task its end."""

    async def main(played: Played) -> None:
        rig = make(played)
        await scenario(rig)
        await turns()
        assert all(task.done() for task in rig.tasks)
        assert played.open == []

    run(main)
