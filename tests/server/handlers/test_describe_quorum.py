"""DescribeQuorum at every version, of a node that is its own quorum, formatted in each of the two ways."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_quorum import (
    MAX_VERSION,
    MIN_VERSION,
    DescribeQuorumRequest,
    Listener,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.wire.messages.describe_quorum import (
    Node as QuorumNode,
)
from ottla.wire.primitives import ZERO_UUID, uuid_from_text
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import DIRECTORY, NOW_MS, Node

CONTROLLER = {
    "process_roles": "broker,controller",
    "controller_listener_names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://localhost:9093",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
VERSIONS = range(MIN_VERSION, MAX_VERSION + 1)


def ask(node: Node, version: int, *topics: tuple[str, list[int]]) -> Any:
    asked = [RequestTopicData(name, [RequestPartitionData(index) for index in indexes]) for name, indexes in topics]
    return call(node, "describe_quorum", DescribeQuorumRequest(asked), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_only_voter_leads_and_has_everything(version: int) -> None:
    node = Node(**CONTROLLER, controller_quorum_bootstrap_servers="localhost:9093")
    node.start()
    node.stop()
    node.start()
    answer = ask(node, version, ("__cluster_metadata", [0]))
    ((partition,),) = (topic.partitions for topic in answer.topics)
    end_offset = node.image.highest_offset + 1
    assert (answer.error_code, partition.error_code, partition.partition_index) == (0, 0, 0)
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 2, end_offset)
    assert partition.observers == []
    assert node.logs is not None
    meta = node.logs.meta_properties()[DIRECTORY]
    assert meta is not None
    now_ms = NOW_MS if version >= 1 else -1
    directory_id = uuid_from_text(meta.directory_id) if version >= 2 else ZERO_UUID
    assert partition.current_voters == [ReplicaState(1, directory_id, end_offset, now_ms, now_ms)]
    assert answer.nodes == ([QuorumNode(1, [Listener("CONTROLLER", "localhost", 9093)])] if version >= 2 else [])


def test_voters_that_the_configuration_names_have_no_directory() -> None:
    node = Node(**CONTROLLER, controller_quorum_voters="1@localhost:9093")
    node.start()
    ((partition,),) = (topic.partitions for topic in ask(node, 2, ("__cluster_metadata", [0])).topics)
    assert [voter.replica_directory_id for voter in partition.current_voters] == [ZERO_UUID]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "topics",
    [
        [("__cluster_metadata", [1])],
        [("__cluster_metadata", [0, 1])],
        [("__cluster_metadata", [0, 0])],
        [("__cluster_metadata", [0]), ("__cluster_metadata", [0])],
        [("__cluster_metadata", [0]), ("t", [0])],
        [("", [0, -1])],
        [("__cluster_metadata", [])],
        [],
    ],
)
def test_anything_else_is_unknown(version: int, topics: list[tuple[str, list[int]]]) -> None:
    node = Node()
    node.start()
    answer = ask(node, version, *topics)
    assert (answer.error_code, answer.nodes) == (0, [])
    assert [(topic.topic_name, [p.partition_index for p in topic.partitions]) for topic in answer.topics] == topics
    for partition in (partition for topic in answer.topics for partition in topic.partitions):
        assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert bool(partition.error_message) == (version >= 2)
