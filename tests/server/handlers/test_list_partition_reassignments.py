"""ListPartitionReassignments: partitions whose metadata names replicas to add or remove."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)
from tests.fakes import CALLER
from tests.server.handlers.admin_calls import call
from tests.server.handlers.data_calls import versions
from tests.server.metadata.support import Node


@pytest.fixture
def node() -> Node:
    made = Node()
    controller = made.start()
    asyncio.run(controller.create_topics(CreateTopicsRequest([CreatableTopic("t", 3, 1), CreatableTopic("u", 1, 1)]), CALLER))
    return made


def ask(node: Node, topics: list[tuple[str, list[int]]] | None, version: int = 0) -> list[tuple[str, Any]]:
    asked = None if topics is None else [ListPartitionReassignmentsTopics(*topic) for topic in topics]
    answer = call(node, "list_partition_reassignments", ListPartitionReassignmentsRequest(0, asked), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    return [(topic.name, topic.partitions) for topic in answer.topics]


@pytest.mark.parametrize("version", versions("list_partition_reassignments"))
@pytest.mark.parametrize("topics", [None, [], [("t", [0, 0, 9, -1])], [("nope", [0]), ("", [0])]])
def test_nothing_moves(node: Node, version: int, topics: list[tuple[str, list[int]]] | None) -> None:
    assert ask(node, topics, version) == []


@pytest.mark.parametrize("version", versions("list_partition_reassignments"))
def test_what_a_larger_cluster_left_unfinished(node: Node, version: int) -> None:
    topic_id = node.image.topics["t"].topic_id
    node.image.apply(PartitionChangeRecord(1, topic_id, replicas=[1, 2, 3], adding_replicas=[2], removing_replicas=[3]))
    moving = OngoingPartitionReassignment(1, [1, 2, 3], [2], [3])
    assert ask(node, None, version) == [("t", [moving])]
    assert ask(node, [("u", [0]), ("t", [2, 1, 0])], version) == [("t", [moving])]
    assert ask(node, [("t", [0, 2])], version) == []
    node.image.apply(PartitionChangeRecord(1, topic_id, adding_replicas=[]))
    assert ask(node, None, version) == [("t", [OngoingPartitionReassignment(1, [1, 2, 3], [], [3])])]
    node.image.apply(PartitionChangeRecord(1, topic_id, adding_replicas=[2], removing_replicas=[]))
    assert ask(node, None, version) == [("t", [OngoingPartitionReassignment(1, [1, 2, 3], [2], [])])]
