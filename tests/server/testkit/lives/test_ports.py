"""A port is kept while nobody listens there, and given up when it is wanted no more."""

from __future__ import annotations

import asyncio
import socket

import pytest

from ottla.server.testkit.lives.ports import KeptPorts


def connects(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_port_outlives_its_listener() -> None:
    network = KeptPorts()
    for _ in range(3):
        with network.bind("127.0.0.1", 0) as listening:
            port = listening.getsockname()[1]
            listening.listen()
            assert connects(port)
    for _ in range(3):
        assert not connects(port)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with network.bind("127.0.0.1", port) as listening:
            listening.listen()
            assert connects(port)
    network.close()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()


def test_what_was_bound_for_a_look_is_given_up() -> None:
    network = KeptPorts()
    network.bind("127.0.0.1", 0).close()
    with network.bind("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        network.keep_only({port})
        assert list(network._kept) == [port]
    network.close()


def test_a_port_where_somebody_listens_is_not_available() -> None:
    network = KeptPorts()
    with socket.create_server(("127.0.0.1", 0)) as other:
        with pytest.raises(OSError, match="in use"):
            network.bind("127.0.0.1", other.getsockname()[1])
    assert network._kept == {}


def test_a_listener_is_called_with_each_connection() -> None:
    async def scenario() -> None:
        network, told = KeptPorts(), asyncio.Event()
        bound = network.bind("127.0.0.1", 0)
        server = await network.serve(asyncio.Protocol, bound, 5)
        await server.start_serving()
        port = bound.getsockname()[1]
        for wanted in (False, True):
            network.on_connection = told.set if wanted else None
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            if wanted:
                await told.wait()
            assert told.is_set() == wanted
            writer.close()
            await writer.wait_closed()
        server.close()
        network.close()

    asyncio.run(scenario())
