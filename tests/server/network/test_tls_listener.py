"""Listeners for TLS on real sockets, under asyncio's loop and uvloop: what happens between accept and the first request."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvloop

from compat_tests.certificates import NOW_MS, authority, client_context, issue
from ottla.log.disk.files import FileSlice, OsDisk
from ottla.server.base.network import OsNetwork
from ottla.server.network import tls_listener
from ottla.server.network.connection import Connection
from ottla.server.network.connection_rates import Admission, ConnectionRates
from ottla.server.network.context import NetworkContext
from ottla.server.network.socket_settings import SocketSettings
from ottla.server.network.tls_listener import HANDSHAKE_S, TlsListener, describe
from ottla.server.quotas.rates import Windows
from ottla.server.requests.session import Session
from ottla.server.security.tls import TlsContexts
from ottla.wire.primitives import Buffer
from tests.fakes import MemoryBroker
from tests.server.network.test_listener import LOOPS, SliceDispatch, ask, hang_up
from tests.server.security.listener import Files, security

ROOT = authority()
BROKER, ALICE, FOREIGN = issue("broker", ROOT), issue("alice", ROOT), issue("alice", authority("foreign"))
FILES = Files({"/own": BROKER.pem().encode(), "/trust": ROOT.chain_pem().encode()})
SETTINGS = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/own",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/trust",
}
REQUIRED = {"ssl.client.auth": "required"}
HOST = "127.0.0.1"


class Principals(SliceDispatch):
    """Answers "p" with the principal of the session."""

    def serve(self, frame: Buffer, session: Session) -> Any:
        if bytes(frame) == b"p":
            name = session.principal.encode()
            return len(name).to_bytes(4, "big") + name
        return super().serve(frame, session)


class WatchedListener(TlsListener):
    """Tells when a client has been admitted or has gone, and when a handshake begins or ends."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.changed = asyncio.Event()

    def _receive(self, sock: Any) -> None:
        super()._receive(sock)
        self.changed.set()

    def _look(self, arrival: Any) -> None:
        super()._look(arrival)
        self.changed.set()

    def _begin_one(self) -> None:
        super()._begin_one()
        self.changed.set()

    def _end_handshake(self, arrival: Any, task: object) -> None:
        super()._end_handshake(arrival, task)
        self.changed.set()

    def _drop(self, arrival: Any) -> None:
        super()._drop(arrival)
        self.changed.set()

    def admit(self, connection: Connection) -> str | None:
        self.changed.set()
        return super().admit(connection)

    def forget(self, connection: Connection) -> None:
        super().forget(connection)
        self.changed.set()

    @property
    def looks_again(self) -> bool:
        """Returns whether a time has been set at which handshakes may have to give way."""
        return self._patience is not None

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


class Rig:
    def __init__(self, dispatch: SliceDispatch, settings: Mapping[str, str], limits: Mapping[str, Any]) -> None:
        self.broker = MemoryBroker({})
        self.clock = self.broker.clock
        self.context = NetworkContext(self.broker.clock, self.broker.context.purgatory, OsNetwork())
        self.tls = TlsContexts(security({**SETTINGS, **settings}), FILES.read, NOW_MS)
        self.listener = WatchedListener("SECURE", self.context, dispatch, SocketSettings(**limits), self.tls)

    async def connect(self, client: ssl.SSLContext | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(HOST, self.listener.port, ssl=client or client_context(ROOT))

    async def dial(self, data: bytes = b"", host: str = HOST) -> socket.socket:
        """A connection from `host` without TLS, which has sent some bytes and is not closed until somebody does."""
        sock = socket.socket()
        sock.setblocking(False)
        sock.bind((host, 0))
        await asyncio.get_running_loop().sock_connect(sock, (HOST, self.listener.port))
        await asyncio.get_running_loop().sock_sendall(sock, data)
        return sock

    def counted(self) -> int:
        return self.context.counts.connections


def run(
    loop: str,
    scenario: Callable[[Rig], Awaitable[None]],
    settings: Mapping[str, str] | None = None,
    dispatch: SliceDispatch | None = None,
    **limits: Any,
) -> None:
    async def main() -> None:
        rig = Rig(dispatch or Principals(), settings or {}, limits)
        await rig.listener.open(HOST, 0)
        assert not rig.listener.accepting
        await rig.listener.accept()
        assert rig.listener.accepting
        try:
            await asyncio.wait_for(scenario(rig), 60)
        finally:
            await rig.listener.close(1.0)
        await rig.listener.until(lambda: rig.counted() == 0)
        assert not rig.listener.connections
        assert not rig.listener.accepting

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())


async def ends(sock: socket.socket) -> None:
    """Returns when the broker has closed the connection."""
    with contextlib.suppress(ConnectionError):
        while await asyncio.get_running_loop().sock_recv(sock, 4096):
            pass
    sock.close()


def read_one(context: ssl.SSLContext, port: int) -> None:
    """Connects and waits for a byte, as a client does that blocks. Raises OSError."""
    with socket.create_connection((HOST, port), 30) as sock, context.wrap_socket(sock, server_hostname="localhost") as encrypted:
        encrypted.recv(1)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ottla.server.listener"]


def hello() -> bytes:
    """The first flight of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(ROOT).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_requests_of_several_clients_do_not_mix(loop: str) -> None:
    async def scenario(rig: Rig) -> None:
        streams = [await rig.connect() for _ in range(3)]
        for size in (1, 100, 20_000, 300_000):
            bodies = [bytes([number]) * size for number in range(1, 4)]
            for (_, writer), body in zip(streams, bodies, strict=True):  # halves of frames of all of them in turn
                writer.write(len(body).to_bytes(4, "big") + body[: size // 2])
            await asyncio.sleep(0)
            for (_, writer), body in zip(streams, bodies, strict=True):
                writer.write(body[size // 2 :])
            for (reader, _), body in zip(streams, bodies, strict=True):
                assert await reader.readexactly(4 + size) == size.to_bytes(4, "big") + body
        assert rig.listener.handshakes == rig.listener.accepted == 3
        await hang_up(*streams)

    run(loop, scenario)


def test_large_regions_arrive_whole(loop: str, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(3_000_000)
    file = OsDisk().open(str(tmp_path / "large"), create=True)
    file.append([data])

    async def scenario(rig: Rig) -> None:
        streams = await rig.connect()
        for _ in range(2):
            assert await ask(streams, b"f") == data
        await hang_up(streams)

    run(loop, scenario, dispatch=Principals(FileSlice(file, 0, len(data))))


@pytest.mark.parametrize(
    ("rules", "principal"),
    [("DEFAULT", "User:CN=alice,O=Ottla"), ("RULE:CN=(.*?),.*/$1/U", "User:ALICE"), ("RULE:CN=bob,.*/x/", None)],
)
def test_the_certificate_is_the_principal(
    loop: str, rules: str, principal: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(rig: Rig) -> None:
        streams = await rig.connect(client_context(ROOT, ALICE, tmp_path))
        if principal is not None:
            assert (await ask(streams, b"p")).decode() == principal
        else:
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await ask(streams, b"p")
        await hang_up(streams)

    run(loop, scenario, REQUIRED | {"ssl.principal.mapping.rules": rules})
    refusals = [record.getMessage() for record in caplog.records if "ssl.principal.mapping.rules" in record.getMessage()]
    assert len(refusals) == (principal is None)
    if refusals:
        assert refusals[0].endswith("matches the name in its certificate, CN=alice,O=Ottla")


@pytest.mark.parametrize("auth", ["none", "requested"])
def test_without_a_certificate_nobody_is_known(loop: str, auth: str) -> None:
    async def scenario(rig: Rig) -> None:
        streams = await rig.connect()
        assert await ask(streams, b"p") == b"User:ANONYMOUS"
        await hang_up(streams)

    run(loop, scenario, {"ssl.client.auth": auth})


@pytest.mark.parametrize(
    ("own", "reason"),
    [(None, "peer did not return a certificate"), (FOREIGN, "certificate verify failed")],
)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_whom_nobody_vouches_for(
    loop: str, version: ssl.TLSVersion, own: Any, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(rig: Rig) -> None:
        client = client_context(ROOT, own, tmp_path)
        client.minimum_version = client.maximum_version = version
        with pytest.raises(ssl.SSLError, match="ALERT"):  # the client hears why
            await asyncio.to_thread(read_one, client, rig.listener.port)
        await rig.listener.until(lambda: rig.listener.failed_handshakes == 1 and not rig.listener.turns.under_way)
        assert (rig.counted(), rig.listener.handshakes) == (1, 0)
        if version is ssl.TLSVersion.TLSv1_3:  # otherwise the end of the listener closes it
            rig.clock.advance(0.1)
            assert rig.counted() == 0

    run(loop, scenario, REQUIRED)
    (line,) = lines(caplog)
    assert " to listener SECURE: " in line
    assert reason in line or "the client's certificate was refused" in line


def test_plain_text_is_one_line(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        for data in (b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff", b"GET / HTTP/1.1\r\n\r\n"):
            await ends(await rig.dial(data))
        await rig.listener.until(lambda: rig.counted() == 0)

    run(loop, scenario)
    assert len(lines(caplog)) == 2
    end = "plain text on a TLS listener; the client needs security.protocol=SSL or SASL_SSL"
    assert all(line.endswith(end) for line in lines(caplog))


def test_who_only_looks_whether_the_port_is_open_is_no_line(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        (await rig.dial()).close()
        await rig.listener.until(lambda: rig.counted() == 0)
        assert rig.listener.failed_handshakes == 0

    run(loop, scenario)
    assert lines(caplog) == []


def test_who_says_nothing_is_closed_in_time(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        silent, slow = await rig.dial(), await rig.dial(b"\x16\x03")
        await rig.listener.until(lambda: rig.counted() == 2)
        rig.clock.advance(HANDSHAKE_S - 0.1)
        assert rig.counted() == 2
        rig.clock.advance(0.2)
        assert rig.counted() == 0
        await ends(silent)
        await ends(slow)

    run(loop, scenario)
    assert len([line for line in lines(caplog) if line.endswith("no TLS handshake within 10 s")]) == 2


def test_limits_count_from_accept(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        half_open = await rig.dial(hello())
        served = await rig.connect()
        await ends(await rig.dial())
        assert (rig.listener.refused, rig.counted()) == (1, 2)
        half_open.close()
        await rig.listener.until(lambda: rig.counted() == 1)
        another = await rig.connect()
        await hang_up(served, another)

    run(loop, scenario, max_connections_per_ip=2)
    assert any(line.endswith("max.connections.per.ip (2) is reached") for line in lines(caplog))


def test_the_listeners_own_limit(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        rig.listener.max_own_connections = 1
        served = await rig.connect()
        await ends(await rig.dial())
        await hang_up(served)

    run(loop, scenario)
    assert any(line.endswith("listener.name.secure.max.connections (1) is reached") for line in lines(caplog))


class Rates(ConnectionRates):
    """Has every connection wait, or refuses it."""

    def __init__(self, rig: Rig, wait_ms: int, *, refused: bool) -> None:
        super().__init__(Windows(1, 1000), rig.clock, rig.context.network)
        self.answer = Admission(wait_ms, refused)

    def admit(self, listener: str, host: str) -> Admission:
        assert (listener, host) == ("SECURE", HOST)
        return self.answer


def test_who_comes_too_fast_waits(loop: str) -> None:
    async def scenario(rig: Rig) -> None:
        rig.listener.rates = Rates(rig, 400, refused=False)
        welcome = asyncio.ensure_future(rig.connect())
        await rig.listener.until(lambda: rig.counted() == 1)
        rig.clock.advance(0.3)
        assert not rig.listener.turns.waiting
        assert not rig.listener.turns.under_way
        rig.clock.advance(0.1)
        streams = await welcome
        await hang_up(streams)

    run(loop, scenario)


def test_who_is_over_the_quota_is_closed_unread(loop: str) -> None:
    async def scenario(rig: Rig) -> None:
        rig.listener.rates = Rates(rig, 400, refused=True)
        client = await rig.dial(hello())
        await rig.listener.until(lambda: rig.listener.refused == 1)
        assert rig.counted() == 0
        rig.clock.advance(0.4)
        await ends(client)

    run(loop, scenario)


def test_a_new_context_is_for_new_connections(loop: str, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        old = await rig.connect()
        renewed = issue("broker", ROOT)
        FILES["/own"] = renewed.pem().encode()
        try:
            assert rig.tls.reload(security(SETTINGS), NOW_MS)
        finally:
            FILES["/own"] = BROKER.pem().encode()
        new = await rig.connect()
        assert [await ask(each, b"still here") for each in (old, new)] == [b"still here"] * 2
        serials = [each[1].get_extra_info("ssl_object").getpeercert()["serialNumber"] for each in (old, new)]
        assert [int(serial, 16) for serial in serials] == [each.certificate.serial_number for each in (BROKER, renewed)]
        await hang_up(old, new)

    run(loop, scenario)


def test_the_end_of_the_listener_ends_all(loop: str) -> None:
    async def scenario(rig: Rig) -> None:
        silent, half_open = await rig.dial(), await rig.dial(hello())
        served = await rig.connect()
        await rig.listener.until(lambda: rig.counted() == 3 and rig.listener.handshakes == 1)
        rig.listener.stop_accepting()
        await ends(silent)
        await ends(half_open)
        assert await ask(served, b"still here") == b"still here"
        await hang_up(served)

    run(loop, scenario)


def test_an_address_that_is_taken() -> None:
    async def scenario(rig: Rig) -> None:
        with pytest.raises(OSError, match="in use"):
            await Rig(Principals(), {}, {}).listener.open(HOST, rig.listener.port)

    run("uvloop", scenario)


def test_failures_to_accept_are_no_end(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.listener.until(failed.is_set)
        rig.clock.advance(1.0)
        streams = await rig.connect()
        await hang_up(streams)

    failed = asyncio.Event()

    class Failing(OsNetwork):
        async def accept(self, listening: socket.socket) -> socket.socket:
            if not failed.is_set():
                failed.set()
                raise OSError(24, "Too many open files")
            return await super().accept(listening)

    async def main() -> None:
        rig = Rig(Principals(), {}, {})
        rig.context.network = Failing()
        await rig.listener.open(HOST, 0)
        await rig.listener.accept()
        await failed.wait()
        await asyncio.sleep(0)
        await asyncio.wait_for(scenario(rig), 60)
        await rig.listener.close(1.0)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())
    assert any("cannot accept a connection, and tries again in a second: [Errno 24]" in line for line in lines(caplog))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ConnectionResetError(104, "Connection reset by peer"),
            "the connection ended during the TLS handshake: Connection",
        ),
        (ConnectionAbortedError("SSL handshake is taking longer"), "no TLS handshake within 10 s"),
        (TimeoutError(), "no TLS handshake within 10 s"),
        (ssl.SSLError(1, "[SSL] something"), "the TLS handshake failed: "),
    ],
)
def test_reasons(error: OSError, text: str) -> None:
    assert describe(error).startswith(text)


def test_both_loops_are_those_of_the_program() -> None:
    assert LOOPS["uvloop"] is uvloop.new_event_loop
    assert tls_listener.SHUTDOWN_S < HANDSHAKE_S
