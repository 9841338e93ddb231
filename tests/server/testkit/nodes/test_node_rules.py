"""Tests of who leads and who has replicas when nodes of a simulated cluster go and others take their place."""

from __future__ import annotations

from ottla.wire.messages import create_topics
from tests.server.testkit.lives_rig import run
from tests.server.testkit.nodes_rig import refused, three


def test_a_node_without_a_replica_takes_the_leaders_place() -> None:
    async def scenario() -> None:
        async with three(default_replication_factor="1") as rig:
            await rig.create("orders", leader=1)
            assert rig.partition("orders").replicas == (1,)
            moved = await rig.move("orders", leader=3)
            assert (moved["replicas"], moved["isr"], moved["leader"]) == ([3], [3], 3)
            assert (await rig.produce(3, "orders"))[0].error_code == 0

    run(scenario)


def test_replicas_may_be_on_a_node_that_is_gone() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=1)
            seeded = (await rig.call("POST", "/v1/snapshots"))["name"]
            await rig.call("DELETE", "/v1/nodes/3")
            await rig.call("POST", "/v1/nodes")
            await rig.call("POST", f"/v1/snapshots/{seeded}/restore")
            assert 3 in rig.partition("orders").replicas
            moved = await rig.move("orders", leader=4)
            assert (moved["leader"], 3 in moved["replicas"]) == (4, True)
            await rig.call("DELETE", "/v1/nodes/2")
            partition = rig.partition("orders")
            assert 2 not in partition.replicas
            assert len(set(partition.directories)) == 1

    run(scenario)


def test_a_node_with_an_only_replica_stays_as_it_is() -> None:
    async def scenario() -> None:
        async with three(default_replication_factor="1") as rig:
            body = create_topics.CreateTopicsRequest([create_topics.CreatableTopic("shared", 1, 3)])
            assert (await rig.ask(1, create_topics, 7, body)).topics[0].error_code == 0
            await rig.move("shared", leader=2)
            await rig.create("orders", leader=2)
            before = rig.partition("shared"), rig.partition("orders")
            status, text = await refused(rig, "DELETE", "/v1/nodes/2")
            assert (status, text) == (409, "node 2 has the only replica of orders-0; move it to another node first")
            assert (rig.partition("shared"), rig.partition("orders")) == before

    run(scenario)
