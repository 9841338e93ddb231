"""A network in memory: what clients and a broker write reaches the other side later, in pieces, or not at all.

Each connection is a `Link`. Its bytes arrive in order, after a delay that the seed decides, and now and then in two pieces. What
can be broken, at any moment: `cut` ends it for both sides, in the middle of a frame if bytes are under way; `cut_after` does so
after a number of bytes more; `swallow` loses everything from now on, and neither side is told; `slow_down` makes every piece
take longer; `half_close` ends the client's direction only.

The broker's side is a transport as asyncio's protocols expect it, with its rules for pausing. When a broker dies (`Port.die`) its
side is silent at once, whatever its code still does; what had been sent still arrives, and then the client sees the end.

A broker can be the client of another one: its end of such a link is a transport, too (`ClientTransport`).
"""

from __future__ import annotations

import asyncio
import contextvars
import ssl
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, Protocol, cast

from ottla.server.base.network import BlockingSocket
from tests.sim.loop import VirtualLoop

HOST: Final = "sim"
NO_TLS: Final = "the simulation has no sockets, and so no TLS"
_CLIENT_HOST: Final = "10.0.0.1"
_SPLIT: Final = 0.06
_QUICK: Final = 0.0004
_SLOW: Final = 0.02
_BEHIND: Final = 1e-9


class Receiver(Protocol):
    """A client's end of a link."""

    def received(self, data: bytes) -> None: ...

    def lost(self) -> None:
        """Is called once, when the link has ended."""
        ...


class _NoDescriptor:
    """The socket of a transport in memory, which has no descriptor."""

    @staticmethod
    def fileno() -> int:
        return -1


class Link:
    """One connection of a client to a broker."""

    def __init__(self, port: Port, client: Receiver, random: Random) -> None:
        self._port = port
        self._loop = port.loop
        self._client = client
        self._random = random
        self.server: ServerTransport | None = None
        self.open = True
        self._is_torn = False
        self._swallows = False
        self._slow_s = 0.0
        self._left: int | None = None  # bytes until it is cut
        self._free_at = {True: 0.0, False: 0.0}  # when the last piece arrives, in either direction; True: at the server
        self._wire = contextvars.Context()  # what is under way to the client is in nobody's hands

    # Sending

    def send(self, data: bytes) -> None:
        """Sends to the broker."""
        if self.open:
            self._deliver(data, to_server=True)

    def answer(self, data: bytes) -> None:
        """Sends to the client."""
        self._deliver(data, to_server=False)

    def _deliver(self, data: bytes, *, to_server: bool) -> None:
        if self._left is not None and to_server:
            data, self._left = data[: self._left], self._left - len(data)
        pieces = [data]
        if len(data) > 1 and self._random.random() < _SPLIT:
            at = self._random.randrange(1, len(data))
            pieces = [data[:at], data[at:]]
        for piece in pieces:
            when = self._arrival(to_server)
            if to_server:
                self._loop.call_at(when, self._arrive_at_server, piece, context=self._port.context)
            else:
                self._loop.call_at(when, self._arrive_at_client, piece, context=self._wire)
        if self._left is not None and self._left <= 0:
            self._loop.call_at(self._arrival(to_server), self.cut, context=self._wire)

    def _arrival(self, to_server: bool) -> float:
        delay = self._random.uniform(_QUICK / 2, _SLOW if self._random.random() < 0.05 else _QUICK) + self._slow_s
        behind = self._free_at[to_server] + _BEHIND  # two timers of one time run in any order
        when = self._free_at[to_server] = max(behind, self._loop.time() + delay)
        return when

    def _arrive_at_server(self, data: bytes) -> None:
        if not self._is_torn and not self._swallows and self.server is not None and self._port.alive:
            self.server.feed(data)  # also if the client has closed it since

    def _arrive_at_client(self, data: bytes) -> None:
        if self.server is not None and self._port.alive:
            self.server.sent(len(data))
        if self.open and not self._swallows:
            self._client.received(data)

    # Ends and faults

    def end_at_client(self) -> None:
        """The broker's end is closed: the client learns it after what was sent."""
        self._loop.call_at(self._arrival(False), self._lose_client, context=self._wire)

    def _lose_client(self) -> None:
        if self.open and not self._swallows:
            self.open = False
            self._client.lost()

    def close(self) -> None:
        """The client closes it, and does not want to hear of it again."""
        if not self.open:
            return
        self.open = False
        if not self._swallows:
            self._loop.call_at(self._arrival(True), self._lose_server, None, context=self._port.context)

    def _lose_server(self, error: Exception | None) -> None:
        if self.server is not None and self._port.alive:
            self.server.lose(error)

    def half_close(self) -> None:
        """The client says that it sends nothing more, and goes on reading."""
        if self.open:
            self._loop.call_at(self._arrival(True), self._end_of_input, context=self._port.context)

    def _end_of_input(self) -> None:
        if self.open and self.server is not None and self._port.alive:
            self.server.end_of_input()

    def cut(self) -> None:
        """Ends it for both sides now; what is under way is lost."""
        if self.open:
            self.open, self._is_torn = False, True
            self._loop.call_soon(self._client.lost, context=self._wire)
            self._loop.call_soon(self._lose_server, ConnectionResetError("cut"), context=self._port.context)

    def cut_after(self, size: int) -> None:
        """Cuts it after so many bytes more of the client's."""
        self._left = size

    def swallow(self) -> None:
        self._swallows = True

    def slow_down(self, seconds: float) -> None:
        self._slow_s = seconds


class ServerTransport(asyncio.Transport):
    """The broker's end of a link, as its protocol sees it."""

    def __init__(self, link: Link, port: Port, protocol: Any, client_port: int) -> None:
        super().__init__({"peername": (_CLIENT_HOST, client_port), "socket": _NoDescriptor()})
        self._link = link
        self._port = port
        self._protocol = protocol
        self._unsent = 0
        self._high, self._low = 64 * 1024, 0
        self._full = False
        self._reading = True
        self._closing = False
        self._lost = False
        self._inbox: list[bytes] = []
        self._ended = False

    # What the protocol calls

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or 0, low or 0

    def get_write_buffer_size(self) -> int:
        return self._unsent

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._lost or not self._port.alive:
            return
        self._unsent += len(data)
        self._link.answer(bytes(data))
        if self._unsent > self._high and not self._full:
            self._full = True
            self._protocol.pause_writing()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._port.loop.call_soon(self._read, context=self._port.context)

    def close(self) -> None:
        self._closing = True
        if not self._unsent:
            self._port.loop.call_soon(self._finish, context=self._port.context)

    def abort(self) -> None:
        self._closing = True
        self._port.loop.call_soon(self._finish, context=self._port.context)

    # What the link calls, in the broker's context

    def feed(self, data: bytes) -> None:
        """Bytes have come from the client."""
        self._inbox.append(data)
        self._read()

    def _read(self) -> None:
        while self._inbox and self._reading and not self._closing and self._port.alive:
            data = self._inbox.pop(0)
            buffer = self._protocol.get_buffer(len(data))
            taken = min(len(buffer), len(data))
            buffer[:taken] = data[:taken]
            if taken < len(data):
                self._inbox.insert(0, data[taken:])
            self._protocol.buffer_updated(taken)
        if self._ended and not self._inbox and not self._closing and self._reading and not self._protocol.eof_received():
            self.close()

    def end_of_input(self) -> None:
        self._ended = True
        self._read()

    def sent(self, size: int) -> None:
        """Bytes have left for the client."""
        self._unsent -= size
        if self._full and self._unsent <= self._low and not self._lost:
            self._full = False
            self._port.loop.call_soon(self._resume, context=self._port.context)
        if self._closing and not self._unsent:
            self._port.loop.call_soon(self._finish, context=self._port.context)

    def _resume(self) -> None:
        if not self._lost and self._port.alive:
            self._protocol.resume_writing()

    def _finish(self) -> None:
        if not self._lost:
            self._link.end_at_client()
            self.lose(None)

    def lose(self, error: Exception | None) -> None:
        """The connection has ended."""
        self._closing = True
        if not self._lost and self._port.alive:
            self._lost = True
            self._port.links.discard(self._link)
            self._protocol.connection_lost(error)


class ClientTransport(asyncio.Transport):
    """A broker's end of a link that it opened, as its protocol sees it. What is sent to a broker that has died is lost."""

    def __init__(self, protocol: Any, port: Port) -> None:
        super().__init__()
        self._protocol = protocol
        self._port = port
        self._lost = False
        self._reading = True
        self._inbox = b""
        self.link: Link | None = None

    def is_closing(self) -> bool:
        return self._lost or self.link is None or not self.link.open

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.link is not None and self._port.alive:
            self.link.send(bytes(data))

    def close(self) -> None:
        if self.link is not None and self.link.open:
            self.link.close()
            self.lost()

    abort = close

    def received(self, data: bytes) -> None:
        self._call_soon(self._feed, data)

    def _feed(self, data: bytes) -> None:
        self._inbox += data
        while self._inbox and self._reading and not self._lost:
            buffer = self._protocol.get_buffer(len(self._inbox))
            taken = min(len(buffer), len(self._inbox))
            buffer[:taken], self._inbox = self._inbox[:taken], self._inbox[taken:]
            self._protocol.buffer_updated(taken)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._call_soon(self._feed, b"")

    def lost(self) -> None:
        self._call_soon(self._lose)

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(None)

    def _call_soon(self, call: Callable[..., None], *args: Any) -> None:
        """Runs what the other side causes in the context of the broker that opened the link, unless it has died."""
        self._port.loop.call_soon(lambda: call(*args) if self._port.alive else None, context=self._port.context)


class _BoundSocket:
    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port

    def getsockname(self) -> tuple[str, int]:
        return self._host, self._port

    def close(self) -> None:
        """Nothing is held."""


class _Server:
    """A stand-in for asyncio's Server, which a listener works with."""

    def __init__(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self.factory = factory
        self._serving = False

    async def start_serving(self) -> None:
        self._serving = True

    def is_serving(self) -> bool:
        return self._serving

    def close(self) -> None:
        self._serving = False


class _Links(dict[Link, None]):
    """A set in the order of its additions, because the order of a real one depends on addresses in memory."""

    def discard(self, link: Link) -> None:
        self.pop(link, None)


class Port:
    """The network of one life of a broker, which has one address; it is its `Network` (server/base/network.py). `context` is what
    the broker's code runs in, and `others` are the ports that it reaches, by their hosts.
    """

    NUMBER: Final = 9092
    host: str = HOST

    def __init__(
        self, loop: VirtualLoop, random: Random, context: contextvars.Context, others: Mapping[str, Port] | None = None
    ) -> None:
        self.others = others or {}
        self.loop = loop
        self.context = context
        self.alive = True
        self.links = _Links()
        self._random = random
        self._server: _Server | None = None
        self._clients = 0

    # Network

    def bind(self, host: str | None, port: int, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> Any:
        return _BoundSocket(self.host, port or self.NUMBER)

    async def serve(self, factory: Callable[[], asyncio.BaseProtocol], sock: Any, backlog: int) -> asyncio.Server:
        self._server = _Server(factory)
        return cast(asyncio.Server, self._server)

    async def accept(self, listening: Any) -> Any:
        raise OSError(NO_TLS)

    def when_readable(self, sock: Any, size: int, callback: Callable[[], None]) -> None:
        raise OSError(NO_TLS)

    def peek(self, sock: Any, size: int) -> bytes:
        raise OSError(NO_TLS)

    def stop_waiting(self, sock: Any) -> None:
        raise OSError(NO_TLS)

    async def encrypt(
        self, factory: Callable[[], asyncio.BaseProtocol], sock: Any, context: Any, handshake_s: float, shutdown_s: float
    ) -> None:
        raise OSError(NO_TLS)

    async def connect_to(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: ssl.SSLContext | None = None
    ) -> None:
        if host not in self.others:
            raise OSError(f"no host {host}")
        await asyncio.sleep(self._random.uniform(_QUICK / 2, _QUICK))
        protocol = factory()
        transport = ClientTransport(protocol, self)
        transport.link = self.others[host].connect(transport, self.host)
        protocol.connection_made(transport)

    def dial(self, host: str, port: int, timeout_s: float, context: ssl.SSLContext | None = None) -> BlockingSocket:
        raise OSError(f"nothing in the simulation has a thread that could wait for {host}:{port}")

    async def address_of(self, host: str) -> str:
        return _CLIENT_HOST

    def own_host(self) -> str:
        return self.host

    # Clients

    def connect(self, client: Receiver, origin: str = "") -> Link:
        """Returns a new connection of a client on the host `origin`. Raises ConnectionRefusedError if nobody accepts it."""
        if not self.alive or self._server is None or not self._server.is_serving():
            raise ConnectionRefusedError("nobody listens")
        link = self.make_link(client, origin)
        self.links[link] = None
        self._clients += 1
        protocol = self._server.factory()
        link.server = ServerTransport(link, self, protocol, 20_000 + self._clients)
        self.context.run(protocol.connection_made, link.server)
        return link

    def make_link(self, client: Receiver, origin: str) -> Link:
        """Returns a connection that nobody has accepted yet."""
        return Link(self, client, self._random)

    def die(self) -> None:
        """The broker is gone: its side says nothing from now on, and its clients see the end."""
        self.alive = False
        for link in self.links:
            link.end_at_client()
