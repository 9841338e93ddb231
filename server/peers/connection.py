"""One connection to another node: requests go out as they are sent, and their answers come back in the same order.

**Order.** A Kafka node answers the requests of a connection one after the other. So the answer that comes next belongs to the
oldest request that has none, and must have its correlation id. If it has another one, nothing that follows could be trusted.

**In.** Small answers are read into a buffer of the connection, and decoded from a copy. An answer that does not fit into it gets
a buffer of its own, which the next reads fill in place and which goes to whoever asked, so that what refers to it (records) may
be kept. It grows with what has come, not with what was announced, and an answer of more than `max_answer_bytes` is refused before
anything is allocated for it. One about thousands of things is decoded in a thread, and nothing is read until that is done.

**End.** The connection ends once: the other side closes it, or the network does, an answer is not one, a request's time is over,
or this side wants it. Every request without an answer then fails. There is no second attempt here; see peer.py.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, cast

from ottla.server.base.turns import run_in_thread
from ottla.server.peers.call import Call, next_correlation_id
from ottla.server.peers.outcomes import Disconnected, PeerError, TimedOut
from ottla.wire.frame import MALFORMED
from ottla.wire.primitives import Buffer

_SIZE: Final = Struct(">i")
_SIZE_BYTES: Final = 4
_CORRELATION_ID_BYTES: Final = 4
BUFFER_BYTES: Final = 16 * 1024
"""The size of the buffer for small answers. A larger one costs a copy of what is in it, and memory for idle connections."""
_GROWTH: Final = 4
"""By what a buffer for a large answer grows when what has come fills it."""


class Connection(asyncio.BufferedProtocol):
    """One connection; see the module's docstring. `name` is the other node's, for messages.

    `on_end` is called once, with the reason, when the connection has ended, before its requests fail.
    """

    def __init__(self, name: str, client_id: str, max_answer_bytes: int, on_end: Callable[[str], object]) -> None:
        self.name = name
        self._client_id = client_id
        self._max_answer_bytes = max_answer_bytes
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._in_flight: deque[Call] = deque()
        self._correlation_id = -1
        self._ended = False
        self._gone = asyncio.get_running_loop().create_future()
        self._buffer = bytearray(BUFFER_BYTES)
        self._filled = 0
        self._large: bytearray | None = None  # the part that there is of a large answer, and room for more
        self._large_filled = 0
        self._large_size = 0

    @property
    def in_flight(self) -> int:
        """The number of requests that are sent and not answered."""
        return len(self._in_flight)

    def send(self, call: Call, version: int) -> None:
        """Sends a request. It fails with Disconnected if the connection has ended."""
        if self._ended or self._transport is None:
            call.fail(Disconnected(f"there is no connection to {self.name}"))
            return
        self._correlation_id = next_correlation_id(self._correlation_id)
        frame = call.encode(version, self._correlation_id, self._client_id)
        self._in_flight.append(call)
        self._transport.write(frame)

    def time_out(self, call: Call, error: TimedOut) -> None:
        """Fails a request that was sent with `error`, and ends the connection: its answer would still come before all others."""
        self._in_flight.remove(call)
        self.end(str(error))
        call.fail(error)

    def end(self, reason: str, kind: type[PeerError] = Disconnected) -> None:
        """Ends the connection if it has not ended. Its requests fail with an error of this kind, and what was received of an
        answer is dropped."""
        if self._ended:
            return
        self._ended = True
        self._large = None
        if self._transport is not None:
            self._transport.abort()
        self._on_end(reason)
        calls, self._in_flight = self._in_flight, deque()
        for call in calls:
            call.fail(kind(reason))

    async def wait_until_gone(self) -> None:
        """Returns when the transport has let go of the connection, at once if there was none."""
        if self._transport is not None:
            await asyncio.wait([self._gone])

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not one by its class
        if self._ended:  # while it was being made
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._gone.set_result(None)
        self.end(f"{self.name} closed the connection" if error is None else f"the connection to {self.name} broke: {error}")

    def eof_received(self) -> None:
        """Lets the transport close: a node that sends nothing more answers nothing more."""

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._ended:
            return
        if self._large is not None:
            self._fill_large(self._large, nbytes)
        else:
            self._filled += nbytes
            self._take_frames()

    # Frames

    def _take_frames(self) -> None:
        """Serves every whole frame in the buffer, and keeps the beginning of the next one."""
        pos, filled = 0, self._filled
        view = memoryview(self._buffer)
        while not self._ended and filled - pos >= _SIZE_BYTES:
            (size,) = _SIZE.unpack_from(view, pos)
            if not _CORRELATION_ID_BYTES <= size <= self._max_answer_bytes:
                self._refuse_size(size)
                return
            begin, end = pos + _SIZE_BYTES, pos + _SIZE_BYTES + size
            if end <= filled:
                self._take(bytes(view[begin:end]))
                pos = end
                continue
            if _SIZE_BYTES + size > len(view):
                self._begin_large(size, view[begin:filled])
                return
            break
        if pos:
            view[: filled - pos] = view[pos:filled]
        self._filled = filled - pos

    def _refuse_size(self, size: int) -> None:
        if size < _CORRELATION_ID_BYTES:
            self.end(f"{self.name} sent a frame of {size} bytes, which is no answer")
        else:
            self.end(f"{self.name} sent an answer of {size} bytes; no more than {self._max_answer_bytes} are taken")

    def _begin_large(self, size: int, first: memoryview) -> None:
        self._large = bytearray(min(size, _GROWTH * len(self._buffer)))
        self._large[: len(first)] = first
        self._large_filled, self._large_size = len(first), size
        self._filled = 0

    def _fill_large(self, large: bytearray, nbytes: int) -> None:
        self._large_filled += nbytes
        if self._large_filled < len(large):
            return
        if self._large_filled < self._large_size:
            grown = bytearray(min(self._large_size, _GROWTH * len(large)))  # a new one: the transport holds a view of the old
            grown[: len(large)] = large
            self._large = grown
            return
        self._large = None
        self._take(memoryview(large))

    def _take(self, frame: Buffer) -> None:
        """Gives an answer to the oldest request."""
        if not self._in_flight:
            self.end(f"{self.name} sent an answer that nobody asked for")
            return
        call = self._in_flight[0]
        if call.is_decoded_at_once(len(frame)):
            self._finish(call, call.decode_answer, frame)
        else:
            self._decode_in_thread(call, frame)

    def _decode_in_thread(self, call: Call, frame: Buffer) -> None:
        """Has an answer decoded by a thread, or here if the system has none for us. It stays the answer to the oldest request
        meanwhile."""
        transport = self._transport
        assert transport is not None

        def done(decoded: asyncio.Future[Any]) -> None:
            if not self._ended and not decoded.cancelled():
                self._finish(call, lambda _: decoded.result(), frame)
            if not self._ended:
                transport.resume_reading()

        try:
            run_in_thread(lambda: call.decode_answer(frame), done)
        except RuntimeError:
            self._finish(call, call.decode_answer, frame)
        else:
            transport.pause_reading()

    def _finish(self, call: Call, decode: Callable[[Buffer], Any], frame: Buffer) -> None:
        """Keeps the promise of the oldest request by its answer, which is in the frame."""
        try:
            answer = decode(frame)
        except MALFORMED as error:
            self.end(f"what {self.name} answered to {call.name} version {call.version} cannot be read: {error}")
            return
        self._in_flight.popleft()
        call.succeed(answer)
