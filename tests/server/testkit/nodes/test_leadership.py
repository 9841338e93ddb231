"""Tests of what each simulated node serves and what it refuses: partitions, groups, transactional ids, and lists of them."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.server.metadata.image import MetadataImage
from ottla.server.requests.link import Steps
from ottla.server.testkit.nodes.leadership import LED, OF_GROUPS, OF_REPLICAS, OF_TRANSACTIONS, Leadership
from ottla.server.testkit.refusals.entities import Role, shape_of
from ottla.wire.api import APIS, Api
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import (
    add_partitions_to_txn,
    delete_groups,
    delete_records,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    end_txn,
    heartbeat,
    init_producer_id,
    join_group,
    list_groups,
    list_offsets,
    list_transactions,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    write_txn_markers,
)
from tests.server.testkit.lives_rig import run
from tests.server.testkit.nodes_rig import NODES, NodesRig, three

NOT_LEADER, NOT_COORDINATOR = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR
TRANSACTION = 1

OF_CONTROLLER = "it is for the controller, to which brokers forward it"
OF_COORDINATORS = "brokers send it to share coordinators, and simulated nodes are one broker, which asks itself"
AT_ALL_NODES = {
    "alter_partition_reassignments": OF_CONTROLLER,
    "alter_replica_log_dirs": "simulated nodes share the log directories, so each can move the one log of a partition",
    "delete_share_group_state": OF_COORDINATORS,
    "describe_quorum": OF_CONTROLLER,
    "elect_leaders": OF_CONTROLLER,
    "initialize_share_group_state": OF_COORDINATORS,
    "read_share_group_state": OF_COORDINATORS,
    "read_share_group_state_summary": OF_COORDINATORS,
    "write_share_group_state": OF_COORDINATORS,
}
"""APIs that name partitions, groups or transactional ids and are served by every simulated node, and why."""
LISTS = {"describe_log_dirs", "list_groups", "list_transactions"}
"""APIs that may name none, and are answered with what the node has."""


def names_what_a_node_may_not_have(api: Api) -> bool:
    shapes = [shape_of(api.key, version) for version in range(api.min_version, api.max_version + 1)]
    roles = {role for shape in shapes for _, role in shape.top}
    roles |= {place.level.role for shape in shapes for way in shape.ways for place in way}
    return not roles.isdisjoint({Role.PARTITION, Role.GROUP, Role.TRANSACTION})


def test_the_tables_name_apis() -> None:
    modules = {api.module for api in APIS.values()}
    assert modules >= LED | OF_REPLICAS | OF_GROUPS | OF_TRANSACTIONS


def test_every_api_that_names_what_a_node_may_not_have_is_in_a_table() -> None:
    def step(*arguments: Any) -> Any:
        return arguments

    traits: Any = None
    link, steps = Leadership(MetadataImage("cluster")), Steps(step, step, step)
    guarded = {api.module for api in APIS.values() if link.around(api, traits, steps) is not steps}
    named = {api.module for api in APIS.values() if names_what_a_node_may_not_have(api)}
    assert named - guarded == AT_ALL_NODES.keys()
    assert guarded - named == LISTS


def test_only_the_leader_takes_records_and_others_name_it() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=2)
            for node in NODES:
                data, answer = await rig.produce(node, "orders")
                assert data.error_code == (0 if node == 2 else NOT_LEADER)
                if node != 2:
                    assert data.current_leader.leader_id == 2
                    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(2, rig.ports[2])]
            data, _ = await rig.produce(2, "orders", version=3)
            assert (data.error_code, data.base_offset) == (0, 1)

    run(scenario)


def test_a_request_is_served_in_part() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", 2, leader=1)
            await rig.move("orders", 1, leader=3)
            for node, codes in ((1, [0, NOT_LEADER]), (2, [NOT_LEADER] * 2), (3, [NOT_LEADER, 0])):
                partitions = [list_offsets.ListOffsetsPartition(index, timestamp=-1) for index in (0, 1)]
                body = list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic("orders", partitions)])
                found = (await rig.ask(node, list_offsets, 5, body)).topics[0].partitions
                assert [(each.partition_index, each.error_code) for each in found] == list(enumerate(codes))

    run(scenario)


def test_every_api_of_leaders_is_refused_elsewhere() -> None:
    async def code(rig: NodesRig, node: int, module: Any, version: int, body: Any) -> int:
        answer = await rig.ask(node, module, version, body)
        topics = answer.markers[0].topics if module is write_txn_markers else answer.topics
        partition = topics[0].partitions[0]
        return int(partition.error_code)

    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=3)
            await rig.produce(3, "orders")
            for node in NODES:
                expected = 0 if node == 3 else NOT_LEADER
                deletion = delete_records.DeleteRecordsPartition(0, 1)
                body: Any = delete_records.DeleteRecordsRequest([delete_records.DeleteRecordsTopic("orders", [deletion])], 1000)
                assert await code(rig, node, delete_records, 2, body) == expected
                epoch = offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)
                topic = offset_for_leader_epoch.OffsetForLeaderTopic("orders", [epoch])
                body = offset_for_leader_epoch.OffsetForLeaderEpochRequest(-1, [topic])
                assert await code(rig, node, offset_for_leader_epoch, 4, body) == expected
                marked = write_txn_markers.WritableTxnMarkerTopic("orders", [0])
                body = write_txn_markers.WriteTxnMarkersRequest([write_txn_markers.WritableTxnMarker(7, 0, True, [marked], 0)])
                assert await code(rig, node, write_txn_markers, 1, body) == expected

    run(scenario)


def test_each_replica_says_which_producers_it_knows() -> None:
    async def scenario() -> None:
        async with three(ottla_test_nodes="4") as rig:
            await rig.create("orders", leader=1)
            replicas = rig.partition("orders").replicas
            assert len(replicas) == 3
            body = describe_producers.DescribeProducersRequest([describe_producers.TopicRequest("orders", [0])])
            for node in (*NODES, 4):
                answer = await rig.ask(node, describe_producers, 0, body)
                assert answer.topics[0].partitions[0].error_code == (0 if node in replicas else NOT_LEADER)

    run(scenario)


def test_in_sync_replicas_serve_consumers_that_know_how_to_read_from_them() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=1)
            await rig.produce(1, "orders")
            await rig.move("orders", isr=[1, 2])
            found = {node: await rig.fetch(node, "orders") for node in NODES}
            assert {node: data.error_code for node, data in found.items()} == {1: 0, 2: 0, 3: NOT_LEADER}
            assert bytes(found[2].records) == bytes(found[1].records) != b""
            assert (await rig.fetch(2, "orders", version=10)).error_code == NOT_LEADER
            old = rig.partition("orders").leader_epoch
            await rig.move("orders", leader=2)
            assert (await rig.fetch(1, "orders", epoch=old)).error_code == ErrorCode.FENCED_LEADER_EPOCH

    run(scenario)


def test_a_fetch_that_waits_is_answered_when_the_leader_moves() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=1)
            epoch = rig.partition("orders").leader_epoch
            knows = asyncio.ensure_future(rig.fetch(1, "orders", epoch=epoch, max_wait_ms=20_000))
            await rig.waits("orders")
            await rig.move("orders", leader=2)
            assert (await knows).error_code == ErrorCode.FENCED_LEADER_EPOCH

    run(scenario)


def test_a_fetch_that_knows_no_epoch_learns_at_its_end_that_the_leader_has_moved() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=1)
            old = asyncio.ensure_future(rig.fetch(1, "orders", version=8, max_wait_ms=20_000))
            await rig.waits("orders")
            await rig.move("orders", leader=2)
            assert not old.done()
            await rig.call("POST", "/v1/clock/advance", {"ms": 20_000})
            assert (await old).error_code == NOT_LEADER

    run(scenario)


async def joined(rig: NodesRig, node: int, group: str) -> Any:
    """Returns what a node answers a first member of a group, twice: the first answer has the member's id."""
    protocol = join_group.JoinGroupRequestProtocol("range", b"")
    body = join_group.JoinGroupRequest(group, 10_000, 10_000, "", None, "consumer", [protocol])
    answer = await rig.ask(node, join_group, 5, body)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        body.member_id = answer.member_id
        answer = await rig.ask(node, join_group, 5, body)
    return answer


def test_a_group_is_its_coordinators() -> None:
    async def scenario() -> None:
        async with three() as rig:
            moved = await rig.call("POST", "/v1/groups/billing/coordinator", {"node": 3})
            assert (moved["topic"], moved["leader"]) == ("__consumer_offsets", 3)
            assert [await rig.coordinator(node, "billing") for node in NODES] == [3, 3, 3]
            codes = [(await joined(rig, node, "billing")).error_code for node in NODES]
            assert codes == [NOT_COORDINATOR, NOT_COORDINATOR, 0]
            for node in NODES:
                expected = 0 if node == 3 else NOT_COORDINATOR
                commit = offset_commit.OffsetCommitRequestPartition(0, 5)
                topic = offset_commit.OffsetCommitRequestTopic("orders", partitions=[commit])
                body: Any = offset_commit.OffsetCommitRequest("simple", -1, "", topics=[topic])
                at = await rig.coordinator(1, "simple")
                answer = await rig.ask(node, offset_commit, 8, body)
                assert answer.topics[0].partitions[0].error_code in (0, NOT_COORDINATOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                assert (answer.topics[0].partitions[0].error_code == NOT_COORDINATOR) == (node != at)
                listed = await rig.ask(node, list_groups, 4, list_groups.ListGroupsRequest())
                assert ("billing" in [each.group_id for each in listed.groups]) == (node == 3)
                described = await rig.ask(node, describe_groups, 5, describe_groups.DescribeGroupsRequest(["billing"]))
                assert described.groups[0].error_code == expected
                group = offset_fetch.OffsetFetchRequestGroup("billing", topics=None)
                fetched = await rig.ask(node, offset_fetch, 8, offset_fetch.OffsetFetchRequest(groups=[group]))
                assert fetched.groups[0].error_code == expected
                beat = await rig.ask(node, heartbeat, 4, heartbeat.HeartbeatRequest("billing", 1, "nobody"))
                assert beat.error_code == (ErrorCode.UNKNOWN_MEMBER_ID if node == 3 else NOT_COORDINATOR)
                gone = await rig.ask(node, delete_groups, 2, delete_groups.DeleteGroupsRequest(["billing"]))
                assert gone.results[0].error_code == (ErrorCode.NON_EMPTY_GROUP if node == 3 else NOT_COORDINATOR)

    run(scenario)


def test_a_moved_group_is_loaded_at_its_new_coordinator() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.call("POST", "/v1/groups/billing/coordinator", {"node": 1})
            member = await joined(rig, 1, "billing")
            assert member.error_code == 0
            moved = await rig.call("POST", "/v1/groups/billing/coordinator", {"node": 2})
            shard = rig.rig.lives.context.groups.shard("billing")
            assert (shard.partition, shard.leader_epoch) == (moved["partition"], moved["leader_epoch"])
            assert [await rig.coordinator(node, "billing") for node in NODES] == [2, 2, 2]

    run(scenario)


def test_a_transaction_is_its_coordinators() -> None:
    async def scenario() -> None:
        async with three() as rig:
            await rig.create("orders", leader=1)
            moved = await rig.call("POST", "/v1/transactions/t/coordinator", {"node": 2})
            assert (moved["topic"], moved["leader"]) == ("__transaction_state", 2)
            assert [await rig.coordinator(node, "t", TRANSACTION) for node in NODES] == [2, 2, 2]
            begin = init_producer_id.InitProducerIdRequest("t", 60_000)
            answers = {node: await rig.ask(node, init_producer_id, 4, begin) for node in NODES}
            assert {node: answer.error_code for node, answer in answers.items()} == {1: NOT_COORDINATOR, 2: 0, 3: NOT_COORDINATOR}
            idempotent = await rig.ask(3, init_producer_id, 4, init_producer_id.InitProducerIdRequest(None, 60_000))
            assert idempotent.error_code == 0
            producer_id, epoch = answers[2].producer_id, answers[2].producer_epoch
            topic = add_partitions_to_txn.AddPartitionsToTxnTopic("orders", [0])
            add = add_partitions_to_txn.AddPartitionsToTxnRequest([], "t", producer_id, epoch, [topic])
            end = end_txn.EndTxnRequest("t", producer_id, epoch, True)
            for node in (1, 3, 2):
                expected = 0 if node == 2 else NOT_COORDINATOR
                added = await rig.ask(node, add_partitions_to_txn, 3, add)
                assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == expected
                ended = await rig.ask(node, end_txn, 3, end)
                assert ended.error_code == expected
                listed = await rig.ask(node, list_transactions, 0, list_transactions.ListTransactionsRequest())
                assert [each.transactional_id for each in listed.transaction_states] == (["t"] if node == 2 else [])

    run(scenario)


def test_log_directories_have_the_replicas_of_the_node() -> None:
    async def scenario() -> None:
        async with three(default_replication_factor="1") as rig:
            await rig.create("orders", 1, leader=2)
            for node in NODES:
                answer = await rig.ask(node, describe_log_dirs, 4, describe_log_dirs.DescribeLogDirsRequest(None))
                assert [topic.name for topic in answer.results[0].topics] == (["orders"] if node == 2 else [])

    run(scenario)
