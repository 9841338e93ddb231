"""Ends a console that a broker has started when nobody has looked for a while: without a request under way, an open stream being
one, for so long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

IDLE_S: Final = 15 * 60.0


class Idle:
    """The ASGI application around the others. `begin` starts to count, in the loop; `over` is called once."""

    def __init__(self, app: ASGIApp, after_s: float = IDLE_S) -> None:
        self._app = app
        self._after_s = after_s
        self._open = 0
        self._timer: asyncio.TimerHandle | None = None
        self._over: Callable[[], None] = lambda: None

    def begin(self, over: Callable[[], None]) -> None:
        """Calls `over` when nobody has asked for so long, from now on."""
        self._over = over
        self._arm()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._over)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._open += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            if not self._open:
                self._arm()
