"""The nodes of a simulated cluster from Python: from the thread of the test, and awaited in the broker's own loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.server.testkit.python.node_handles import NodesById
from ottla.testing import Broker


def test_nodes_are_found_by_id_and_change_when_told() -> None:
    with Broker(nodes=3) as broker:
        assert list(broker.nodes) == [1, 2, 3]
        broker.nodes[2].down()
        assert broker.nodes[2].state == "down"
        broker.nodes[2].rack = "b"
        assert broker.nodes[2].rack == "b"
        with pytest.raises(KeyError):
            broker.nodes[4]
        broker.add_node().remove()
        assert len(broker.nodes) == 3


def test_a_node_is_looked_up_with_one_call() -> None:
    calls: list[str] = []

    def call(name: str, body: Any = None, *, method: str = "", **variables: str) -> Any:
        calls.append(name)
        return [{"id": 1}, {"id": 2}]

    assert NodesById(call)[2].id == 2
    assert calls == ["nodes"]


def test_nodes_are_awaited_in_the_brokers_own_loop() -> None:
    async def scenario() -> None:
        async with Broker(nodes=3) as broker:
            for method in ("down", "up", "fence", "hide", "remove"):
                with pytest.raises(RuntimeError, match=rf"^nodes\[3\]\.{method} waits"):
                    getattr(broker.nodes[3], method)()
            await broker.aio.nodes[3].down()
            assert await broker.aio.nodes[3].state == broker.nodes[3].state == "down"
            await broker.aio.change_node(3, rack="b")
            node: Any = broker.aio.nodes[3]
            with pytest.raises(AttributeError):
                node.rack = "c"
            assert await broker.aio.nodes[3].rack == "b"
            added = await broker.aio.add_node("c")
            assert (added.id, await added.rack) == (4, "c")
            await added.remove()
            with pytest.raises(ValueError, match="there is no node 4; there are 1, 2, 3"):
                await broker.aio.nodes[4].up()

    asyncio.run(scenario())
