"""A broker that stood still: the first request of whatever kind notices it, before its handler is called."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

from ottla.server.broker import broker as module
from ottla.server.broker import start
from ottla.server.broker.absence import LookFirst, watch_absence
from ottla.server.broker.broker import Broker
from ottla.server.dispatch.chain import Chain
from ottla.server.metadata.cluster import Cluster
from ottla.server.requests.link import Steps
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Open
from ottla.wire.api import APIS
from tests.fakes import MemoryBroker
from tests.server.broker.whole_broker import config, disk, run


def test_the_look_comes_before_the_handler() -> None:
    seen: list[str] = []

    def handle(body: Any, request: Any) -> str:
        seen.append(body)
        return "answer"

    steps = Steps(lambda frame, pos: (frame, pos), handle, lambda answer, parts: None)
    for api in APIS.values():
        around = LookFirst(lambda: seen.append("look")).around(api, Traits(Open("a test")), steps)
        assert around.handle("body", None) == "answer"  # type: ignore[arg-type]  # only passed on
        assert (around.decode, around.encode) == (steps.decode, steps.encode)
    assert seen == ["look", "body"] * len(APIS)


def test_what_is_noticed_reaches_the_replicas() -> None:
    broker = MemoryBroker({"t": 1})

    class Watched:
        look = staticmethod(lambda: None)
        on_doubt: Any = None

    cluster: Any = Watched()
    reloads: list[bool] = []
    watch_absence(cluster, Chain(), broker.replicas, lambda: reloads.append(broker.replica("t").is_leader))
    cluster.on_doubt(True)
    assert not broker.replica("t").is_leader
    assert broker.replicas.in_doubt
    assert not reloads
    cluster.on_doubt(False)
    assert reloads == [True], "shards are loaded once this broker leads again"
    assert not broker.replicas.in_doubt


def test_a_request_over_the_network_looks_where_the_cluster_wants_it() -> None:
    async def scenario() -> None:
        looks: list[str] = []

        async def opened(*args: Any) -> Cluster:
            cluster = await start.open_cluster(*args)
            cluster.look = lambda: looks.append("look")
            return cluster

        with patch.object(module, "open_cluster", opened):
            broker = Broker(config(), disk=disk())
            await broker.start()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.write(bytes.fromhex("0000000a 0012 0000 00000007 ffff".replace(" ", "")))  # ApiVersions
            await reader.readexactly(4)
            writer.close()
            assert looks == ["look"]
        finally:
            await broker.stop()

    run(scenario)
