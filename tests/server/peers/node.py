"""Another node at the other end of a peer's connection, and the network that leads to it, both played by the test.

Nothing happens by itself: connections are made, refused or left open as `network.on_connect` says, the node reads the requests
that were sent (`requests`) and answers when the test says so, and time is a ManualClock. `turns` gives the loop its turns.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.server.base.network import OsNetwork
from ottla.server.base.randomness import from_seed
from ottla.server.peers.peer import Peer, PeerSettings
from ottla.wire.api import APIS
from ottla.wire.header import RequestHeader, decode_request_header, encode_response_header
from ottla.wire.messages import api_versions
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.primitives import WireStruct
from tests.fakes import ManualClock

HOST, PORT = "other", 9092
ALL: Mapping[int, tuple[int, int]] = {key: (api.min_version, api.max_version) for key, api in APIS.items()}


class Asked(NamedTuple):
    """A request as the other node sees it."""

    header: RequestHeader
    body: Any


class OtherEnd(asyncio.Transport):
    """The transport of one connection, and the node behind it. It sends what it is told to, in pieces of any size."""

    def __init__(self, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.read = b""
        self.answered = 0
        self.open = True
        self.gone = False
        self.is_paused = False
        self._unread = b""

    # The transport

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
        unread, self._unread = self._unread, b""
        self.send(unread)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert self.open, "written to after its end"
        self.read += data

    def abort(self) -> None:
        if self.open:
            self.open = False
            asyncio.get_running_loop().call_soon(self._lose, None)

    def _lose(self, error: Exception | None) -> None:
        if not self.gone:
            self.gone, self.open = True, False
            self.protocol.connection_lost(error)

    # The node

    @property
    def requests(self) -> list[Asked]:
        """All requests that were sent on this connection."""
        found, pos = [], 0
        while pos < len(self.read):
            size = int.from_bytes(self.read[pos : pos + 4], "big")
            frame = self.read[pos + 4 : pos + 4 + size]
            header, at = decode_request_header(frame, 0)
            body, end = module_of(header).DECODE_REQUEST[header.api_version](frame, at)
            assert end == size == len(frame)
            found.append(Asked(header, body))
            pos += 4 + size
        return found

    def send(self, data: bytes, piece: int = 0) -> None:
        """Sends bytes, `piece` at a time, as long as the connection is open. If nothing is read now, they are read later."""
        while data and self.open:
            if self.is_paused:
                self._unread += data
                return
            buffer: Any = self.protocol.get_buffer(-1)
            assert len(buffer), "no room to read into"
            size = min(len(buffer), len(data), piece or len(data))
            buffer[:size] = data[:size]
            del buffer
            self.protocol.buffer_updated(size)
            data = data[size:]

    def answer(self, response: WireStruct, *, version: int | None = None, correlation_id: int | None = None) -> None:
        """Answers the oldest request that has no answer, in its version and with its correlation id unless others are given."""
        header = self.requests[self.answered].header
        self.answered += 1
        self.send(frame(header, response, version, correlation_id))

    def close(self, error: Exception | None = None) -> None:
        """Ends the connection from the node's side."""
        if error is None:
            assert not self.protocol.eof_received()
        self._lose(error)


def module_of(header: RequestHeader) -> Any:
    """The module of wire/messages that a request belongs to."""
    return __import__(f"ottla.wire.messages.{APIS[header.api_key].module}", fromlist=[""])


def frame(header: RequestHeader, response: WireStruct, version: int | None = None, correlation_id: int | None = None) -> bytes:
    """The answer to a request as it goes over the wire."""
    key, asked = header.api_key, header.api_version
    parts: list[Any] = [encode_response_header(key, asked, header.correlation_id if correlation_id is None else correlation_id)]
    module_of(header).ENCODE_RESPONSE[asked if version is None else version](response, parts)
    body = b"".join(parts)
    return len(body).to_bytes(4, "big") + body


def versions(has: Mapping[int, tuple[int, int]] = ALL, error_code: int = 0) -> ApiVersionsResponse:
    """The answer to ApiVersions of a node that has these APIs."""
    return ApiVersionsResponse(error_code, [ApiVersion(key, *has[key]) for key in has])


class PlayedNetwork(OsNetwork):
    """Leads to the other node. `on_connect` is called for each attempt and may raise; `connected` are the connections made."""

    def __init__(self) -> None:
        self.attempts = 0
        self.connected: list[OtherEnd] = []
        self.contexts: list[ssl.SSLContext | None] = []
        self.on_connect: Callable[[], None] = lambda: None
        self.hold: asyncio.Event | None = None
        """The event that attempts wait for before anything else."""

    async def connect_to(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, context: ssl.SSLContext | None = None
    ) -> None:
        assert (host, port) == (HOST, PORT)
        self.contexts.append(context)
        self.attempts += 1
        if self.hold is not None:
            await self.hold.wait()
        self.on_connect()
        protocol = factory()
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self.connected.append(OtherEnd(protocol))
        protocol.connection_made(self.connected[-1])


def refuse() -> None:
    """Refuses a connection."""
    raise ConnectionRefusedError(111, "refused")


async def turns(count: int = 10) -> None:
    """Gives the loop as many turns as anything that is ready needs."""
    for _ in range(count):
        await asyncio.sleep(0)


class Rig:
    """A peer, its network and its clock."""

    def __init__(self, security: Any = None, **settings: int) -> None:
        self.clock = ManualClock()
        self.network = PlayedNetwork()
        self.peer = Peer(
            HOST,
            PORT,
            "broker-1-test",
            network=self.network,
            clock=self.clock,
            random=from_seed(1),
            settings=PeerSettings(**settings),
            security=security,
        )

    @property
    def node(self) -> OtherEnd:
        """The other node on the newest connection."""
        return self.network.connected[-1]

    async def ready(self, has: Mapping[int, tuple[int, int]] = ALL) -> OtherEnd:
        """Answers ApiVersions on the newest connection, and returns it."""
        await turns()
        asked = self.node.requests[0].header
        assert asked.api_key == api_versions.API_KEY
        self.node.answer(versions(has))
        await turns()
        return self.node
