"""A broker that simulates three nodes, on a disk in memory, and requests to each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ottla.server.testkit.fields import Refused
from ottla.wire.messages import fetch, find_coordinator, incremental_alter_configs, metadata, produce
from tests.asking import ask
from tests.log.support import batch
from tests.server.testkit.lives_rig import Rig, living

NODES = (1, 2, 3)


class NodesRig:
    """The rig of the broker, with what is asked of its nodes."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.call = rig.call

    @property
    def ports(self) -> dict[int, int]:
        nodes = self.rig.lives.nodes
        assert nodes is not None
        return {node.id: node.ports["PLAINTEXT"] for node in nodes}

    async def ask(self, node: int, messages: Any, version: int, request: Any) -> Any:
        """The answer of one node."""
        return await ask(self.ports[node], messages, version, request)

    async def move(self, topic: str, index: int = 0, **fields: Any) -> Any:
        return await self.call("POST", f"/v1/partitions/{topic}/{index}", fields)

    async def node(self, node: int, **fields: Any) -> Any:
        return await self.call("POST", f"/v1/nodes/{node}", fields)

    async def create(self, topic: str, partitions: int = 1, leader: int = 1, **configs: str) -> None:
        """A topic whose partitions one node leads."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        await self.call("PUT", f"/v1/topics/{topic}", {"partitions": partitions, "configs": named})
        for index in range(partitions):
            await self.move(topic, index, leader=leader)

    async def configure(self, topic: str, name: str, value: str) -> None:
        """Gives a topic another setting."""
        altered = incremental_alter_configs.AlterableConfig(name, 0, value)
        resource = incremental_alter_configs.AlterConfigsResource(2, topic, [altered])
        body = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
        answer = await self.ask(1, incremental_alter_configs, 1, body)
        assert answer.responses[0].error_code == 0

    def partition(self, topic: str, index: int = 0) -> Any:
        return self.rig.lives.context.metadata.partition(topic, index)

    async def produce(self, node: int, topic: str, version: int = 11, acks: int = -1) -> Any:
        """Returns what a node answers for partition 0; the whole answer as well."""
        data = produce.PartitionProduceData(0, batch())
        body = produce.ProduceRequest(None, acks, 1000, [produce.TopicProduceData(topic, partition_data=[data])])
        answer = await self.ask(node, produce, version, body)
        return answer.responses[0].partition_responses[0], answer

    async def fetch(self, node: int, topic: str, version: int = 12, epoch: int = -1, max_wait_ms: int = 0) -> Any:
        """Returns what a node answers a consumer for partition 0."""
        partition = fetch.FetchPartition(0, epoch, 0, partition_max_bytes=1_000_000)
        body = fetch.FetchRequest(
            replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=1, topics=[fetch.FetchTopic(topic, partitions=[partition])]
        )
        return (await self.ask(node, fetch, version, body)).responses[0].partitions[0]

    async def waits(self, topic: str) -> None:
        """Returns when a fetch waits for partition 0."""
        replica = self.rig.replica(topic)
        for _ in range(100_000):
            if replica.watchers:
                return
            await asyncio.sleep(0)
        raise AssertionError("no fetch waits")

    async def seen(self, node: int, version: int = 12, topic: str | None = None) -> Any:
        """The metadata by one node."""
        topics = [] if topic is None else [metadata.MetadataRequestTopic(name=topic)]
        return await self.ask(node, metadata, version, metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False))

    async def coordinator(self, node: int, key: str, key_type: int = 0) -> int:
        """The coordinator by one node; -1 if there is none."""
        body = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        return int((await self.ask(node, find_coordinator, 4, body)).coordinators[0].node_id)


@asynccontextmanager
async def three(**settings: str) -> AsyncIterator[NodesRig]:
    """Three nodes, which lead a partition each of the internal topics."""
    quick = {
        "ottla_test_nodes": "3",
        "offsets_topic_num_partitions": "3",
        "transaction_state_log_num_partitions": "3",
        "group_initial_rebalance_delay_ms": "0",
    }
    async with living(None, None, **(quick | settings)) as rig:
        yield NodesRig(rig)


async def refused(rig: NodesRig, method: str, path: str, body: Any = None) -> tuple[int, str]:
    """The status and the text of a call that is refused."""
    with pytest.raises(Refused) as caught:
        await rig.call(method, path, body)
    return caught.value.status, str(caught.value)


async def answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True
