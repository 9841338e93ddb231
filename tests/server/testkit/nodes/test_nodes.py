"""The nodes of a simulated cluster over their states and over the lives of the broker, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from ottla.log.config_def import ConfigError
from ottla.log.errors import InconsistentMetadata, StorageError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import describe_cluster, elect_leaders, fetch, unregister_broker
from ottla.wire.primitives import uuid_from_text, uuid_to_text
from tests.server.broker.whole_broker import disk
from tests.server.testkit.lives_rig import Rig, living, run
from tests.server.testkit.nodes_rig import NODES, answers, three

LEADERLESS = -1


def test_three_nodes_have_ids_and_ports_of_their_own_and_one_cluster_that_says_what_it_is() -> None:
    async def scenario() -> None:
        async with three() as rig:
            broker = rig.rig.lives.broker
            assert len(set(rig.ports.values())) == 3
            assert broker.bootstrap == ",".join(f"127.0.0.1:{port}" for port in rig.ports.values())
            assert broker.cluster_id.startswith("SIMULATED3-")
            assert uuid_to_text(uuid_from_text(broker.cluster_id)) == broker.cluster_id
            state = await rig.call("GET", "/v1/state")
            assert (state["simulated"], state["nodes"], state["bootstrap"]) == (True, [1, 2, 3], broker.bootstrap)
            for node in NODES:
                seen = await rig.seen(node)
                assert {each.node_id: each.port for each in seen.brokers} == rig.ports
                assert seen.cluster_id == broker.cluster_id

    run(scenario)


def test_topics_have_replicas_and_leaders_on_all_nodes() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.call("PUT", "/v1/topics/orders", {"partitions": 3})
            assert {rig.partition("orders", index).leader for index in range(3)} == {1, 2, 3}
            assert all(set(rig.partition("orders", index).isr) == {1, 2, 3} for index in range(3))
            await rig.call("POST", "/v1/groups/g/coordinator", {"node": 1})
            await rig.call("POST", "/v1/transactions/t/coordinator", {"node": 1})
            for topic in ("__consumer_offsets", "__transaction_state"):
                assert len(rig.rig.lives.context.metadata.topics[topic].partitions) == 3

    run(scenario)


def test_a_move_is_a_new_leader_epoch() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=1)
            epoch = rig.partition("orders").leader_epoch
            moved = await rig.move("orders", leader=2)
            assert (moved["leader"], moved["leader_epoch"], sorted(moved["isr"])) == (2, epoch + 1, [1, 2, 3])
            moved = await rig.move("orders", isr=[2])
            assert (moved["leader"], moved["leader_epoch"], moved["isr"]) == (2, epoch + 1, [2])
            moved = await rig.move("orders", leader=3)  # which was not in sync
            assert (moved["leader"], sorted(moved["isr"])) == (3, [2, 3])
            moved = await rig.move("orders", leader=LEADERLESS)
            assert (moved["leader"], moved["leader_epoch"]) == (LEADERLESS, epoch + 3)
            for node in NODES:
                data, _ = await rig.produce(node, "orders")
                assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                seen = await rig.seen(node, topic="orders")
                assert seen.topics[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
            await rig.move("orders", leader=1)
            data, _ = await rig.produce(1, "orders")
            assert (data.error_code, data.base_offset) == (0, 0)

    run(scenario)


def test_acks_all_needs_the_in_sync_replicas_that_the_topic_wants() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=1, min_insync_replicas="2")
            assert (await rig.produce(1, "orders"))[0].error_code == 0
            await rig.move("orders", isr=[1])
            assert (await rig.produce(1, "orders"))[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
            assert (await rig.produce(1, "orders", acks=1))[0].error_code == 0
            await rig.move("orders", isr=[1, 3])
            assert (await rig.produce(1, "orders"))[0].error_code == 0

    run(scenario)


def test_other_wanted_in_sync_replicas_count_at_once() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=1)
            await rig.move("orders", isr=[1])
            for wanted, error in (("2", ErrorCode.NOT_ENOUGH_REPLICAS), ("1", 0), ("3", ErrorCode.NOT_ENOUGH_REPLICAS), ("1", 0)):
                await rig.configure("orders", "min.insync.replicas", wanted)
                assert (await rig.produce(1, "orders"))[0].error_code == error

    run(scenario)


def test_a_node_that_is_down_refuses_and_others_lead() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=2)
            reader, writer = await asyncio.open_connection("127.0.0.1", rig.ports[2])
            down = await rig.node(2, state="down")
            assert down == {"id": 2, "state": "down", "rack": None, "bootstrap": f"127.0.0.1:{rig.ports[2]}"}
            with contextlib.suppress(ConnectionResetError):  # it may end either way
                assert await reader.read() == b""
            writer.close()
            assert not await answers(rig.ports[2])
            partition = rig.partition("orders")
            assert partition.leader in (1, 3)
            assert set(partition.isr) == {1, 3}
            assert [each.node_id for each in (await rig.seen(1)).brokers] == [1, 3]
            assert (await rig.produce(partition.leader, "orders"))[0].error_code == 0
            await rig.node(2, state="up")
            assert await answers(rig.ports[2])
            assert rig.partition("orders").leader == partition.leader
            assert set(rig.partition("orders").isr) == {1, 2, 3}

    run(scenario)


def test_without_any_replica_that_is_up_there_is_no_leader_until_one_is_back() -> None:
    async def scenario() -> None:
        async with three(default_replication_factor="1") as rig:
            await rig.create("orders", leader=2)
            await rig.produce(2, "orders")
            await rig.node(2, state="down")
            assert (rig.partition("orders").leader, rig.partition("orders").isr) == (LEADERLESS, (2,))
            await rig.node(2, state="up")
            assert rig.partition("orders").leader == 2
            assert (await rig.produce(2, "orders"))[0].base_offset == 1  # nothing is lost: there is one copy

    run(scenario)


def test_the_brokers_own_node_can_be_down_as_well() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.node(1, state="down")
            assert [await answers(rig.ports[node]) for node in NODES] == [False, True, True]
            await rig.call("POST", "/v1/restart", {"how": "kill"})
            assert [await answers(rig.ports[node]) for node in NODES] == [False, True, True]
            await rig.node(1, state="up")
            assert [await answers(rig.ports[node]) for node in NODES] == [True, True, True]

    run(scenario)


def test_a_fenced_node_answers_and_leads_nothing() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=2)
            await rig.node(2, state="fenced")
            assert [each.node_id for each in (await rig.seen(2)).brokers] == [1, 3]
            assert (await rig.produce(2, "orders"))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            body = describe_cluster.DescribeClusterRequest(include_fenced_brokers=True)
            found = (await rig.ask(3, describe_cluster, 2, body)).brokers
            assert sorted((each.broker_id, each.is_fenced) for each in found) == [(1, False), (2, True), (3, False)]
            await rig.node(2, state="up")
            assert [each.node_id for each in (await rig.seen(2)).brokers] == [1, 2, 3]

    run(scenario)


def test_a_hidden_node_leads_and_has_no_address() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=2)
            await rig.node(2, state="hidden")
            seen = await rig.seen(1, topic="orders")
            assert [each.node_id for each in seen.brokers] == [1, 3]
            assert seen.topics[0].partitions[0].error_code == ErrorCode.LISTENER_NOT_FOUND
            assert (await rig.produce(2, "orders"))[0].error_code == 0
            await rig.node(2, state="up")
            assert (await rig.seen(1, topic="orders")).topics[0].partitions[0].leader_id == 2

    run(scenario)


def test_racks_are_registered_and_consumers_are_sent_to_theirs() -> None:
    async def scenario() -> None:
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        async with three(replica_selector_class=selector) as rig:
            await rig.create("orders", leader=1)
            await rig.produce(1, "orders")
            await rig.node(2, rack="b")
            assert {each.node_id: each.rack for each in (await rig.seen(3)).brokers} == {1: None, 2: "b", 3: None}

            async def from_rack(node: int) -> Any:
                topic = fetch.FetchTopic("orders", partitions=[fetch.FetchPartition(0, -1, 0, partition_max_bytes=1_000_000)])
                body = fetch.FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, topics=[topic], rack_id="b")
                return (await rig.ask(node, fetch, 12, body)).responses[0].partitions[0]

            leader, near, far = await from_rack(1), await from_rack(2), await from_rack(3)
            assert (leader.preferred_read_replica, bytes(leader.records or b"")) == (2, b"")
            for follower in (near, far):
                assert follower.preferred_read_replica == -1
                assert bytes(follower.records) != b""

    run(scenario)


@pytest.mark.parametrize("how", ["clean", "kill"])
def test_a_restart_keeps_nodes_ports_and_leaders(how: str) -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", 3, leader=2)
            await rig.produce(2, "orders")
            await rig.node(3, state="down", rack="c")
            before = rig.ports, rig.rig.lives.broker.cluster_id, rig.partition("orders").leader_epoch
            await rig.call("POST", "/v1/restart", {"how": how})
            assert (rig.ports, rig.rig.lives.broker.cluster_id) == before[:2]
            assert rig.partition("orders").leader_epoch > before[2]
            assert not await answers(rig.ports[3])
            assert set(rig.ports.values()) <= rig.rig.lives._network._kept.keys()
            if how == "kill":
                assert {rig.partition("orders", index).leader for index in range(3)} == {2}
            leader = rig.partition("orders").leader
            assert (await rig.produce(leader, "orders"))[0].base_offset == 1
            await rig.node(3, state="up")
            assert await answers(rig.ports[3])
            assert {each.node_id: each.rack for each in (await rig.seen(3)).brokers} == {1: None, 2: None, 3: "c"}

    run(scenario)


def test_a_reset_has_all_nodes_up_at_their_ports() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=2)
            await rig.node(2, state="down")
            before = rig.ports, rig.rig.lives.broker.cluster_id
            await rig.call("POST", "/v1/reset")
            assert (rig.ports, rig.rig.lives.broker.cluster_id) == before
            assert [await answers(rig.ports[node]) for node in NODES] == [True, True, True]
            assert [each.node_id for each in (await rig.seen(2)).brokers] == [1, 2, 3]
            assert rig.partition("orders") is None

    run(scenario)


def test_a_snapshot_is_restored_with_the_nodes_that_there_are() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=2)
            await rig.produce(2, "orders")
            added = await rig.call("POST", "/v1/nodes", {"rack": "d"})
            assert (added["id"], added["rack"]) == (4, "d")
            seeded = (await rig.call("POST", "/v1/snapshots"))["name"]
            await rig.call("DELETE", "/v1/nodes/4")
            await rig.call("POST", "/v1/reset")
            await rig.call("POST", f"/v1/snapshots/{seeded}/restore")
            assert [each.node_id for each in (await rig.seen(3)).brokers] == [1, 2, 3]
            assert (await rig.produce(rig.partition("orders").leader, "orders"))[0].base_offset == 1

    run(scenario)


def test_a_full_disk_leaves_the_nodes_as_they_are() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=2)
            broker, kit = rig.rig.lives.broker, rig.rig.kit
            await rig.node(3, state="down")

            def now() -> tuple[Any, ...]:
                brokers = dict(rig.rig.lives.context.metadata.brokers)
                return rig.ports, list(broker.all_listeners), list(kit._frames), brokers, rig.partition("orders")

            before = now(), await rig.call("GET", "/v1/nodes")
            fault = await rig.call("POST", "/v1/disk", {"fail": "enospc", "path": "__cluster_metadata*"})
            changes: list[tuple[str, str, Any]] = [
                ("POST", "/v1/nodes", {}),
                ("POST", "/v1/nodes/2", {"state": "down"}),
                ("POST", "/v1/nodes/2", {"state": "fenced", "rack": "b"}),
                ("POST", "/v1/nodes/3", {"state": "up"}),
                ("DELETE", "/v1/nodes/2", None),
            ]
            for method, path, body in changes:
                with pytest.raises(StorageError):
                    await rig.call(method, path, body)
                assert (now(), await rig.call("GET", "/v1/nodes")) == before
                assert [await answers(rig.ports[node]) for node in NODES] == [True, True, False]
            await rig.call("DELETE", f"/v1/disk/{fault['id']}")
            for method, path, body in changes:
                await rig.call(method, path, body)
            assert [(node["id"], node["state"]) for node in await rig.call("GET", "/v1/nodes")] == [
                (1, "up"),
                (3, "up"),
                (4, "up"),
            ]
            assert [each.node_id for each in (await rig.seen(4)).brokers] == [1, 3, 4]
            await rig.rig.lives.stop()

    run(scenario)


def test_a_node_comes_and_goes() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=1)
            await rig.call("POST", "/v1/nodes")
            assert [each.node_id for each in (await rig.seen(4)).brokers] == [1, 2, 3, 4]
            await rig.move("orders", leader=4)
            assert 4 in rig.partition("orders").replicas
            assert 1 not in rig.partition("orders").replicas
            port = rig.ports[4]
            assert (await rig.call("DELETE", "/v1/nodes/4"))["id"] == 4
            assert rig.partition("orders").leader in (2, 3)
            assert not await answers(port)
            assert [each.node_id for each in (await rig.seen(1)).brokers] == [1, 2, 3]
            await rig.call("POST", "/v1/nodes")
            assert sorted(rig.ports) == [1, 2, 3, 5]  # an id is nobody else's later

    run(scenario)


def test_a_simulated_cluster_is_one_with_a_single_node_as_well() -> None:
    async def scenario() -> None:
        async with three() as rig:
            for node in (2, 3):
                await rig.call("DELETE", f"/v1/nodes/{node}")
            state = await rig.call("GET", "/v1/state")
            assert (state["simulated"], state["nodes"]) == (True, [1])

    run(scenario)


def test_nothing_is_left_of_a_node_that_is_gone() -> None:
    async def scenario() -> None:
        async with three() as rig:
            broker, kit = rig.rig.lives.broker, rig.rig.kit
            before = list(broker.all_listeners), list(kit._frames)
            subscribed = list(broker.chain._subscribers)
            await rig.call("POST", "/v1/nodes")
            assert len(broker.all_listeners) == len(before[0]) + 1
            assert len(kit._frames) == len(before[1]) + 1
            await rig.call("DELETE", "/v1/nodes/4")
            assert (broker.all_listeners, kit._frames) == before
            assert broker.chain._subscribers == subscribed

    run(scenario)


def test_a_node_that_is_removed_twice_at_a_time_is_gone_once() -> None:
    async def scenario() -> None:
        async with three() as rig:
            calls = [rig.call("DELETE", "/v1/nodes/3"), rig.call("DELETE", "/v1/nodes/3"), rig.node(3, state="fenced")]
            async with rig.rig.lives.turn:
                begun = [asyncio.ensure_future(call) for call in calls]
                await asyncio.sleep(0)  # each waits for its turn
            removed, *others = await asyncio.gather(*begun, return_exceptions=True)
            assert isinstance(removed, dict)
            assert removed["id"] == 3
            assert list(map(str, others)) == ["there is no node 3; there are 1, 2"] * 2

    run(scenario)


def test_administrators_elect_any_node_and_unregister_none() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", 3, leader=1)
            answer = await rig.ask(3, elect_leaders, 2, elect_leaders.ElectLeadersRequest(0, None, 1000))
            assert answer.error_code == 0
            for index in range(3):
                assert rig.partition("orders", index).leader == rig.partition("orders", index).replicas[0]
            gone = await rig.ask(3, unregister_broker, 0, unregister_broker.UnregisterBrokerRequest(2))
            assert gone.error_code == ErrorCode.INVALID_REQUEST

    run(scenario)


def test_a_clean_stop_fences_all_nodes() -> None:
    async def scenario() -> None:
        async with three() as rig:
            context = rig.rig.lives.context  # a broker that has stopped has none
            await rig.rig.lives.stop()
            assert [broker.fenced for broker in context.metadata.brokers.values()] == [True, True, True]

    run(scenario)


def test_a_fault_is_for_some_nodes() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=1)
            on = {"api": "Metadata", "node": [2]}
            fault = await rig.call("POST", "/v1/faults", {"on": on, "do": {"observe": True}})
            for node in NODES:
                await rig.seen(node)
            assert (await rig.call("GET", f"/v1/faults/{fault['id']}"))["hits"] == 1

    run(scenario)


def test_a_recording_says_which_node_was_asked() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.call("POST", "/v1/recording", {"max": 100})
            for node in (3, 1):
                await rig.seen(node)
            recorder = rig.rig.kit.recorder
            assert recorder is not None
            assert [entry.node for entry in recorder] == [3, 1]
            shown = await rig.call("GET", "/v1/requests", {"node": "3"})
            assert len(shown) == 1

    run(scenario)


def test_a_directory_of_another_cluster_is_refused() -> None:
    async def scenario() -> None:
        kept = disk()
        async with living(on=kept) as rig:
            cluster_id = rig.lives.broker.cluster_id
        with pytest.raises(ConfigError, match=f"belongs to the cluster {cluster_id}, whose nodes are not simulated"):
            async with living(on=kept, ottla_test_nodes="3"):
                pass

    run(scenario)


def test_a_directory_of_another_simulated_cluster_is_refused() -> None:
    async def scenario() -> None:
        kept = disk()
        async with living(on=kept, ottla_test_nodes="3") as rig:
            cluster_id = rig.lives.broker.cluster_id
        async with living(on=kept, ottla_test_nodes="3", cluster_id=cluster_id):
            pass
        other = f"SIMULATED3-{'A' * 10}g"
        with pytest.raises(InconsistentMetadata, match=f"belongs to cluster {cluster_id}, not to {other}"):
            async with living(on=kept, ottla_test_nodes="3", cluster_id=other):
                pass

    run(scenario)


def test_several_log_directories_are_refused() -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigError, match="one log directory, not 2"):
            Rig(log_dirs="/a,/b", ottla_test_nodes="3")

    run(scenario)
