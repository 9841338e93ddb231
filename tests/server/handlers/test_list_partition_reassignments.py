"""ListPartitionReassignments: partitions whose metadata names replicas to add or remove."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call, versions


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 3, "u": 1})


def ask(broker: MemoryBroker, topics: list[tuple[str, list[int]]] | None, version: int = 0) -> list[tuple[str, Any]]:
    asked = None if topics is None else [ListPartitionReassignmentsTopics(*topic) for topic in topics]
    answer = call(broker, "list_partition_reassignments", version, ListPartitionReassignmentsRequest(0, asked))
    assert (answer.error_code, answer.error_message) == (0, None)
    return [(topic.name, topic.partitions) for topic in answer.topics]


@pytest.mark.parametrize("version", versions("list_partition_reassignments"))
@pytest.mark.parametrize("topics", [None, [], [("t", [0, 0, 9, -1])], [("nope", [0]), ("", [0])]])
def test_nothing_moves(broker: MemoryBroker, version: int, topics: list[tuple[str, list[int]]] | None) -> None:
    assert ask(broker, topics, version) == []


@pytest.mark.parametrize("version", versions("list_partition_reassignments"))
def test_what_a_larger_cluster_left_unfinished(broker: MemoryBroker, version: int) -> None:
    topic_id = broker.topic_id("t")
    broker.image.apply(PartitionChangeRecord(1, topic_id, replicas=[1, 2, 3], adding_replicas=[2], removing_replicas=[3]))
    moving = OngoingPartitionReassignment(1, [1, 2, 3], [2], [3])
    assert ask(broker, None, version) == [("t", [moving])]
    assert ask(broker, [("u", [0]), ("t", [2, 1, 0])], version) == [("t", [moving])]
    assert ask(broker, [("t", [0, 2])], version) == []
    broker.image.apply(PartitionChangeRecord(1, topic_id, adding_replicas=[]))
    assert ask(broker, None, version) == [("t", [OngoingPartitionReassignment(1, [1, 2, 3], [], [3])])]
    broker.image.apply(PartitionChangeRecord(1, topic_id, adding_replicas=[2], removing_replicas=[]))
    assert ask(broker, None, version) == [("t", [OngoingPartitionReassignment(1, [1, 2, 3], [2], [])])]
