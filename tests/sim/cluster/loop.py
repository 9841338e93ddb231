"""A virtual loop on which single nodes can stand still, or be gone: what is due for them waits, or is dropped.

Which node a callback belongs to, its context says (`LIFE`). Time goes on for a node that stands still (SIGSTOP), as it does for
the rest.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from tests.sim.loop import LIFE, VirtualLoop


class ClusterLoop(VirtualLoop):
    """See the module's docstring."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.over: set[int] = set()
        """Lives whose process is gone: nothing of them runs any more."""
        self._held: dict[int, list[asyncio.Handle]] = {}

    def is_paused(self, life: int) -> bool:
        return life in self._held

    def pause(self, life: int) -> None:
        """Has a life stand still."""
        self._held.setdefault(life, [])

    def resume(self, life: int) -> None:
        """Lets it go on, with all that became due meanwhile."""
        self._ready.extend(self._held.pop(life, ()))  # type: ignore[attr-defined]  # typeshed does not list it

    def holds(self, handle: asyncio.Handle) -> bool:
        """Returns whether a callback must not run now; it is kept for later if it may run then."""
        life = handle._context.get(LIFE, 0)  # type: ignore[attr-defined]  # typeshed does not list it
        if life in self.over:
            return True
        if life in self._held:
            self._held[life].append(handle)
            return True
        return False

    def _call_soon(self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None) -> Any:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]  # typeshed does not list it
        return handle

    def call_at(  # type: ignore[override]  # typeshed has variadic types
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]  # typeshed does not list it
        timer._scheduled = True  # type: ignore[attr-defined]  # typeshed does not list it
        return timer


class _Handle(asyncio.Handle):
    def _run(self) -> None:
        if not self._loop.holds(self):  # type: ignore[attr-defined]  # it is a ClusterLoop
            super()._run()


class _Timer(asyncio.TimerHandle):
    def _run(self) -> None:
        if not self._loop.holds(self):  # type: ignore[attr-defined]  # it is a ClusterLoop
            super()._run()
