"""A client at a fake transport, which feeds a connection as asyncio would, and a dispatch that answers with echoes.

The shared buffer is filled with garbage after every read: code that kept a view of it answers nonsense.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.log.disk.files import FileSlice
from ottla.server.base.errors import CloseConnection
from ottla.server.base.network import OsNetwork
from ottla.server.dispatch.route import Plan, Route, Waiting
from ottla.server.handlers import heartbeat
from ottla.server.network.client_memory import UNLIMITED
from ottla.server.network.connection import Connection
from ottla.server.network.context import NetworkContext
from ottla.server.network.listener import Listener
from ottla.server.network.receive_buffers import ReceiveBuffers
from ottla.server.network.socket_settings import SocketSettings
from ottla.server.requests.link import Steps
from ottla.server.requests.request import Request
from ottla.server.requests.session import Session
from ottla.wire.api import BY_MODULE
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.primitives import Buffer, Parts
from tests.fakes import FakeTransport, MemoryBroker

MAX_REQUEST = 1 << 20
NO_BROKER: Any = None


def echo(answer: Any, parts: list[Any]) -> None:
    parts.append(answer)


STEPS = Steps(lambda buf, pos: (buf, pos), lambda body, request: body, echo)
ROUTE = Route(Plan(BY_MODULE["heartbeat"], 0, heartbeat.TRAITS, STEPS, HeartbeatResponse, 1000), STEPS)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class EchoDispatch:
    """Answers a frame with itself. One that begins with `wait` is answered when the test says so, `none` not at all."""

    def __init__(self) -> None:
        self.served: list[bytes] = []
        self.promises: list[asyncio.Future[bytes]] = []
        self.slices: dict[bytes, FileSlice] = {}
        self.parts: dict[bytes, list[FileSlice]] = {}
        self.long: dict[bytes, bytes] = {}
        self.work: Callable[[bytes], object] = lambda request: None
        """The work of serving a request, besides its answer."""

    def serve_again(self, frame: Buffer, session: Session) -> bytes | Parts | Waiting | None:
        return self.serve(frame, session)

    def serve(self, frame: Buffer, session: Session) -> bytes | Parts | Waiting | None:
        request = bytes(frame)
        self.served.append(request)
        self.work(request)
        header = Request(NO_BROKER, session, 3, 0, 0, None)
        if request.startswith(b"wait"):
            self.promises.append(asyncio.get_running_loop().create_future())
            return Waiting(self.promises[-1], ROUTE, header, 0)
        if request.startswith(b"task"):
            self.promises.append(asyncio.get_running_loop().create_future())
            return Waiting(self._finish(self.promises[-1]), ROUTE, header, 0)
        if request.startswith(b"none"):
            return None
        if request.startswith(b"bad"):
            raise CloseConnection("it is bad")
        if request in self.parts:
            regions = self.parts[request]
            return [sum(map(len, regions)).to_bytes(4, "big"), *regions]
        if request in self.slices:
            part = self.slices[request]
            return [len(part).to_bytes(4, "big"), part]
        return framed(self.long.get(request, request))

    async def _finish(self, promise: asyncio.Future[bytes]) -> bytes:
        return await promise


class Peer:
    """A client at a fake transport."""

    def __init__(self, client_bytes: int = UNLIMITED, reserve: int = 0, **settings: Any) -> None:
        self.broker = MemoryBroker({})
        self.dispatch = EchoDispatch()
        self.buffers = ReceiveBuffers(1000)
        limits = SocketSettings(**{"max_request_bytes": MAX_REQUEST, **settings})
        context = NetworkContext(
            self.broker.clock,
            self.broker.context.purgatory,
            OsNetwork(),
            buffers=self.buffers,
            max_client_bytes=client_bytes,
            max_request_bytes=reserve,
        )
        self.counts, self.memory = context.counts, context.memory
        self.listener = Listener("PLAINTEXT", context, self.dispatch, limits)
        self.connection, self.transport = self.connect()

    def connect(self, host: str = "10.0.0.1") -> tuple[Connection, FakeTransport]:
        connection, transport = Connection(self.listener), FakeTransport((host, 4321))
        transport.protocol = connection
        connection.connection_made(transport)
        return connection, transport

    def send(self, data: bytes, chunk: int = 10**9) -> None:
        while data and not self.transport.closed:
            buffer = self.connection.get_buffer(-1)
            count = min(chunk, len(buffer), len(data))
            buffer[:count] = data[:count]
            self.connection.buffer_updated(count)
            del buffer
            self.buffers.view[:] = b"\xa5" * len(self.buffers.view)
            data = data[count:]

    async def round(self) -> None:
        """One round of the loop: lets done callbacks run, and those take turns who wait for theirs."""
        await turn()
        self.broker.clock.run_round()
        await turn()

    def shared_holds(self, data: bytes) -> int:
        """Puts what a read brings where a connection finds it; says how much."""
        self.buffers.view[: len(data)] = data
        return len(data)

    def received(self) -> list[bytes]:
        sent, frames = self.transport.sent, []
        while sent:
            size = int.from_bytes(sent[:4], "big")
            assert len(sent) >= 4 + size
            frames.append(sent[4 : 4 + size])
            sent = sent[4 + size :]
        return frames


async def turn() -> None:
    """Lets done callbacks run."""
    for _ in range(3):
        await asyncio.sleep(0)
