"""Connections that ask for nothing, and forms that do not arrive, keep nobody out."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
import uvicorn

from ottla.console import connection, security
from ottla.console.security import FORM
from tests.console.browser import HOST, browsing

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 0.3)
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 3)


async def _hello(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def _serving(use: Any) -> None:
    """Calls `use(open)` while a server runs; `open()` returns the reader and the writer of a connection."""
    config = uvicorn.Config(_hello, http=connection.Connection, lifespan="off", log_config=None)
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


def test_a_form_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "FORM_S", 0.05)

    async def never() -> Any:
        return await asyncio.get_running_loop().create_future()

    headers = {"Host": HOST, "Origin": f"http://{HOST}", "Content-Type": FORM}
    with browsing(_Nobody()) as browser:
        assert browser.ask("POST", "/login", headers, receive=never).status == 408


class _Nobody:
    bootstrap = "nobody:9092"
