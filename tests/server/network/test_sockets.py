"""Addresses are taken as the settings say, and hosts looked up."""

from __future__ import annotations

import asyncio
import socket

import pytest

from ottla.server.network.socket_settings import SocketSettings
from ottla.server.network.sockets import address_of_host, bound_socket, loop_server


def test_an_address_in_use_is_an_error() -> None:
    with bound_socket("127.0.0.1", 0, SocketSettings()) as first:
        first.listen()
        with pytest.raises(OSError, match="in use"):
            bound_socket("127.0.0.1", first.getsockname()[1], SocketSettings())


def test_no_host_is_every_interface() -> None:
    with bound_socket("", 0, SocketSettings()) as sock:
        sock.listen()
        with socket.create_connection(("127.0.0.1", sock.getsockname()[1])):
            pass


def test_what_the_settings_say_of_buffers_is_set() -> None:
    with bound_socket("127.0.0.1", 0, SocketSettings(send_buffer_bytes=20_000, receive_buffer_bytes=30_000)) as sock:
        with bound_socket("127.0.0.1", 0, SocketSettings()) as plain:
            for option, size in ((socket.SO_SNDBUF, 20_000), (socket.SO_RCVBUF, 30_000)):
                assert sock.getsockopt(socket.SOL_SOCKET, option) >= size
                assert sock.getsockopt(socket.SOL_SOCKET, option) != plain.getsockopt(socket.SOL_SOCKET, option)


def test_a_server_accepts_from_its_start_on() -> None:
    async def scenario() -> None:
        made: list[asyncio.Protocol] = []

        def factory() -> asyncio.Protocol:
            made.append(asyncio.Protocol())
            return made[-1]

        sock = bound_socket("127.0.0.1", 0, SocketSettings())
        server = await loop_server(factory, sock, 5)
        assert not server.is_serving()
        await server.start_serving()
        _, writer = await asyncio.open_connection(*sock.getsockname())
        writer.close()
        server.close()
        await server.wait_closed()
        assert len(made) == 1

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_the_address_of_a_host() -> None:
    assert asyncio.run(address_of_host("127.0.0.1")) == "127.0.0.1"
