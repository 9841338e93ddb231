"""A browser's connection: who opens one has to ask for something soon and to take the answer, and there are only so many.

With TLS, the handshake comes first. It counts like a connection and has the same time; and where other machines reach the
console, one of them has so many connections at most, and gives one up to another that has fewer when all are taken, so that no
few shut the others out.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS: Final = 64
HEAD_S: Final = 10.0
"""For how long a connection may be open without the whole head of a request, or of a body that nobody reads any more."""
STALLED_S: Final = 30.0
"""For how long a browser may take nothing of what is there for it."""
MAX_OF_SOURCE: Final = 32
_log: Final = logging.getLogger("ottla.console")


class Connection(H11Protocol):
    """uvicorn's connection, which bounds neither how many there are, nor how long a head takes, nor how long an answer
    waits to be taken: without these bounds, connections that need no token would shut everybody out."""

    _head_timer: asyncio.TimerHandle | None = None
    _stalled_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        transport.set_write_buffer_limits(1)  # so that this is told of what is not taken at once; 0 stops all writing with TLS
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._head_timer = self.loop.call_later(HEAD_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_stalled_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._time_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._time_head()

    def _time_head(self) -> None:
        """Starts the timer while something of a request is due, whose end nothing else waits for."""
        is_idle = self.conn.their_state is h11.IDLE
        rest_of_body = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        if rest_of_body or (is_idle and self.conn.trailing_data[0]):
            self._head_timer = self._head_timer or self.loop.call_later(HEAD_S, self.transport.abort)
        elif not is_idle:  # a head has come, and its request is under way
            self._stop_head_timer()

    @property
    def is_busy(self) -> bool:
        """Returns whether a request is under way."""
        return self.conn.their_state is not h11.IDLE

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._time_writing()

    def resume_writing(self) -> None:
        self._stop_stalled_timer()
        super().resume_writing()

    def _time_writing(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._stalled_timer = self.loop.call_later(STALLED_S, self._cut_off_stalled, left)

    def _cut_off_stalled(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:  # slow, but it takes something
            self._time_writing()
        else:
            self.transport.abort()

    def _stop_stalled_timer(self) -> None:
        if self._stalled_timer is not None:
            self._stalled_timer.cancel()
            self._stalled_timer = None


class Handshake(asyncio.Protocol):
    """A connection until it is encrypted; then `make` makes what speaks HTTP. `context` returns what TLS is spoken with now,
    `under_way` has all that are not so far, and `others` are the connections that are. uvicorn's own way to TLS bounds neither
    their number nor, below a minute, their time."""

    is_busy = False

    def __init__(
        self,
        context: Callable[[], ssl.SSLContext],
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
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        self.transport, self.source = transport, source_at(transport, self._source_of)
        if not self._find_room():
            transport.abort()
            return
        transport.pause_reading()  # until TLS reads
        transport.set_write_buffer_limits(1)
        self._under_way.add(self)
        self._task = asyncio.get_running_loop().create_task(self._encrypt(transport))

    def _find_room(self) -> bool:
        """Returns whether there is room for one more of this source. Where all is taken, the source that has most gives up what
        it misses least, if it still has as many as this one then."""
        at: list[tuple[str, Any]] = [(each.source, each) for each in self._under_way]
        at += [(source_at(each.transport, self._source_of), each) for each in self._others]
        held = Counter(source for source, _ in at)
        if held[self.source] >= MAX_OF_SOURCE:
            return False
        if len(at) < MAX_CONNECTIONS:
            return True
        most, count = held.most_common(1)[0]
        if count <= held[self.source] + 1:
            return False
        given_up = min((each for source, each in at if source == most), key=lambda each: each.is_busy)
        self._under_way.discard(given_up)
        self._others.discard(given_up)
        given_up.transport.abort()
        return True

    def data_received(self, data: bytes) -> None:
        self._early += data  # what a browser sends at once comes before the end of the handshake is known here

    async def _encrypt(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        try:
            encrypted = await loop.start_tls(
                transport, self, self._context(), server_side=True, ssl_handshake_timeout=HEAD_S, ssl_shutdown_timeout=HEAD_S
            )
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
