"""Tests of what the listeners of a broker share, and what two brokers in one process do not."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.base.network import OsNetwork
from ottla.server.network.context import NetworkContext
from ottla.server.network.listener import Listener
from ottla.server.network.socket_settings import SocketSettings
from tests.fakes import MemoryBroker
from tests.server.network.peer import framed
from tests.server.network.test_listener import SliceDispatch


def context_of(broker: MemoryBroker) -> NetworkContext:
    return NetworkContext(broker.clock, broker.context.purgatory, OsNetwork())


def test_two_brokers_have_their_own_buffers_and_counts() -> None:
    one, other = (context_of(MemoryBroker({})) for _ in range(2))
    one.counts.add("10.0.0.1")
    one.buffers.view[:1] = b"x"
    assert (one.counts.connections, other.counts.connections) == (1, 0)
    assert bytes(other.buffers.view[:1]) == b"\0"


def test_what_it_holds_is_what_it_was_given() -> None:
    broker = MemoryBroker({})
    context = context_of(broker)
    assert context.clock is broker.clock
    assert context.purgatory is broker.context.purgatory


def test_without_more_parameters_it_listens_on_real_sockets() -> None:
    async def main() -> None:
        broker = MemoryBroker({})
        context = context_of(broker)
        listeners = [Listener(name, context, SliceDispatch(), SocketSettings()) for name in ("A", "B")]
        for listener in listeners:
            await listener.open("127.0.0.1", 0)
            await listener.accept()
        streams = [await asyncio.open_connection("127.0.0.1", listener.port) for listener in listeners]
        for reader, writer in streams:
            writer.write(framed(b"hello"))
            assert await reader.readexactly(9) == framed(b"hello")
        assert context.counts.connections == 2, "both listeners count"
        for _, writer in streams:
            writer.close()
        for listener in listeners:
            await listener.close(1.0)
        assert context.counts.connections == 0

    asyncio.run(main())


def test_it_takes_no_attribute_that_nobody_reads() -> None:
    with pytest.raises(AttributeError):
        context_of(MemoryBroker({})).bufers = None  # type: ignore[attr-defined]  # that is the point
