"""AlterPartitionReassignments where one broker holds everything: what is there already is a success, the rest is refused."""

from __future__ import annotations

import asyncio

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import CALLER
from tests.server.handlers.admin_calls import call
from tests.server.handlers.data_calls import versions
from tests.server.metadata.support import Node

NODE_ID = 1


@pytest.fixture
def node() -> Node:
    made = Node()
    controller = made.start()
    asyncio.run(controller.create_topics(CreateTopicsRequest([CreatableTopic("t", 2, 1)]), CALLER))
    return made


@pytest.mark.parametrize("version", versions("alter_partition_reassignments"))
@pytest.mark.parametrize(
    ("topic", "index", "replicas", "code"),
    [
        ("t", 0, [NODE_ID], ErrorCode.NONE),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [NODE_ID, NODE_ID], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [NODE_ID, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 1, [NODE_ID], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 7, [NODE_ID], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nope", 0, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_one_broker_is_the_only_target(
    node: Node, version: int, topic: str, index: int, replicas: list[int] | None, code: ErrorCode
) -> None:
    topic_id = node.image.topics["t"].topic_id
    node.image.apply(PartitionChangeRecord(1, topic_id, replicas=[NODE_ID, 9]))  # of a larger cluster
    asked = ReassignableTopic(topic, [ReassignablePartition(index, replicas)])
    answer = call(node, "alter_partition_reassignments", AlterPartitionReassignmentsRequest(1, True, [asked]), version)
    assert answer.error_code == 0
    (only,) = answer.responses[0].partitions
    assert (only.partition_index, only.error_code) == (index, code)
    assert bool(only.error_message) is (code not in (ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS))


@pytest.mark.parametrize("version", versions("alter_partition_reassignments"))
def test_no_time(node: Node, version: int) -> None:
    asked = ReassignableTopic("t", [ReassignablePartition(0, [NODE_ID])])
    request = AlterPartitionReassignmentsRequest(0, False, [asked])
    answer = call(node, "alter_partition_reassignments", request, version)
    assert answer.error_code == answer.responses[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_long_name_is_not_repeated_for_every_partition(node: Node) -> None:
    asked = ReassignableTopic("n" * 30_000, [ReassignablePartition(index, [NODE_ID]) for index in range(3)])
    request = AlterPartitionReassignmentsRequest(1, True, [asked])
    answer = call(node, "alter_partition_reassignments", request, 1)
    assert all(len(each.error_message) < 300 for each in answer.responses[0].partitions)


@pytest.mark.parametrize("version", versions("alter_partition_reassignments"))
def test_nothing_is_asked(node: Node, version: int) -> None:
    """An answer without partitions has an empty message, as Kafka's has, and no time is needed for it."""
    answer = call(node, "alter_partition_reassignments", AlterPartitionReassignmentsRequest(0, True, []), version)
    assert (answer.error_code, answer.error_message, answer.responses) == (0, "", [])
