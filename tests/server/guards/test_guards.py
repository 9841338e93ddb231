"""Tests of what the matrix of cases cannot show: sessions, members, transactions, patterns, bits, and rules that change
meanwhile."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from compat_tests.wire import batch
from ottla.server.base.errors import CloseConnection
from ottla.server.guards import groups, offsets, records, topics
from ottla.server.security.authorizer import Authorizer
from ottla.server.security.operations import CLUSTER_OPERATIONS, GROUP_OPERATIONS, TOPIC_OPERATIONS, UNASKED
from ottla.server.security.rights import Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.internal.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from ottla.wire.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest
from ottla.wire.messages.share_fetch import FetchPartition as SharePartition
from ottla.wire.messages.share_fetch import FetchTopic as ShareTopic
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, TopicInfo, Topology
from tests.fakes import ManualClock
from tests.server.broker.whole_broker import disk
from tests.server.guards.guarded import ADMIN, Guarded, guarded, rule

A = "User:a"
READ, WRITE, DESCRIBE, CREATE, ACTION, ALL = 3, 4, 8, 5, 9, 2
TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
DENY = 2
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"


async def forbid(broker: Guarded, name: str) -> None:
    """Takes away all rules for resources of this name."""
    answer = await broker.ask(DeleteAclsRequest([DeleteAclsFilter(1, name, 1, None, None, 1, 1)]), 3)
    assert answer.filter_results[0].matching_acls


def test_a_partition_of_a_session_is_asked_about_each_time() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("t", "u")
        await broker.allow(rule(READ, "u"))
        session = broker.session(A)
        topics = [FetchTopic(topic_id=broker.topic_id(name), partitions=[FetchPartition(0)]) for name in ("t", "u")]

        async def fetched(session_id: int, epoch: int, topics: list[FetchTopic]) -> tuple[int, dict[bytes, int]]:
            request = FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session_id, session_epoch=epoch, topics=topics)
            answer = await broker.ask(request, 17, session)
            assert answer.error_code == 0
            return answer.session_id, {each.topic_id: each.partitions[0].error_code for each in answer.responses}

        session_id, codes = await fetched(0, 0, topics)
        assert codes == {broker.topic_id("t"): REFUSED, broker.topic_id("u"): 0}
        await broker.allow(rule(READ, "t"))
        assert (await fetched(session_id, 1, []))[1] == {broker.topic_id("t"): 0}
        await forbid(broker, "u")
        assert (await fetched(session_id, 2, []))[1] == {broker.topic_id("u"): REFUSED}

    guarded(scenario)


def test_a_replica_needs_no_right_to_the_topic_but_one_to_the_cluster() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("t")
        await broker.allow(rule(READ, "t"))
        topics = [FetchTopic(topic_id=broker.topic_id("t"), partitions=[FetchPartition(0)])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, replica_state=ReplicaState(7, -1), topics=topics)
        assert (await broker.ask(request, 17, A)).responses[0].partitions[0].error_code == REFUSED
        await broker.allow(rule(ACTION, "kafka-cluster", CLUSTER))
        assert (await broker.ask(request, 17, A)).responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    guarded(scenario)


@pytest.mark.parametrize("version", [7, 9, 10])
def test_who_asks_for_all_offsets_of_a_group_sees_those_of_its_topics(version: int) -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("t", "u")
        await broker.find("g", 0)
        committed = [OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 5)]) for name in ("t", "u")]
        await broker.ask(OffsetCommitRequest("g", topics=committed), 8)
        await broker.allow(rule(DESCRIBE, "g", GROUP), rule(DESCRIBE, "u"))
        if version == 7:
            answer = await broker.ask(OffsetFetchRequest("g", None), version, A)
        else:
            (answer,) = (
                await broker.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), version, A)
            ).groups
        assert answer.error_code == 0
        (topic,) = answer.topics
        assert (topic.topic_id == broker.topic_id("u")) if version == 10 else (topic.name == "u")
        assert topic.partitions[0].committed_offset == 5

    guarded(scenario)


def test_a_client_that_wants_no_answer_is_disconnected() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("t", "u")
        await broker.allow(rule(WRITE, "u"))
        data = [TopicProduceData(name, partition_data=[PartitionProduceData(0, batch(b"v"))]) for name in ("t", "u")]
        with pytest.raises(CloseConnection, match="acks is 0"):
            await broker.ask(ProduceRequest(None, 0, 1000, data), 9, A)
        ends = {name: broker.context.replicas.get(name, 0) for name in ("t", "u")}
        assert {name: replica and replica.log.log_end_offset for name, replica in ends.items()} == {"t": 0, "u": 1}
        assert await broker.ask(ProduceRequest(None, 0, 1000, data[1:]), 9, A) is None

    guarded(scenario)


@pytest.mark.parametrize("decoy", ["replaced", "not whole"])
def test_what_looks_transactional_opens_no_other_topic(decoy: str) -> None:
    """The handler refuses all of a request with transactional batches and no id. Here are two that it does not take for such: one
    that a later batch of the same partition replaces, and one that ends early."""

    async def scenario(broker: Guarded) -> None:
        await broker.create("t", "u")
        await broker.allow(rule(WRITE, "u"))
        transactional = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        data = [("t", transactional), ("t", batch(b"v"))]
        if decoy == "not whole":
            data = [("u", transactional[:-1]), ("t", batch(b"v"))]
        topics = [TopicProduceData(name, partition_data=[PartitionProduceData(0, records)]) for name, records in data]
        answer = await broker.ask(ProduceRequest(None, 1, 1000, topics), 9, A)
        t = broker.context.replicas.get("t", 0)
        assert t is not None
        assert t.log.log_end_offset == 0
        codes = {topic.name: {each.error_code for each in topic.partition_responses} for topic in answer.responses}
        assert codes["t"] == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}

    guarded(scenario)


def test_what_is_refused_is_taken_out_in_one_go() -> None:
    """Checks that who may do nothing at all can still name tens of thousands of things in a request. Comparing each with each of
    those that are refused took seconds, in which nobody else was served."""
    count, compared = 300, 0

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    def looks_again(frame: Any, event: str, argument: object) -> None:
        nonlocal compared
        compared += event == "call" and frame.f_code.co_name == "<genexpr>"

    names = [Name(number) for number in range(count)]
    produced = [TopicProduceData(name, partition_data=[PartitionProduceData(0, b"")]) for name in names]
    requests: list[tuple[Any, Any, Any]] = [
        (records.produce, ProduceRequest(None, 1, 1000, produced), None),
        (groups.describe_groups, DescribeGroupsRequest(list(names)), DescribeGroupsResponse()),
        (groups.delete_groups, DeleteGroupsRequest(list(names)), DeleteGroupsResponse()),
        (topics.create_topics, CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names]), CreateTopicsResponse()),
        (
            topics.create_partitions,
            CreatePartitionsRequest([CreatePartitionsTopic(name, 2) for name in names]),
            CreatePartitionsResponse(),
        ),
        (topics.delete_topics, DeleteTopicsRequest(topics=[DeleteTopicState(name) for name in names]), DeleteTopicsResponse()),
        (
            offsets.offset_fetch,
            OffsetFetchRequest("g", [OffsetFetchRequestTopic(name, [0]) for name in names]),
            OffsetFetchResponse(),
        ),
    ]
    authorizer = Authorizer(rules=[AccessControlEntryRecord(b"1", GROUP, "g", 3, A, "*", DESCRIBE, 3)])
    request: Any = SimpleNamespace(api_version=7, broker=SimpleNamespace(clock=ManualClock()))
    for guard, body, answer in requests:
        compared = 0
        sys.setprofile(looks_again)
        try:
            guard(authorizer.ask(A, "h", "any"), lambda body, request, answer=answer: answer, body, request)
        finally:
            sys.setprofile(None)
        assert compared < 20 * count, f"{guard.__name__}: {compared}"


def test_metadata_of_all_topics_is_kept_only_for_those_who_may_see_all() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("t", "u")
        await broker.allow(rule(DESCRIBE, "t"))
        for _ in range(2):
            for who, names in ((ADMIN, ["t", "u"]), (A, ["t"]), ("User:b", [])):
                answer = await broker.ask(MetadataRequest(None, True, True, True), 10, who)
                assert [topic.name for topic in answer.topics] == names
                operations = {topic.topic_authorized_operations for topic in answer.topics}
                expected = {ADMIN: {TOPIC_OPERATIONS}, A: {1 << DESCRIBE}, "User:b": set()}[who]
                assert operations == expected
                assert answer.cluster_authorized_operations == (CLUSTER_OPERATIONS if who == ADMIN else 0)
                assert answer.brokers

    guarded(scenario)


def test_operations_are_the_clients_own() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("t")
        await broker.allow(rule(ALL, "t"), rule(WRITE, "t", permission=DENY), rule(DESCRIBE, "kafka-cluster", CLUSTER))
        named = MetadataRequest([MetadataRequestTopic(name="t")], False, False, True)
        (topic,) = (await broker.ask(named, 12, A)).topics
        assert topic.topic_authorized_operations == TOPIC_OPERATIONS & ~(1 << WRITE)
        answer = await broker.ask(DescribeClusterRequest(True), 2, A)
        assert answer.cluster_authorized_operations == 1 << DESCRIBE
        assert (await broker.ask(DescribeClusterRequest(False), 2, A)).cluster_authorized_operations == UNASKED
        assert (await broker.ask(DescribeClusterRequest(True), 2, "User:b")).cluster_authorized_operations == 0

    guarded(scenario)


async def member(broker: Guarded, who: str = A, **fields: Any) -> None:
    """Lets a member join the group g."""
    given: dict[str, Any] = {"rebalance_timeout_ms": 1000, "topic_partitions": []}
    answer = await broker.ask(ConsumerGroupHeartbeatRequest("g", MEMBER, 0, **{**given, **fields}), 1, who)
    assert answer.error_code == 0, answer


def test_a_pattern_matches_what_its_member_may_see() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("secret-1", "seen-1")
        await broker.allow(rule(READ, "g", GROUP), rule(DESCRIBE, "seen", pattern=4))
        await broker.find("g", 0)
        await member(broker, subscribed_topic_regex="se.*")
        group: Any = broker.context.groups.member_shard("g").groups["g"]
        for _ in range(10_000):
            if group.regexes:
                break
            await asyncio.sleep(0)
        assert group.regexes["se.*"].topics == {"seen-1"}

    guarded(scenario)


def test_a_group_with_topics_that_are_not_to_be_seen_is_refused_as_a_whole() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("t")
        await broker.allow(rule(READ, "g", GROUP), rule(DESCRIBE, "t"), rule(DESCRIBE, "g", GROUP, "User:b"))
        await broker.find("g", 0)
        await member(broker, subscribed_topic_names=["t"])
        (group,) = (await broker.ask(ConsumerGroupDescribeRequest(["g"], True), 1, A)).groups
        assert (group.error_code, len(group.members)) == (0, 1)
        assert group.authorized_operations == 1 << READ | 1 << DESCRIBE
        (group,) = (await broker.ask(ConsumerGroupDescribeRequest(["g"], True), 1, "User:b")).groups
        assert (group.error_code, group.members) == (REFUSED, [])
        assert GROUP_OPERATIONS & group.authorized_operations

    guarded(scenario)


def test_share_sessions() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("t")
        broker.context.metadata.features["share.version"] = 1
        await broker.allow(rule(READ, "s", GROUP))
        await broker.find("s", 0)
        topic_id = broker.topic_id("t")
        session = broker.session(A)
        opened = ShareFetchRequest("s", MEMBER, 0, 0, 0, 1, 1, 1, topics=[ShareTopic(topic_id, [SharePartition(0)])])
        (response,) = (await broker.ask(opened, 2, session)).responses
        assert response.partitions[0].error_code == REFUSED
        acknowledged = [AcknowledgementBatch(0, 0, [1])]
        more = ShareFetchRequest(
            "s", MEMBER, 1, 0, 0, 1, 1, 1, topics=[ShareTopic(topic_id, [SharePartition(0, 0, acknowledged)])]
        )
        (response,) = (await broker.ask(more, 2, session)).responses
        assert response.partitions[0].acknowledge_error_code == REFUSED
        request = ShareAcknowledgeRequest("s", MEMBER, 2, topics=[AcknowledgeTopic(topic_id, [AcknowledgePartition(0, [])])])
        (response,) = (await broker.ask(request, 2, session)).responses
        assert response.partitions[0].error_code == REFUSED
        await broker.allow(rule(READ, "t"))
        answer = await broker.ask(ShareFetchRequest("s", MEMBER, 3, 0, 0, 1, 1, 1), 2, session)
        assert not any(each.partitions[0].error_code == REFUSED for each in answer.responses)

    guarded(scenario)


def test_internal_topics_that_may_not_be_made() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("t")
        broker.context.metadata.features["streams.version"] = 1
        await broker.allow(rule(READ, "n", GROUP), rule(DESCRIBE, "t"), rule(DESCRIBE, "n-", pattern=4))
        await broker.find("n", 0)
        topology = Topology(1, [Subtopology("0", ["t"], state_changelog_topics=[TopicInfo("n-changelog")])])

        async def join(member_id: str) -> str:
            request = StreamsGroupHeartbeatRequest("n", member_id, 0, 0, rebalance_timeout_ms=1000, topology=topology)
            request.active_tasks = request.standby_tasks = request.warmup_tasks = []
            request.process_id = "p"
            answer = await broker.ask(request, 0, A)
            assert answer.error_code == 0, answer
            return " ".join(status.status_detail for status in answer.status or ())

        assert "no right to create n-changelog" in await join("m1")
        assert "n-changelog" not in broker.context.metadata.topics
        await broker.allow(rule(CREATE, "n-changelog"))
        assert "no right" not in await join("m2")
        assert "n-changelog" in broker.context.metadata.topics

    guarded(scenario)


def test_topics_of_transactions_are_hidden() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("t", "u")
        await broker.allow(rule(DESCRIBE, "x", TRANSACTION), rule(DESCRIBE, "t"))
        await broker.find("x", 1)
        for _ in range(10_000):  # on a busy machine the coordinator may still be loading
            producer = await broker.ask(InitProducerIdRequest("x", 60_000), 4)
            if not producer.error_code:
                break
            await asyncio.sleep(0)
        topics = [AddPartitionsToTxnTopic(name, [0]) for name in ("t", "u")]
        added = AddPartitionsToTxnRequest([], "x", producer.producer_id, producer.producer_epoch, topics)
        assert not (await broker.ask(added, 3)).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        (state,) = (await broker.ask(DescribeTransactionsRequest(["x"]), 0, A)).transaction_states
        assert [topic.topic for topic in state.topics] == ["t"]
        (state,) = (await broker.ask(DescribeTransactionsRequest(["x"]), 0)).transaction_states
        assert [topic.topic for topic in state.topics] == ["t", "u"]

    guarded(scenario)


def test_rules_outlive_the_broker() -> None:
    async def before(broker: Guarded) -> None:
        await broker.allow(rule(READ, "t"), rule(READ, "u"))
        await forbid(broker, "u")

    async def after(broker: Guarded) -> None:
        rights = broker.authorizer.rights(A, "h")
        assert rights.may(Operation.READ, Resource.TOPIC, "t")
        assert not rights.may(Operation.READ, Resource.TOPIC, "u")

    storage = disk()
    guarded(before, storage)
    guarded(after, storage)


def test_rules_are_described() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.allow(rule(READ, "t"), rule(WRITE, "t"), rule(READ, "u", pattern=4))
        (found,) = (await broker.ask(DescribeAclsRequest(TOPIC, "t", 3, None, None, 1, 1), 3)).resources
        assert sorted(each.operation for each in found.acls) == [READ, WRITE]
        assert broker.authorizer.rights(A, "h").may(Operation.READ, Resource.TOPIC, "u1")
        await forbid(broker, "u")
        assert not broker.authorizer.rights(A, "h").may(Operation.READ, Resource.TOPIC, "u1")

    guarded(scenario)


def test_everybody_where_there_is_no_rule() -> None:
    async def scenario(broker: Guarded) -> None:
        await broker.create("t", "u")
        named = MetadataRequest([MetadataRequestTopic(name=name) for name in ("t", "u")], False)
        assert [topic.error_code for topic in (await broker.ask(named, 12, A)).topics] == [0, 0]
        await broker.allow(rule(READ, "t", principal="User:b"))
        assert {topic.name: topic.error_code for topic in (await broker.ask(named, 12, A)).topics} == {"t": REFUSED, "u": 0}

    guarded(scenario, allow_everyone_if_no_acl_found="true")
