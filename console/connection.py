"""A browser's connection: who opens one has to ask for something soon, and there are only so many of them.

With TLS, the handshake comes first. It counts like a connection and has the same time; and where other machines reach the
console, one of them has so many connections at most, so that no one shuts the others out.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS: Final = 64
HEAD_S: Final = 10.0
"""For how long a connection may be open without the whole head of a request."""
MAX_OF_SOURCE: Final = 32
_log: Final = logging.getLogger("ottla.console")


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


class Handshake(asyncio.Protocol):
    """A connection until it is encrypted; then `make` makes what speaks HTTP. `under_way` has all that are not so far, and
    `others` are the connections that are. uvicorn's own way to TLS bounds neither their number nor, below a minute, their
    time."""

    def __init__(
        self,
        context: ssl.SSLContext,
        under_way: set[Handshake],
        source_of: Callable[[str], str],
        make: Callable[..., Connection],
        **given: Any,
    ) -> None:
        self._context = context
        self._under_way = under_way
        self._source_of = source_of
        self._others: set[Any] = given["server_state"].connections
        self._make = partial(make, **given)
        self._early = bytearray()
        self._task: asyncio.Task[None] | None = None
        self.source = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        self.source = source_at(transport, self._source_of)
        sources = [each.source for each in self._under_way]
        sources += [source_at(each.transport, self._source_of) for each in self._others]
        if len(sources) >= MAX_CONNECTIONS or sources.count(self.source) >= MAX_OF_SOURCE:
            transport.abort()
            return
        transport.pause_reading()  # until TLS reads
        self._under_way.add(self)
        self._task = asyncio.get_running_loop().create_task(self._encrypt(transport))

    def data_received(self, data: bytes) -> None:
        self._early += data  # what a browser sends at once comes before the end of the handshake is known here

    async def _encrypt(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        try:
            encrypted = await loop.start_tls(transport, self, self._context, server_side=True, ssl_handshake_timeout=HEAD_S)
        except (OSError, asyncio.CancelledError) as error:  # an SSLError is an OSError, and so is too late
            _log.debug("no handshake with %s: %s", self.source, error)
            transport.abort()
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        finally:
            self._under_way.discard(self)
        if encrypted is None or encrypted.is_closing():
            return
        connection = self._make()
        encrypted.set_protocol(connection)
        connection.connection_made(encrypted)
        if self._early:
            connection.data_received(bytes(self._early))


def source_at(transport: asyncio.BaseTransport, source_of: Callable[[str], str]) -> str:
    """Returns the source at the other end of a connection."""
    peer = transport.get_extra_info("peername")
    return source_of(str(peer[0])) if peer else "?"
