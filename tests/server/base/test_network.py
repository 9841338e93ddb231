"""Addresses are taken as the settings say, and hosts looked up."""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile

import pytest

from compat_tests.certificates import authority, client_context, issue
from ottla.server.base.network import LOOPBACK_SEND_BYTES, OsNetwork


def test_an_address_in_use_is_an_error() -> None:
    with OsNetwork().bind("127.0.0.1", 0) as first:
        first.listen()
        with pytest.raises(OSError, match="in use"):
            OsNetwork().bind("127.0.0.1", first.getsockname()[1])


def test_no_host_is_every_interface() -> None:
    with OsNetwork().bind("", 0) as sock:
        sock.listen()
        with socket.create_connection(("127.0.0.1", sock.getsockname()[1])):
            pass


def test_what_the_settings_say_of_buffers_is_set() -> None:
    with OsNetwork().bind("127.0.0.1", 0, send_buffer_bytes=20_000, receive_buffer_bytes=30_000) as sock:
        with OsNetwork().bind("127.0.0.1", 0) as plain:
            for option, size in ((socket.SO_SNDBUF, 20_000), (socket.SO_RCVBUF, 30_000)):
                assert sock.getsockopt(socket.SOL_SOCKET, option) >= size
                assert sock.getsockopt(socket.SOL_SOCKET, option) != plain.getsockopt(socket.SOL_SOCKET, option)


@pytest.mark.parametrize(("host", "is_fixed"), [("127.0.0.1", True), ("127.0.0.2", True), ("localhost", True), ("", False)])
def test_only_at_a_loopback_address_the_send_buffer_does_not_grow(host: str, is_fixed: bool) -> None:
    with OsNetwork().bind(host, 0) as sock, socket.socket() as untouched:
        size, default = (each.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for each in (sock, untouched))
        assert (size > default) == is_fixed
        assert size <= 2 * LOOPBACK_SEND_BYTES


def test_a_server_accepts_from_its_start_on() -> None:
    async def scenario() -> None:
        made: list[asyncio.Protocol] = []

        def factory() -> asyncio.Protocol:
            made.append(asyncio.Protocol())
            return made[-1]

        sock = OsNetwork().bind("127.0.0.1", 0)
        server = await OsNetwork().serve(factory, sock, 5)
        assert not server.is_serving()
        await server.start_serving()
        _, writer = await asyncio.open_connection(*sock.getsockname())
        writer.close()
        server.close()
        await server.wait_closed()
        assert len(made) == 1

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_connection_is_opened_for_a_protocol_or_refused() -> None:
    class Sent(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.write(b"hello")
            transport.close()

    async def scenario() -> None:
        got: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            got.set_result(await reader.read())
            writer.close()

        server = await asyncio.start_server(read, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await OsNetwork().connect_to(Sent, "127.0.0.1", port)
        assert await got == b"hello"
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await OsNetwork().connect_to(Sent, "127.0.0.1", port)

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_thread_gets_a_connection_that_it_waits_by() -> None:
    with OsNetwork().bind("127.0.0.1", 0) as sock:
        sock.listen()
        with OsNetwork().dial("127.0.0.1", sock.getsockname()[1], 7.5) as made:
            assert made.gettimeout() == 7.5
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        port = sock.getsockname()[1]
    with pytest.raises(OSError, match="refused"):
        OsNetwork().dial("127.0.0.1", port, 7.5)


def test_the_address_of_a_host() -> None:
    assert asyncio.run(OsNetwork().address_of("127.0.0.1")) == "127.0.0.1"


def test_the_machine_has_the_name_that_it_gives_itself_if_it_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "127.0.0.9")
    assert OsNetwork().own_host() == "127.0.0.9"
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")

    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert OsNetwork().own_host() == "localhost"


@pytest.mark.parametrize("trusted", [True, False])
def test_connections_are_encrypted_where_there_is_a_context(trusted: bool) -> None:
    """Both kinds: one of the event loop, and one of a thread."""
    root = authority()
    own = issue("node", root)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(own.pem())
        file.flush()
        served.load_cert_chain(file.name)
    context = client_context(root if trusted else authority("foreign"))

    class Heard(asyncio.Protocol):
        def __init__(self) -> None:
            self.data: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def data_received(self, data: bytes) -> None:
            self.data.set_result(data)

    def by_thread(port: int) -> bytes:
        sock = OsNetwork().dial("127.0.0.1", port, 30, context)
        try:
            return sock.recv(5)
        finally:
            sock.close()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=served)
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # the other half of a refused handshake
        port = server.sockets[0].getsockname()[1]
        heard = Heard()
        thread = asyncio.to_thread(by_thread, port)
        if trusted:
            await OsNetwork().connect_to(lambda: heard, "127.0.0.1", port, context)
            assert [await heard.data, await thread] == [b"hello", b"hello"]
        else:
            for attempt in (OsNetwork().connect_to(lambda: heard, "127.0.0.1", port, context), thread):
                with pytest.raises(ssl.SSLCertVerificationError):
                    await attempt
        server.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
