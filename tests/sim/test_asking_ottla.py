"""A peer and a broker of ours, in memory, over a network that splits, delays, cuts and swallows what is sent."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any

import pytest

from ottla.server.base.randomness import from_seed
from ottla.server.broker.broker import Broker
from ottla.server.handlers import BROKER, served
from ottla.server.peers.outcomes import Disconnected, TimedOut
from ottla.server.peers.peer import Peer
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.metadata import MetadataRequest
from tests.server.broker.whole_broker import config, disk
from tests.sim.loop import VirtualClock, VirtualLoop
from tests.sim.network import HOST, Link, Port

TIMEOUT_MS = 5_000
SEEDS = range(5)


class Two:
    """A broker that serves, and another node that has a peer for it."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.served = Port(loop, Random(seed), contextvars.copy_context())
        clock = VirtualClock(loop)
        self.broker = Broker(
            config(listeners=f"PLAINTEXT://{HOST}:{Port.NUMBER}", broker_rack="r1"),
            disk=disk(),
            clock=clock,
            random=from_seed(seed),
            network=self.served,
        )
        own = Port(loop, Random(seed + 1), contextvars.copy_context(), {HOST: self.served})
        self.peer = Peer(HOST, Port.NUMBER, "broker-2", network=own, clock=clock, random=from_seed(seed))

    @property
    def link(self) -> Link:
        """The newest connection."""
        return list(self.served.links)[-1]

    async def ask(self, timeout_ms: int = TIMEOUT_MS) -> Any:
        return await self.peer.call(DescribeClusterRequest(), timeout_ms)


@pytest.fixture(params=SEEDS)
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Callable[[Two], Awaitable[None]]], None]]:
    """Runs a scenario with both started, and closes them."""
    loop = VirtualLoop(Random(request.param))

    async def main(scenario: Callable[[Two], Awaitable[None]]) -> None:
        two = Two(loop, request.param)
        await two.broker.start()
        await scenario(two)
        await two.peer.close()
        await two.broker.stop()
        assert asyncio.all_tasks() <= {asyncio.current_task()}

    yield lambda scenario: loop.run_until_complete(main(scenario))
    assert not loop.errors
    loop.close()


Run = Callable[[Callable[[Two], Awaitable[None]]], None]


def test_the_answers_are_right(run: Run) -> None:
    async def scenario(two: Two) -> None:
        peer, broker = two.peer, two.broker
        asked = [
            peer.call(request, TIMEOUT_MS)
            for request in (ApiVersionsRequest("ottla", "1"), MetadataRequest(topics=[]), DescribeClusterRequest())
        ]
        versions, metadata, cluster = [await each for each in asked]
        assert {each.api_key: each.max_version for each in versions.api_keys} == {
            key: api.max_version for key, api in served(BROKER).items() if key not in (71, 72)
        }
        assert (metadata.cluster_id, metadata.controller_id) == (broker.cluster_id, 1)
        for answer in (metadata.brokers, cluster.brokers):
            assert [(each.host, each.port, each.rack) for each in answer] == [(HOST, Port.NUMBER, "r1")]
        assert [each.node_id for each in metadata.brokers] == [each.broker_id for each in cluster.brokers] == [1]
        assert len(two.served.links) == 1

    run(scenario)


def test_a_connection_that_is_cut_anywhere_is_made_again(run: Run) -> None:
    async def scenario(two: Two) -> None:
        await two.ask()
        for size in (0, 1, 3, 4, 5, 9, 17):
            two.link.cut_after(size)
            with pytest.raises(Disconnected):
                await two.ask()
            assert (await two.ask()).cluster_id == two.broker.cluster_id

    run(scenario)


def test_a_network_that_swallows_everything_is_noticed_by_the_time_alone(run: Run) -> None:
    async def scenario(two: Two) -> None:
        await two.ask()
        two.link.swallow()
        with pytest.raises(TimedOut):
            await two.ask(300)
        assert (await two.ask()).cluster_id == two.broker.cluster_id

    run(scenario)


def test_a_broker_that_died_is_asked_again_until_another_has_its_place(run: Run) -> None:
    async def scenario(two: Two) -> None:
        await two.ask()
        two.served.die()
        for _ in range(3):
            with pytest.raises(Disconnected):
                await two.ask()
        two.served.alive = True
        assert (await two.ask()).cluster_id == two.broker.cluster_id

    run(scenario)
