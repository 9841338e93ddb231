"""The client with which a broker asks others (server/peers/), against both brokers and their controllers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from compat_tests.brokers import Address
from compat_tests.reference.kafka import CLUSTER_ID, HOST, NODE_ID, free_port
from ottla.server.base.clock import LoopClock
from ottla.server.base.network import OsNetwork
from ottla.server.base.randomness import from_system
from ottla.server.peers.connection import BUFFER_BYTES
from ottla.server.peers.outcomes import Disconnected, TimedOut, UnsupportedVersion
from ottla.server.peers.peer import Peer
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_configs import ENCODE_RESPONSE, MAX_VERSION, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

TIMEOUT_MS = 30_000
BROKER_RESOURCE = 4
OF_CONTROLLERS = 2
"""The endpoint type by which DescribeCluster asks for controllers."""


def run(port: int, scenario: Callable[[Peer], Awaitable[None]]) -> None:
    """Runs a scenario with a peer at `port`, and closes the peer."""

    async def main() -> None:
        peer = Peer(HOST, port, "broker-9-compat", network=OsNetwork(), clock=LoopClock(), random=from_system())
        try:
            await asyncio.wait_for(scenario(peer), 90)
        finally:
            await peer.close()
        assert asyncio.all_tasks() <= {asyncio.current_task()}

    asyncio.run(main())


def controller_port(address: Address) -> int:
    """Returns the port of the controller's listener of a combined node."""
    written = Path(address.log_file).with_name("server.properties").read_text()
    found = re.search(r"CONTROLLER://[^:]+:(\d+)", written)
    assert found is not None
    return int(found[1])


def test_a_broker_says_who_it_is_and_what_it_has(broker: Address) -> None:
    async def scenario(peer: Peer) -> None:
        asked = [
            peer.call(request, TIMEOUT_MS)
            for request in (ApiVersionsRequest("ottla", "0.1"), MetadataRequest(topics=[]), DescribeClusterRequest())
        ]
        versions, metadata, cluster = [await each for each in asked]
        has = {each.api_key: (each.min_version, each.max_version) for each in versions.api_keys}
        assert versions.error_code == 0
        assert {key: has[key][1] for key in (0, 1, 3, 18, 60)} == {key: APIS[key].max_version for key in (0, 1, 3, 18, 60)}
        assert (metadata.cluster_id, cluster.cluster_id, cluster.error_code) == (CLUSTER_ID, CLUSTER_ID, 0)
        assert [(each.node_id, each.host, each.port) for each in metadata.brokers] == [(NODE_ID, HOST, broker.port)]
        assert [(each.broker_id, each.host, each.port) for each in cluster.brokers] == [(NODE_ID, HOST, broker.port)]
        assert metadata.controller_id == cluster.controller_id == NODE_ID

    run(broker.port, scenario)


def test_a_controller_says_who_it_is_and_is_not_asked_what_only_brokers_have(broker: Address) -> None:
    port = controller_port(broker)

    async def scenario(peer: Peer) -> None:
        cluster = await peer.call(DescribeClusterRequest(endpoint_type=OF_CONTROLLERS), TIMEOUT_MS, min_version=1)
        assert (cluster.error_code, cluster.cluster_id, cluster.controller_id) == (0, CLUSTER_ID, NODE_ID)
        assert [(each.broker_id, each.port) for each in cluster.brokers] == [(NODE_ID, port)]
        with pytest.raises(UnsupportedVersion, match="does not know Metadata"):
            await peer.call(MetadataRequest(topics=[]), TIMEOUT_MS)
        versions = await peer.call(ApiVersionsRequest("ottla", "0.1"), TIMEOUT_MS)
        assert versions.error_code == 0

    run(port, scenario)


def test_a_broker_is_not_asked_what_only_controllers_have(broker: Address) -> None:
    async def scenario(peer: Peer) -> None:
        with pytest.raises(UnsupportedVersion, match="does not know BrokerHeartbeat"):
            await peer.call(BrokerHeartbeatRequest(), TIMEOUT_MS)

    run(broker.port, scenario)


def test_an_answer_that_is_larger_than_the_buffer_between_two_that_are_not(broker: Address) -> None:
    async def scenario(peer: Peer) -> None:
        own = DescribeConfigsResource(BROKER_RESOURCE, str(NODE_ID), None)
        asked = [
            peer.call(request, TIMEOUT_MS)
            for request in (
                MetadataRequest(topics=[]),
                DescribeConfigsRequest([own], include_synonyms=True, include_documentation=True),
                DescribeClusterRequest(),
            )
        ]
        small, large, last = [await each for each in asked]
        parts: list[Any] = []
        ENCODE_RESPONSE[MAX_VERSION](large, parts)
        assert sum(map(len, parts)) > 2 * BUFFER_BYTES
        assert "log.dirs" in {config.name for config in large.results[0].configs}
        assert small.cluster_id == last.cluster_id == CLUSTER_ID

    run(broker.port, scenario)


def test_nobody_there(broker: Address) -> None:
    async def scenario(peer: Peer) -> None:
        for _ in range(3):
            with pytest.raises(Disconnected, match="cannot connect"):
                await peer.call(MetadataRequest(topics=[]), TIMEOUT_MS)

    run(free_port(), scenario)


def test_an_answer_that_takes_longer_than_there_is_time(broker: Address, topic_of: Callable[[str], str]) -> None:
    name = topic_of("t")

    async def scenario(peer: Peer) -> None:
        metadata = await peer.call(MetadataRequest([MetadataRequestTopic(name=name)]), TIMEOUT_MS)
        empty = FetchTopic(topic_id=metadata.topics[0].topic_id, partitions=[FetchPartition(partition_max_bytes=1000)])
        while True:  # until the broker leads what it has just made
            found = await peer.call(FetchRequest(topics=[empty]), TIMEOUT_MS, min_version=13)
            if found.responses[0].partitions[0].error_code == ErrorCode.NONE:
                break
        first = peer.call(FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=[empty]), 500, min_version=13)
        behind = peer.call(MetadataRequest(topics=[]), TIMEOUT_MS)
        with pytest.raises(TimedOut, match="did not answer Fetch within 500 ms"):
            await first
        with pytest.raises(Disconnected):
            await behind
        assert (await peer.call(MetadataRequest(topics=[]), TIMEOUT_MS)).cluster_id == CLUSTER_ID

    run(broker.port, scenario)
