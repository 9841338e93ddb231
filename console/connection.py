"""A browser's connection: who opens one has to ask for something soon, and there are only so many of them."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS: Final = 64
HEAD_S: Final = 10.0
"""For how long a connection may be open without the whole head of a request."""


class Connection(H11Protocol):
    """uvicorn's connection, which bounds neither how many there are nor how long a head takes: without these
    bounds, idle connections, which need no token, would shut everybody out."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._head_timer = self.loop.call_later(HEAD_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:  # a head has come, and its request is under way
            self._stop_timer()
        elif self._head_timer is None and self.conn.trailing_data[0]:  # a part of another one
            self._head_timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
