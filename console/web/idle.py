"""Ends a console that a broker has started when nobody has looked for a while: without a request under way, an open stream being
one, for so long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

IDLE_S: Final = 15 * 60.0


class Timer(Protocol):
    """Declares what is done to a timer."""

    def cancel(self) -> object: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class Idle:
    """The ASGI application around the others. `begin` starts to count, in the loop; `over` is called once. `call_later` is the
    loop's, unless a test has its own time."""

    def __init__(self, app: ASGIApp, after_s: float = IDLE_S, call_later: CallLater | None = None) -> None:
        self._app = app
        self._after_s = after_s
        self._call_later = call_later
        self._open = 0
        self._timer: Timer | None = None
        self._over: Callable[[], None] = lambda: None

    def begin(self, over: Callable[[], None]) -> None:
        """Calls `over` when nobody has asked for so long, from now on."""
        self._over = over
        self._arm()

    def _arm(self) -> None:
        call_later = self._call_later or asyncio.get_running_loop().call_later
        self._timer = call_later(self._after_s, self._over)

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
