"""A client of a simulated broker: requests of any API and version, and the answers, over a link that may break.

Every client reconnects by itself with the next request. A request ends with its answer or with `Lost`: the connection broke or
the time was up, and nobody knows whether the broker has done it.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable
from typing import Any, Final

from ottla.wire.header import decode_response_header, encode_request_header
from ottla.wire.messages import find_coordinator
from tests.sim.loop import VirtualLoop
from tests.sim.network import Link, Port, Receiver

GROUP: Final = 0
TRANSACTION: Final = 1
_SIZE: Final = struct.Struct(">i")
TIMEOUT_S: Final = 4.0


class Lost(ConnectionError):
    """No answer came. `sent` is False if the request certainly did not reach the broker."""

    def __init__(self, why: str, *, sent: bool = True) -> None:
        super().__init__(why)
        self.sent = sent


class Client:
    """One client. `port` returns the broker's network of the moment."""

    def __init__(self, loop: VirtualLoop, port: Callable[[], Port], name: str) -> None:
        self.name = name
        self._loop = loop
        self._port = port
        self._end: _End | None = None
        self._correlation_id = 0

    @property
    def link(self) -> Link | None:
        """The connection that is open, for who breaks things."""
        return self._end.link if self._end is not None else None

    def close(self) -> None:
        if self._end is not None:
            self._end.close()
            self._end = None

    def send(self, messages: Any, version: int, request: Any) -> asyncio.Future[Any]:
        """Sends a request; the future gets the answer, or Lost. Raises Lost if there is no connection."""
        end = self._end
        if end is None or end.link is None or not end.link.open:
            end = self._end = _End()
            try:
                end.link = self._port().connect(end)
            except ConnectionRefusedError as error:
                self._end = None
                raise Lost(str(error), sent=False) from error
        self._correlation_id += 1
        body: list[bytes] = [encode_request_header(messages.API_KEY, version, self._correlation_id, self.name)]
        messages.ENCODE_REQUEST[version](request, body)
        frame = b"".join(body)
        answer: asyncio.Future[Any] = self._loop.create_future()
        end.waiting[self._correlation_id] = (messages, version, answer)
        end.link.send(_SIZE.pack(len(frame)) + frame)
        return answer

    async def call(self, messages: Any, version: int, request: Any, timeout_s: float = TIMEOUT_S) -> Any:
        """Returns the answer to a request. Raises Lost."""
        return await self.wait(self.send(messages, version, request), timeout_s)

    async def wait(self, answer: asyncio.Future[Any], timeout_s: float = TIMEOUT_S) -> Any:
        """Returns the answer. Raises Lost; if the time is up, the connection is closed."""
        timer = self._loop.call_later(timeout_s, self._time_out, answer)
        try:
            return await answer
        finally:
            timer.cancel()

    def _time_out(self, answer: asyncio.Future[Any]) -> None:
        if not answer.done():
            answer.set_exception(Lost("no answer in time"))
            self.close()

    async def find_coordinator(self, key: str, kind: int) -> None:
        """Asks who coordinates a group (GROUP) or a transactional id (TRANSACTION), which makes the internal topic if it is
        missing. There is only one broker, so what it answers does not matter.
        """
        request = find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        with contextlib.suppress(Lost):
            await self.call(find_coordinator, 4, request)

    def send_only(self, messages: Any, version: int, request: Any) -> None:
        """Sends a request that gets no answer, as Produce with acks 0. Raises Lost if there is no connection."""
        answer = self.send(messages, version, request)
        assert self._end is not None
        del self._end.waiting[self._correlation_id]
        answer.cancel()


class _End(Receiver):
    """The client's end of one connection."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.waiting: dict[int, tuple[Any, int, asyncio.Future[Any]]] = {}
        self._bytes = b""

    def received(self, data: bytes) -> None:
        self._bytes += data
        while len(self._bytes) >= _SIZE.size:
            size: int = _SIZE.unpack_from(self._bytes)[0]
            frame, rest = self._bytes[_SIZE.size : _SIZE.size + size], self._bytes[_SIZE.size + size :]
            if len(frame) < size:
                return
            self._bytes = rest
            correlation_id = int.from_bytes(frame[:4], "big")
            messages, version, answer = self.waiting.pop(correlation_id)
            if not answer.done():
                _, at = decode_response_header(messages.API_KEY, version, frame, 0)
                answer.set_result(messages.DECODE_RESPONSE[version](frame, at)[0])

    def lost(self) -> None:
        waiting, self.waiting = self.waiting, {}
        for _, _, answer in waiting.values():
            if not answer.done():
                answer.set_exception(Lost("the connection broke"))

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
        self.lost()
