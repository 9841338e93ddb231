"""The controller's listener: what is served there, whom DescribeCluster shows, and that a broker does without it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.broker.broker import Broker
from ottla.server.settings.broker_config import BrokerConfig
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import api_versions, describe_cluster, metadata
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from tests.asking import ask
from tests.fakes import NOW_MS
from tests.memdisk import MemDisk
from tests.server.broker.test_quotas_in_force import EVERYBODY, quota

CONTROLLERS = 2


def broker(controller_port: int, protocol: str = "PLAINTEXT") -> Broker:
    texts = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@localhost:{controller_port or 9093}",
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{controller_port}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}",
        "log.dirs": "/data",
    }
    made, unknown = BrokerConfig.from_mapping(texts)
    assert not unknown
    return Broker(made, disk=MemDisk(lambda: NOW_MS))


def run(scenario: Callable[[int], Awaitable[None]], *, taken: bool = False) -> None:
    """With a port that nobody else gets meanwhile: it is bound here, which a broker may do as well unless somebody listens."""

    async def bounded() -> None:
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            if taken:
                held.listen()
            await asyncio.wait_for(scenario(held.getsockname()[1]), 30)

    asyncio.run(bounded())


async def closes_at_a_metadata_request(port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = bytes((0, metadata.API_KEY, 0, 5)) + bytes(4) + b"\xff\xff" + b"\xff" * 4 + b"\0"  # v5, no client id, all topics
    writer.write(len(request).to_bytes(4, "big") + request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer == b""


def test_it_serves_what_the_protocol_has_for_controllers_but_the_log_of_the_metadata() -> None:
    async def scenario(port: int) -> None:
        node = broker(port)
        await node.start()
        keys = {each.api_key for each in (await ask(port, api_versions, 0, ApiVersionsRequest())).api_keys}
        assert {"DescribeCluster", "DescribeQuorum", "CreateTopics", "UpdateFeatures"} <= {APIS[key].name for key in keys}
        assert "Fetch" not in {APIS[key].name for key in keys}
        assert all("controller" in APIS[key].listeners for key in keys)
        assert await closes_at_a_metadata_request(port)
        assert (await ask(node.port, metadata, 5, metadata.MetadataRequest(topics=None))).brokers
        await node.stop()
        with pytest.raises(ConnectionRefusedError):
            await ask(port, api_versions, 0, ApiVersionsRequest())

    run(scenario)


@pytest.mark.parametrize("version", [1, 2])
def test_describe_cluster_shows_the_controllers_to_who_asks_for_them_there(version: int) -> None:
    async def scenario(port: int) -> None:
        node = broker(port)
        await node.start()

        async def describe(at: int, endpoint_type: int) -> Any:
            return await ask(at, describe_cluster, version, DescribeClusterRequest(endpoint_type=endpoint_type))

        answer = await describe(port, CONTROLLERS)
        assert (answer.error_code, answer.endpoint_type, answer.controller_id) == (0, CONTROLLERS, 1)
        assert answer.cluster_id == node.cluster_id
        assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [(1, "127.0.0.1", port)]
        for at, endpoint_type in ((port, 1), (node.port, CONTROLLERS)):
            refused = await describe(at, endpoint_type)
            assert (refused.error_code, refused.endpoint_type) == (ErrorCode.MISMATCHED_ENDPOINT_TYPE, 1)
            assert refused.brokers == []
        await node.stop()

    run(scenario)


def test_describe_cluster_0_is_for_brokers() -> None:
    async def scenario(port: int) -> None:
        node = broker(port)
        await node.start()
        answer = await ask(port, describe_cluster, 0, DescribeClusterRequest())
        assert (answer.error_code, answer.brokers) == (ErrorCode.INVALID_REQUEST, [])
        await node.stop()

    run(scenario)


def test_quotas_hold_on_both_listeners() -> None:
    async def scenario(port: int) -> None:
        node = broker(port)
        await node.start()

        async def throttle_times() -> list[int]:
            answers = [await ask(at, describe_cluster, 2, DescribeClusterRequest(endpoint_type=kind)) for at, kind in addresses]
            return [answer.throttle_time_ms for answer in answers]

        addresses = [(node.port, 1), (port, CONTROLLERS)]
        assert await throttle_times() == [0, 0]
        await quota(node, EVERYBODY, request_percentage=1e-9)
        assert await throttle_times() == [1000, 1000]
        await quota(node, EVERYBODY, request_percentage=None)
        assert await throttle_times() == [0, 0]
        await node.stop()

    run(scenario)


def test_its_address_may_be_taken(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(port: int) -> None:
        node = broker(port)
        with caplog.at_level(logging.WARNING, "ottla.server.broker"):
            await node.start()
        assert (await ask(node.port, metadata, 5, metadata.MetadataRequest(topics=None))).brokers
        assert node.controller_listeners == []
        await node.stop()

    run(scenario, taken=True)
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("listeners: cannot open CONTROLLER://127.0.0.1:")


def test_one_that_cannot_be_secured_keeps_the_broker_from_starting() -> None:
    async def scenario(port: int) -> None:
        with pytest.raises(ConfigError, match=r"^ssl\.keystore\.location: listener CONTROLLER uses SSL and needs a key"):
            await broker(port, "SSL").start()

    run(scenario)


def test_port_0_stays_closed() -> None:
    async def scenario(_: int) -> None:
        node = broker(0)
        await node.start()
        assert node.controller_listeners == []
        await node.stop()

    run(scenario)
