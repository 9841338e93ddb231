"""Connections that ask for nothing, and forms that do not arrive, keep nobody out."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import uvicorn

from compat_tests.security.tls_files import BROKER, ROOT
from ottla.console.web import connection, security
from ottla.console.web.security import FORM
from ottla.console.web.tls import context_of
from tests.console.browser import HOST, browsing

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 1.0)
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 3)


async def _hello(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def _serving(use: Any, answer: Any = _hello) -> None:
    """Calls `use(open)` while a server runs; `open()` returns the reader and the writer of a connection."""
    config = uvicorn.Config(answer, http=connection.Connection, lifespan="off", log_config=None)
    config.load()
    state, opened = uvicorn.server.ServerState(), []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: connection.Connection(config, state, {}), "127.0.0.1", 0)

    async def open_() -> Any:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        opened.append(writer)
        return reader, writer

    async with asyncio.timeout(30):
        await use(open_)
    for writer in opened:
        writer.close()
    server.close()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    with suppress(ConnectionError):
        return await reader.read() == b""
    return True


def test_a_connection_without_a_head_is_closed() -> None:
    async def use(open_: Any) -> None:
        idle, _ = await open_()
        half, writer = await open_()
        writer.write(HEAD)
        assert await is_closed(idle)
        assert await is_closed(half)
        kept, writer = await open_()
        writer.write(HEAD + b"\r\n" + HEAD)
        assert (await kept.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        assert await is_closed(kept)  # within its time, not uvicorn's five seconds: the second head never ends

    asyncio.run(_serving(use))


def test_a_connection_too_many_is_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 60)

    async def use(open_: Any) -> None:
        first, writer = await open_()
        for _ in range(2):
            await open_()
        assert await is_closed((await open_())[0])
        writer.write(HEAD + b"\r\n")
        assert (await first.readuntil(b"hello")).startswith(b"HTTP/1.1 200")

    asyncio.run(_serving(use))


def test_a_body_that_nobody_reads_any_more_has_to_end_soon() -> None:
    """The answer to such a request has gone out already, and a byte of the body stops uvicorn's own timer."""

    async def use(open_: Any) -> None:
        reader, writer = await open_()
        writer.write(HEAD + b"Content-Length: 1000\r\n\r\n")
        await reader.readuntil(b"hello")
        writer.write(b"x")
        assert await is_closed(reader)
        reader, writer = await open_()
        writer.write(HEAD + b"Content-Length: 3\r\n\r\n")
        await reader.readuntil(b"hello")
        writer.write(b"xyz" + HEAD + b"\r\n")  # it ends, and the connection goes on
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")

    asyncio.run(_serving(use))


LARGE = 32 << 20


async def _large(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]})
    await send({"type": "http.response.body", "body": bytes(LARGE)})


def test_a_browser_that_does_not_take_its_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 20)
    monkeypatch.setattr(connection, "STALLED_S", 0.3)

    async def use(open_: Any, *_: Any, **tls: Any) -> None:
        reader, writer = await open_(**tls)
        writer.write(HEAD + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            while True:  # the server does not read these, until somebody takes what it has written
                writer.write(HEAD)
                await writer.drain()

    asyncio.run(_serving(use, _large))
    asyncio.run(_encrypting(partial(use, ssl=client(), server_hostname="localhost"), _large))


def test_a_browser_that_takes_its_answer_slowly_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STALLED_S", 1.0)

    async def use(open_: Any) -> None:
        loop = asyncio.get_running_loop()
        reader, writer = await open_()
        writer.write(HEAD + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        began = loop.time()
        for part in range(1, 33):
            await reader.readexactly(LARGE // 32)
            await until(began + part * 0.07)
        assert loop.time() - began > 2 * connection.STALLED_S

    asyncio.run(_serving(use, _large))


async def until(when: float) -> None:
    """Waits until the loop's clock says so: who takes something slowly is made of time."""
    loop = asyncio.get_running_loop()
    reached = loop.create_future()
    loop.call_at(when, reached.set_result, None)
    await reached


def test_a_form_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "FORM_S", 0.05)

    async def never() -> Any:
        return await asyncio.get_running_loop().create_future()

    headers = {"Host": HOST, "Origin": f"http://{HOST}", "Content-Type": FORM}
    with browsing(_Nobody()) as browser:
        assert browser.ask("POST", "/login", headers, receive=never).status == 408


class _Nobody:
    bootstrap = "nobody:9092"


async def _encrypting(use: Any, answer: Any = _hello) -> None:
    """Calls `use(open, state)` while a server runs that speaks TLS; `open()` returns the reader and the writer of a connection,
    which does not speak it itself unless it is told to."""
    config = uvicorn.Config(answer, http=connection.Connection, lifespan="off", log_config=None)
    config.load()
    state, opened = uvicorn.server.ServerState(), []
    under_way: set[Any] = set()
    context = context_of(BROKER.pem().encode())
    given = {"config": config, "server_state": state, "app_state": {}}

    def accepted() -> asyncio.Protocol:
        return connection.Handshake(lambda: context, under_way, lambda host: host, connection.Connection, **given)

    server = await asyncio.get_running_loop().create_server(accepted, "127.0.0.1", 0)

    async def open_(source: str = "127.0.0.1", **tls: Any) -> Any:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), local_addr=(source, 0), **tls)
        opened.append(writer)
        return reader, writer

    async with asyncio.timeout(30):
        await use(open_, under_way)
    for writer in opened:
        writer.close()
    server.close()


def client() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ROOT.chain_pem())


def test_tls_comes_first_and_then_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 20)

    async def use(open_: Any, under_way: set[Any]) -> None:
        reader, writer = await open_(ssl=client(), server_hostname="localhost")
        writer.write(HEAD + b"\r\n")
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        writer.write(HEAD + b"\r\n")
        await reader.readuntil(b"hello")
        assert under_way == set()

    asyncio.run(_encrypting(use))


def test_what_a_browser_sends_with_the_end_of_its_handshake_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of its own, whose last bytes of the handshake and first ones of a request arrive together."""
    monkeypatch.setattr(connection, "HEAD_S", 20)

    async def use(open_: Any, _: set[Any]) -> None:
        reader, writer = await open_()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        end = client().wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
                break
            writer.write(outgoing.read())
            incoming.write(await reader.read(1 << 16))
        end.write(HEAD + b"\r\n")
        writer.write(outgoing.read())
        text = b""
        while b"hello" not in text:
            incoming.write(await reader.read(1 << 16))
            with suppress(ssl.SSLWantReadError):
                text += end.read(1 << 16)

    asyncio.run(_encrypting(use))


def test_a_handshake_that_does_not_come_is_not_waited_for() -> None:
    async def use(open_: Any, under_way: set[Any]) -> None:
        silent, _ = await open_()
        plain, writer = await open_()
        writer.write(HEAD + b"\r\n")
        assert await is_closed(plain)
        assert await is_closed(silent)
        assert under_way == set()

    asyncio.run(_encrypting(use))


def test_handshakes_and_connections_are_so_many_in_all_and_of_one_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 20)
    monkeypatch.setattr(connection, "MAX_OF_SOURCE", 2)

    async def use(open_: Any, under_way: set[Any]) -> None:
        reader, writer = await open_(ssl=client(), server_hostname="localhost")
        writer.write(HEAD + b"\r\n")
        await reader.readuntil(b"hello")
        await open_()
        of_source, _ = await open_()
        assert await is_closed(of_source)
        await open_("127.0.0.2")
        beyond, _ = await open_("127.0.0.2")
        assert await is_closed(beyond)
        assert len(under_way) == 2
        writer.write(HEAD + b"\r\n")
        await reader.readuntil(b"hello")

    asyncio.run(_encrypting(use))


def test_where_all_is_taken_who_has_most_gives_one_up_to_who_has_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 20)
    tls = {"ssl": client(), "server_hostname": "localhost"}

    async def use(open_: Any, _: set[Any]) -> None:
        busy, writer = await open_(**tls)
        writer.write(HEAD + b"Content-Length: 3\r\n\r\n")  # an answer comes, and the request is not over
        await busy.readuntil(b"hello")
        idle, idle_writer = await open_(**tls)
        idle_writer.write(HEAD + b"\r\n")
        await idle.readuntil(b"hello")
        silent, _ = await open_()
        other, other_writer = await open_("127.0.0.2", **tls)
        assert await is_closed(silent)
        other_writer.write(HEAD + b"\r\n")
        await other.readuntil(b"hello")
        assert await is_closed((await open_("127.0.0.2"))[0])  # it would have more than who gives up
        third, third_writer = await open_("127.0.0.3", **tls)
        third_writer.write(HEAD + b"\r\n")
        await third.readuntil(b"hello")
        assert await is_closed(idle)
        assert await is_closed((await open_("127.0.0.4"))[0])  # each has one
        writer.write(b"abc" + HEAD + b"\r\n")
        await busy.readuntil(b"hello")

    asyncio.run(_encrypting(use))
