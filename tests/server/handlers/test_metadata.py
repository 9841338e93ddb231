"""Metadata: rows MD of the compatibility table, at every version where they mean something."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from ottla.server.base.clock import TURN_NS
from ottla.server.base.promise import Promise
from ottla.server.handlers import metadata
from ottla.server.handlers.metadata import handle
from ottla.server.metadata.image import Endpoint, PartitionImage
from ottla.server.requests.kept_answers import Encoded
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.internal.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from ottla.wire.messages.metadata import MAX_VERSION, MIN_VERSION, MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.primitives import ZERO_UUID, WireStruct
from tests.fakes import CALLER
from tests.noted import noted
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import CLUSTER_ID, Node, at_once

VERSIONS = range(MIN_VERSION, MAX_VERSION + 1)


@pytest.fixture
def node() -> Node:
    made = Node()
    controller = made.start()
    asyncio.run(controller.create_topics(CreateTopicsRequest([CreatableTopic("md", 2, 1), CreatableTopic("b", 1, 1)]), CALLER))
    return made


def ask(node: Node, *topics: str | bytes | None, version: int = MAX_VERSION, listener: str = "PLAINTEXT", **fields: Any) -> Any:
    """Topics by name, or by id, or neither."""
    asked = [
        MetadataRequestTopic(topic, None) if isinstance(topic, bytes) else MetadataRequestTopic(name=topic) for topic in topics
    ]
    return call(node, "metadata", MetadataRequest(asked, **fields), version, listener)


def outline(answer: Any) -> list[tuple[str | None, int, int]]:
    return [(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_known_topic(node: Node, version: int) -> None:
    answer = ask(node, "md", version=version)
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [(1, "broker.test", 9092)]
    assert outline(answer) == [("md", 0, 2)]
    (topic,) = answer.topics
    assert [(p.partition_index, p.error_code, p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [
        (0, 0, 1, [1], [1]),
        (1, 0, 1, [1], [1]),
    ]
    assert all(partition.offline_replicas == [] for partition in topic.partitions)
    assert [partition.leader_epoch for partition in topic.partitions] == ([0, 0] if version >= 7 else [-1, -1])
    assert topic.topic_id == (node.image.topics["md"].topic_id if version >= 10 else ZERO_UUID)
    assert answer.cluster_id == (CLUSTER_ID if version >= 2 else None)
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert (answer.throttle_time_ms, answer.error_code) == (0, 0)
    assert (topic.topic_authorized_operations, answer.cluster_authorized_operations) == (-(2**31), -(2**31))


@pytest.mark.parametrize("version", VERSIONS)
def test_mdnone_mdv0_all_and_none(node: Node, version: int) -> None:
    every = [("md", 0, 2), ("b", 0, 1)]
    assert outline(ask(node, version=version)) == (every if version == 0 else [])
    if version > 0:
        assert outline(call(node, "metadata", MetadataRequest(None), version)) == every
        assert node.clock.run() == 0


def test_the_answer_of_all_topics_is_kept_until_the_metadata_changes(node: Node) -> None:
    ctx = node.context(9, "PLAINTEXT")
    kept = handle(MetadataRequest(None), ctx)
    assert handle(MetadataRequest(None), ctx) is kept
    ctx.api_version = 10
    assert handle(MetadataRequest(None), ctx) is not kept
    assert handle(MetadataRequest(None, include_topic_authorized_operations=True), ctx) is not kept
    ctx.api_version = 9
    assert handle(MetadataRequest(None), ctx) is kept
    node.image.apply(PartitionChangeRecord(0, node.image.topics["md"].topic_id, leader=-1))
    changed = handle(MetadataRequest(None), ctx)
    assert isinstance(changed, MetadataResponse)  # there is an error in it, which is counted
    assert [partition.error_code for partition in changed.topics[0].partitions] == [ErrorCode.LEADER_NOT_AVAILABLE, 0]


def test_who_asks_for_all_topics_while_the_answer_is_being_made_waits_for_it(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change, all clients that want all topics ask at once."""
    made: list[PartitionImage] = []
    monkeypatch.setattr(metadata._View, "_partition", noted(made, metadata._View._partition, 2))
    looks = itertools.count()
    monkeypatch.setattr(node.clock, "ticks_ns", lambda: next(looks) * 2 * TURN_NS)
    ctx = node.context(9, "PLAINTEXT")
    first, gone, last = (handle(MetadataRequest(None), ctx) for _ in range(3))
    assert isinstance(first, Promise)
    assert isinstance(gone, Promise)
    assert isinstance(last, Promise)
    gone.cancel()
    while node.clock.run():
        continue
    assert first.result() is last.result()
    assert len(made) == 3, "each partition once"


def test_who_waits_for_an_answer_makes_it_if_the_other_client_goes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = itertools.count()
    monkeypatch.setattr(node.clock, "ticks_ns", lambda: next(looks) * 2 * TURN_NS)
    ctx = node.context(9, "PLAINTEXT")
    first, last = (handle(MetadataRequest(None), ctx) for _ in range(2))
    assert isinstance(first, Promise)
    assert isinstance(last, Promise)
    first.cancel()
    while node.clock.run():
        continue
    assert isinstance(last.result(), Encoded)


def test_md1_unknown_without_creation(node: Node) -> None:
    assert outline(ask(node, "nope", version=12, allow_auto_topic_creation=False)) == [("nope", 3, 0)]
    assert node.clock.run() == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_md2_created_after_the_answer(node: Node, version: int) -> None:
    assert outline(ask(node, "auto", version=version)) == [("auto", 3, 0)]
    node.clock.run()
    assert outline(ask(node, "auto", version=version)) == [("auto", 0, 1)]


def test_the_broker_may_forbid_creation() -> None:
    node = Node(auto_create_topics_enable="false")
    node.start()
    assert outline(ask(node, "auto", version=9)) == [("auto", 3, 0)]
    assert node.clock.run() == 0


@pytest.mark.parametrize("name", [".", "..", "x" * 250, "a b", "a/b", "é", ""])
def test_mdn_names_that_cannot_be(node: Node, name: str) -> None:
    assert outline(ask(node, name, version=9)) == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION, 0)]
    assert node.clock.run() == 0


def test_utf_a_name_that_is_no_utf8(node: Node) -> None:
    from ottla.wire.messages.metadata import DECODE_REQUEST, ENCODE_RESPONSE, MetadataResponse

    request, _ = DECODE_REQUEST[1](b"\0\0\0\x01\0\x02\xc3\x28", 0)
    answer = metadata.handle(request, node.context(1))
    assert isinstance(answer, MetadataResponse)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    ENCODE_RESPONSE[1](answer, [])


def test_mdid2_by_id(node: Node) -> None:
    assert outline(ask(node, node.image.topics["md"].topic_id, version=12)) == [("md", 0, 2)]
    answer = ask(node, b"x" * 16, version=12)
    assert outline(answer) == [(None, ErrorCode.UNKNOWN_TOPIC_ID, 0)]
    assert answer.topics[0].topic_id == b"x" * 16


@pytest.mark.parametrize("version", [10, 11])
def test_mdid10_ids_come_with_v12(node: Node, version: int) -> None:
    request = MetadataRequest([MetadataRequestTopic(b"x" * 16, "md")])
    assert outline(call(node, "metadata", request, version)) == [("md", ErrorCode.INVALID_REQUEST, 0)]
    request = MetadataRequest([MetadataRequestTopic(ZERO_UUID, None)])
    assert outline(call(node, "metadata", request, version)) == [("", ErrorCode.INVALID_REQUEST, 0)]


def test_mdzero_neither_name_nor_id_spoils_no_other(node: Node) -> None:
    assert outline(ask(node, None, "md", version=12)) == [("md", 0, 2), (None, ErrorCode.INVALID_REQUEST, 0)]


def test_mddup_mdmix(node: Node) -> None:
    assert outline(ask(node, "md", "md", version=9)) == [("md", 0, 2)]
    assert outline(ask(node, "zz", "md", "zz", version=9)) == [("md", 0, 2), ("zz", 3, 0)]
    both = ask(node, node.image.topics["md"].topic_id, "md", version=12)
    assert outline(both) == [("md", 0, 2)]


@pytest.mark.parametrize("version", range(8, MAX_VERSION + 1))
def test_mdauth_all_operations(node: Node, version: int) -> None:
    answer = ask(
        node,
        "md",
        "nope",
        version=version,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=version <= 10,
    )
    assert [topic.topic_authorized_operations for topic in answer.topics] == [0xDF8, 0xDF8]
    assert answer.cluster_authorized_operations == (0x1FA0 if version <= 10 else -(2**31))


def test_internal_topics_are_marked(node: Node) -> None:
    assert [topic.is_internal for topic in ask(node, "__consumer_offsets").topics] == [True]
    node.clock.run()
    answer = ask(node, "__consumer_offsets", "md")
    assert [(topic.name, topic.is_internal, len(topic.partitions)) for topic in answer.topics] == [
        ("__consumer_offsets", True, 50),
        ("md", False, 2),
    ]


def test_the_controllers_own_topic_is_nobodys(node: Node) -> None:
    assert outline(ask(node, "__cluster_metadata")) == [("__cluster_metadata", 3, 0)]
    node.clock.run()
    assert "__cluster_metadata" not in node.image.topics


def register(node: Node, *records: WireStruct) -> None:
    node.image.apply_all(records)


def test_each_listener_has_its_addresses(node: Node) -> None:
    at_once(node.cluster.register([Endpoint("PLAINTEXT", "in", 1, 0), Endpoint("EXTERNAL", "out", 2, 0)]))
    assert [(broker.host, broker.port) for broker in ask(node, "md", listener="EXTERNAL").brokers] == [("out", 2)]
    assert [(broker.host, broker.port) for broker in ask(node, "md").brokers] == [("in", 1)]
    inside, outside = node.context(MAX_VERSION), node.context(MAX_VERSION, "EXTERNAL")
    outside.broker = inside.broker
    answers = [handle(MetadataRequest(None), context) for context in (inside, outside, inside)]
    assert all(isinstance(answer, Encoded) for answer in answers)
    assert answers[0] is answers[2] is not answers[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_without_our_listener(node: Node, version: int) -> None:
    topic_id = node.image.topics["b"].topic_id
    register(
        node,
        RegisterBrokerRecord(broker_id=2, broker_epoch=1, fenced=False, end_points=[BrokerEndpoint("EXTERNAL", "h", 1, 0)]),
        PartitionChangeRecord(0, topic_id, leader=2, replicas=[1, 2], isr=[1, 2]),
    )
    answer = ask(node, "b", version=version)
    assert [broker.node_id for broker in answer.brokers] == [1]
    (partition,) = answer.topics[0].partitions
    missing = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.error_code, partition.leader_id) == (missing, -1)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1, 2], [1, 2], [])


@pytest.mark.parametrize("version", VERSIONS)
def test_replicas_that_are_down(node: Node, version: int) -> None:
    topic_id = node.image.topics["b"].topic_id
    register(
        node,
        RegisterBrokerRecord(broker_id=2, broker_epoch=1, fenced=True, end_points=[BrokerEndpoint("PLAINTEXT", "h", 1, 0)]),
        PartitionChangeRecord(0, topic_id, replicas=[1, 2, 3], isr=[1, 2]),
    )
    answer = ask(node, "b", version=version)
    assert [broker.node_id for broker in answer.brokers] == [1]
    (partition,) = answer.topics[0].partitions
    if version == 0:
        assert (partition.error_code, partition.replica_nodes, partition.isr_nodes) == (9, [1], [1])
    else:
        assert (partition.error_code, partition.replica_nodes, partition.isr_nodes) == (0, [1, 2, 3], [1, 2])
    assert partition.leader_id == 1
    assert partition.offline_replicas == ([2, 3] if version >= 5 else [])


def test_nobody_leads(node: Node) -> None:
    register(node, PartitionChangeRecord(0, node.image.topics["b"].topic_id, leader=-1))
    (partition,) = ask(node, "b").topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 1)


def test_without_any_broker(node: Node) -> None:
    register(node, BrokerRegistrationChangeRecord(1, node.image.brokers[1].epoch, fenced=1))
    answer = ask(node, "md")
    assert (answer.brokers, answer.controller_id) == ([], -1)
