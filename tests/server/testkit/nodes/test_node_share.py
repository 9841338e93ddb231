"""Share groups over simulated nodes: a session with each, records from the leader, and nothing locked after a move."""

from __future__ import annotations

from typing import Any

from ottla.wire.errors import ErrorCode
from ottla.wire.messages import initialize_share_group_state as initialize
from ottla.wire.messages import share_acknowledge, share_fetch
from tests.server.testkit.lives_rig import Client, run
from tests.server.testkit.nodes_rig import NODES, NodesRig, three

GROUP, MEMBER = "billing", "AAAAAAAAAAAAAAAAAAAAAA"
ACCEPT = 1


async def begun(rig: NodesRig) -> bytes:
    """The id of the topic `orders`, whose partitions two nodes lead, and of which a group reads both from their start."""
    await rig.create("orders", 2, leader=1)
    await rig.move("orders", 1, leader=2)
    topic_id: bytes = rig.rig.lives.context.metadata.topics["orders"].topic_id
    nodes = rig.rig.lives.nodes
    assert nodes is not None
    await nodes.create("__share_group_state")
    partitions = [initialize.PartitionData(index, 1, 0) for index in (0, 1)]
    data = initialize.InitializeStateData(topic_id, partitions)
    answer = await rig.ask(1, initialize, 0, initialize.InitializeShareGroupStateRequest(GROUP, [data]))
    assert [each.error_code for each in answer.results[0].partitions] == [0, 0]
    return topic_id


async def fetched(client: Client, topic_id: bytes, epoch: int) -> dict[int, tuple[int, int, Any]]:
    """By partition: the code, how many records were acquired, and the answer for it."""
    named = [share_fetch.FetchTopic(topic_id, [share_fetch.FetchPartition(index) for index in (0, 1)])] if epoch == 0 else []
    body = share_fetch.ShareFetchRequest(GROUP, MEMBER, epoch, 0, 0, 1 << 20, 500, 500, topics=named)
    answer = await client.ask(share_fetch, 1, body)
    assert answer.error_code == 0
    return {
        each.partition_index: (each.error_code, sum(a.last_offset - a.first_offset + 1 for a in each.acquired_records), each)
        for topic in answer.responses
        for each in topic.partitions
    }


def test_a_member_has_a_session_with_each_node_and_gets_what_that_leads() -> None:
    async def scenario() -> None:
        async with three() as rig:
            topic_id = await begun(rig)
            context = rig.rig.lives.context
            await rig.produce(1, "orders")
            clients = {node: await Client("app").connect(rig.ports[node]) for node in NODES}
            first, second = await fetched(clients[1], topic_id, 0), await fetched(clients[2], topic_id, 0)
            assert (first[0][:2], first[1][0]) == ((0, 1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
            assert (second[0][0], second[1][:2]) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (0, 0))
            assert first[1][2].current_leader.leader_id == 2
            await fetched(clients[1], topic_id, 1)
            await fetched(clients[2], topic_id, 1)
            assert len(context.share_partitions()) == 2
            await clients[2].close()  # what the other node leads stays
            await rig.move("orders", 0, leader=3)
            moved = await fetched(clients[3], topic_id, 0)
            assert moved[0][:2] == (0, 1)  # nobody has it locked at the new leader
            batches = [share_acknowledge.AcknowledgementBatch(0, 0, [ACCEPT])]
            asked = [share_acknowledge.AcknowledgeTopic(topic_id, [share_acknowledge.AcknowledgePartition(0, batches)])]
            body = share_acknowledge.ShareAcknowledgeRequest(GROUP, MEMBER, 2, topics=asked)
            answer = await clients[1].ask(share_acknowledge, 1, body)
            assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            for node in (1, 3):
                await clients[node].close()

    run(scenario)


def test_only_what_a_node_leads_goes_with_its_connections() -> None:
    async def scenario() -> None:
        async with three() as rig:
            topic_id = await begun(rig)
            context = rig.rig.lives.context
            clients = {node: await Client("app").connect(rig.ports[node]) for node in (1, 2)}
            for client in clients.values():
                await fetched(client, topic_id, 0)
            assert context.share_partitions().get(GROUP, (topic_id, 1)) is not None
            await rig.node(2, state="fenced")
            await rig.node(2, state="up")
            await rig.move("orders", 1, leader=1)
            await fetched(clients[1], topic_id, 1)
            await rig.node(2, state="down")
            await rig.seen(1)
            assert context.share_partitions().get(GROUP, (topic_id, 0)) is not None
            for client in clients.values():
                await client.close()

    run(scenario)
