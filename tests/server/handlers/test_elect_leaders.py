"""ElectLeaders at every version, and a disk that fails. The rules: tests/server/metadata/test_elect_leaders.py."""

from __future__ import annotations

import asyncio

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.elect_leaders import MAX_VERSION, MIN_VERSION, ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import CALLER
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import Node


@pytest.fixture
def node() -> Node:
    made = Node()
    controller = made.start()
    asyncio.run(controller.create_topics(CreateTopicsRequest([CreatableTopic("t", 2, 1)]), CALLER))
    return made


@pytest.mark.parametrize("version", range(MIN_VERSION, MAX_VERSION + 1))
def test_nothing_to_elect(node: Node, version: int) -> None:
    answer = call(
        node, "elect_leaders", ElectLeadersRequest(0, [TopicPartitions("t", [1, 5]), TopicPartitions("nope", [0])]), version
    )
    assert answer.error_code == 0
    assert [(r.topic, [(p.partition_id, p.error_code) for p in r.partition_result]) for r in answer.replica_election_results] == [
        ("t", [(1, ErrorCode.ELECTION_NOT_NEEDED), (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
        ("nope", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]


@pytest.mark.parametrize("version", range(1, MAX_VERSION + 1))
def test_an_unclean_election_outlives_a_restart(node: Node, version: int) -> None:
    topic_id = node.image.topics["t"].topic_id
    here = node.image.brokers[1].log_dirs[0]
    lost = PartitionChangeRecord(0, topic_id, isr=[2], leader=-1, replicas=[2, 1], directories=[b"d" * 16, here])
    node.controller.commit([lost])
    answer = call(node, "elect_leaders", ElectLeadersRequest(1, None), version)
    assert [(r.topic, [(p.partition_id, p.error_code) for p in r.partition_result]) for r in answer.replica_election_results] == [
        ("t", [(0, 0)])
    ]
    assert (node.image.topics["t"].partitions[0].leader, node.image.topics["t"].partitions[0].isr) == (1, (1,))
    node.kill()
    node.start()
    assert (node.image.topics["t"].partitions[0].leader, node.image.topics["t"].partitions[0].isr) == (1, (1,))


@pytest.mark.parametrize("version", range(MIN_VERSION, MAX_VERSION + 1))
def test_a_disk_that_fails(node: Node, version: int) -> None:
    lost = PartitionChangeRecord(0, node.image.topics["t"].topic_id, leader=-1)
    node.controller.commit([lost])
    node.disk.fail("append", path="__cluster_metadata-0")
    answer = call(node, "elect_leaders", ElectLeadersRequest(0, [TopicPartitions("t", [0])]), version)
    ((result,),) = (each.partition_result for each in answer.replica_election_results)
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert answer.error_code == (ErrorCode.KAFKA_STORAGE_ERROR if version >= 1 else 0)
    assert node.image.topics["t"].partitions[0].leader == -1


def test_a_long_name_is_not_repeated_for_every_partition(node: Node) -> None:
    answer = call(node, "elect_leaders", ElectLeadersRequest(0, [TopicPartitions("n" * 30_000, [0, 1, 2])]), MAX_VERSION)
    assert all(len(each.error_message) < 300 for each in answer.replica_election_results[0].partition_result)
