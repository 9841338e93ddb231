"""Listeners on real sockets, under asyncio's loop and uvloop: regions by sendfile, limits, idle connections, the end."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from ottla.log.disk.files import FileSlice, OsDisk
from ottla.server.base.clock import LoopClock
from ottla.server.base.network import OsNetwork
from ottla.server.network.connection import Connection
from ottla.server.network.context import NetworkContext
from ottla.server.network.listener import SWEEPS, Listener
from ottla.server.network.socket_settings import SocketSettings
from ottla.server.requests.session import Session
from ottla.wire.primitives import Buffer
from tests.fakes import MemoryBroker
from tests.server.network.peer import Peer, turn

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
IDLE_MS = 10_000


class SliceDispatch:
    """Answers "f" with a region of a file, everything else with itself."""

    def __init__(self, part: FileSlice | None = None) -> None:
        self.part = part

    def serve_again(self, frame: Buffer, session: Session) -> Any:
        return self.serve(frame, session)

    def serve(self, frame: Buffer, session: Session) -> Any:
        if bytes(frame) == b"f" and self.part is not None:
            part = FileSlice(self.part.file, self.part.position, self.part.length)
            return [len(part).to_bytes(4, "big"), part]
        return len(frame).to_bytes(4, "big") + bytes(frame)


class WatchedListener(Listener):
    """Tells when a connection has gone."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.changed = asyncio.Event()

    def forget(self, connection: Connection) -> None:
        super().forget(connection)
        self.changed.set()

    async def down_to(self, connections: int) -> None:
        while len(self.connections) > connections:
            self.changed.clear()
            await self.changed.wait()


class Rig:
    def __init__(self, dispatch: SliceDispatch, **settings: Any) -> None:
        self.broker = MemoryBroker({})
        limits = SocketSettings(max_idle_ms=IDLE_MS, **settings)
        context = NetworkContext(self.broker.clock, self.broker.context.purgatory, OsNetwork())
        self.listener = WatchedListener("PLAINTEXT", context, dispatch, limits)

    async def connect(self, limit: int = 2**16) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.listener.port, limit=limit)


def run(loop: str, scenario: Callable[[Rig], Awaitable[None]], dispatch: SliceDispatch | None = None, **settings: Any) -> None:
    async def main() -> None:
        rig = Rig(dispatch or SliceDispatch(), **settings)
        await rig.listener.open("127.0.0.1", 0)
        await rig.listener.accept()
        try:
            await asyncio.wait_for(scenario(rig), 60)
        finally:
            await rig.listener.close(1.0)
        assert not rig.listener.connections

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())


async def ask(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], body: bytes) -> bytes:
    reader, writer = streams
    writer.write(len(body).to_bytes(4, "big") + body)
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)


async def hang_up(*connections: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    for _, writer in connections:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.fixture
def large(tmp_path: Path) -> tuple[FileSlice, bytes]:
    data = random.Random(1).randbytes(20_000_000)
    file = OsDisk().open(str(tmp_path / "large"), create=True)
    file.append([data])
    return FileSlice(file, 1000, len(data) - 2000), data[1000:-1000]


@pytest.mark.parametrize("loop", LOOPS)
def test_large_regions_arrive_whole_also_at_a_slow_reader(loop: str, large: tuple[FileSlice, bytes]) -> None:
    part, data = large

    async def scenario(rig: Rig) -> None:
        rig.listener.context.clock = LoopClock()  # what waits for its turn goes on by itself
        streams = await rig.connect(limit=2**14)
        reader, writer = streams
        writer.write(b"\0\0\0\1f\0\0\0\5after\0\0\0\1f")
        await asyncio.sleep(0)
        received = bytearray()
        wanted = 2 * (4 + len(data)) + 9
        while len(received) < wanted:
            received += await reader.read(7000)
        assert received == (size := len(data).to_bytes(4, "big")) + data + b"\0\0\0\5after" + size + data
        assert await ask(streams, b"still here") == b"still here"
        await hang_up(streams)

    run(loop, scenario, SliceDispatch(part))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_peer_that_leaves_in_the_middle_disturbs_nobody(loop: str, large: tuple[FileSlice, bytes]) -> None:
    part, data = large

    async def scenario(rig: Rig) -> None:
        other = await rig.connect()
        for _ in range(3):
            reader, writer = await rig.connect()
            writer.write(b"\0\0\0\1f")
            await reader.readexactly(100_000)
            writer.transport.abort()
        assert await ask(other, b"f") == data
        await rig.listener.down_to(1)
        await hang_up(other)

    run(loop, scenario, SliceDispatch(part))


@pytest.mark.parametrize("loop", LOOPS)
def test_idle_connections_are_closed_and_busy_ones_not(loop: str) -> None:
    async def scenario(rig: Rig) -> None:
        idle, busy = await rig.connect(), await rig.connect()
        await ask(idle, b"once")
        for _ in range(SWEEPS + 1):
            assert await ask(busy, b"again") == b"again"
            assert not idle[0].at_eof()
            rig.broker.clock.advance(IDLE_MS / 1000 / SWEEPS)
        assert await idle[0].read() == b""
        assert await ask(busy, b"again") == b"again"
        await hang_up(idle, busy)

    run(loop, scenario)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "settings", [{"max_connections": 2}, {"max_connections_per_ip": 2}, {"per_ip_overrides": {"127.0.0.1": 2}}]
)
def test_one_connection_too_many_is_refused(loop: str, settings: dict[str, Any]) -> None:
    async def scenario(rig: Rig) -> None:
        kept = [await rig.connect(), await rig.connect()]
        for streams in kept:
            await ask(streams, b"hello")
        refused = await rig.connect()
        with contextlib.suppress(ConnectionResetError):
            assert await refused[0].read() == b""
        assert rig.listener.refused == 1
        await hang_up(kept.pop(), refused)
        await rig.listener.down_to(1)
        kept.append(await rig.connect())  # there is room again
        assert [await ask(streams, b"hello") for streams in kept] == [b"hello", b"hello"]
        await hang_up(*kept)

    run(loop, scenario, **settings)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_end_closes_everything_and_frees_the_address(loop: str) -> None:
    async def scenario(rig: Rig) -> None:
        streams = [await rig.connect() for _ in range(5)]
        for each in streams:
            await ask(each, b"hello")
        port = rig.listener.port
        await rig.listener.close(1.0)
        assert [await reader.read() for reader, _ in streams] == [b""] * 5
        OsNetwork().bind("127.0.0.1", port).close()
        await hang_up(*streams)

    run(loop, scenario)


@pytest.mark.parametrize("patient", [True, False])
def test_the_end_waits_by_the_clock_for_requests_and_then_for_connections(patient: bool) -> None:
    async def scenario() -> None:
        peer = Peer()
        request: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        peer.listener.keep(asyncio.ensure_future(request_of(request)))
        closing = asyncio.ensure_future(peer.listener.close(2.0))
        await turn()
        assert not peer.transport.closed
        if patient:
            request.set_result(None)
        else:
            peer.broker.clock.advance(2.0)
        await turn()
        assert (peer.transport.closed, peer.transport.aborted, closing.done()) == (True, False, False)
        if patient:
            peer.connection.connection_lost(None)
        else:
            peer.broker.clock.advance(2.0)
        await closing
        assert peer.transport.aborted is not patient
        assert peer.broker.clock.waiting == 0
        request.cancel()

    asyncio.run(asyncio.wait_for(scenario(), 60))


async def request_of(answered: asyncio.Future[None]) -> None:
    await answered


class TakenSocket:
    """Stands for a socket."""

    def getsockname(self) -> tuple[str, int]:
        return ("10.1.1.1", 4711)


class FarNetwork(OsNetwork):
    """Binds nothing, serves nobody, and notes what it was asked for."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.sock: Any = TakenSocket()

    def bind(self, host: str | None, port: int, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> socket.socket:
        self.seen.append((host, port, send_buffer_bytes, receive_buffer_bytes))
        taken: socket.socket = self.sock
        return taken

    async def serve(self, factory: Callable[[], asyncio.BaseProtocol], sock: socket.socket, backlog: int) -> asyncio.Server:
        self.seen.append((sock, backlog))
        assert isinstance(factory(), Connection)
        server: asyncio.Server = self.sock
        return server


def test_sockets_and_server_come_from_the_context() -> None:
    broker, network = MemoryBroker({}), FarNetwork()
    settings = SocketSettings(backlog=7, send_buffer_bytes=8, receive_buffer_bytes=9)
    context = NetworkContext(broker.clock, broker.context.purgatory, network)
    listener = Listener("PLAINTEXT", context, SliceDispatch(), settings)
    asyncio.run(listener.open("somewhere", 12))
    assert network.seen == [("somewhere", 12, 8, 9), (network.sock, 7)]
    assert listener.port == 4711
