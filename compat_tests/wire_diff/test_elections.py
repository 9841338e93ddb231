"""Tests of what an administrator asks a controller about leaders: ElectLeaders, ListPartitionReassignments, DescribeQuorum.

A lone broker leads everything and moves nothing, so most of what there is to see are refusals.
"""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.wire import Wire
from compat_tests.wire_diff.same import check
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics
from ottla.wire.primitives import ZERO_UUID

PREFERRED, UNCLEAN = 0, 1


def elect(wire: Wire, version: int, kind: int, topics: list[tuple[str, list[int]]] | None, timeout_ms: int = 30_000) -> Any:
    """The answer; of one to everything, what concerns this test."""
    asked = None if topics is None else [TopicPartitions(*topic) for topic in topics]
    answer = wire.call(ElectLeadersRequest(kind, asked, timeout_ms), version)
    if topics is None:
        answer.replica_election_results = [r for r in answer.replica_election_results if r.topic.startswith(wire.prefix)]
    return answer


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN, 2, -1])
@pytest.mark.parametrize("version", range(3))
def test_elect_leaders(wires: dict[str, Wire], version: int, kind: int) -> None:
    """Version 0 has no field for the type, so there is no bad one."""

    def scenario(wire: Wire) -> Any:
        topic = wire.create("t", 2)
        requests: list[list[tuple[str, list[int]]] | None] = [
            [(topic, [0, 1, 7, -1]), ("nope", [0]), ("", [0]), ("a b", [0]), ("__cluster_metadata", [0])],
            [(topic, [0, 0]), (topic, [1]), (topic, [])],
            [],
            None,
        ]
        return [elect(wire, version, kind, topics) for topics in requests]

    check(wires, "EL2", scenario)


@pytest.mark.parametrize("timeout_ms", [0, -1])
@pytest.mark.parametrize("version", range(3))
def test_elect_leaders_without_time(wires: dict[str, Wire], version: int, timeout_ms: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        return [elect(wire, version, PREFERRED, topics, timeout_ms) for topics in ([(topic, [0, 9])], [], None)]

    check(wires, "elections without time", scenario)


@pytest.mark.parametrize("timeout_ms", [60_000, 0, -1])
def test_list_partition_reassignments(wires: dict[str, Wire], timeout_ms: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t", 2)
        requests: list[list[tuple[str, list[int]]] | None] = [
            None,
            [],
            [(topic, [])],
            [(topic, [0, 1]), (topic, [0, 0])],
            [("nope", [0]), (topic, [9, -1]), ("", [0]), ("a b", [0])],
        ]
        asked = ListPartitionReassignmentsTopics
        return [
            wire.call(ListPartitionReassignmentsRequest(timeout_ms, None if topics is None else [asked(*t) for t in topics]), 0)
            for topics in requests
        ]

    check(wires, "LPR1", scenario)


def quorum(wire: Wire, version: int, *topics: tuple[str, list[int]]) -> Any:
    asked = [RequestTopicData(name, [RequestPartitionData(index) for index in indexes]) for name, indexes in topics]
    return wire.call(DescribeQuorumRequest(asked), version)


def settled_quorum(wire: Wire, version: int) -> Any:
    """Returns the quorum without how much each has written, which is its own affair; that the voter is level with its leader is
    not."""
    answer = quorum(wire, version, ("__cluster_metadata", [0]))
    ((partition,),) = (topic.partitions for topic in answer.topics)
    assert partition.high_watermark > 0
    for voter in partition.current_voters:
        voter.log_end_offset -= partition.high_watermark
        voter.last_caught_up_timestamp -= voter.last_fetch_timestamp
        voter.last_fetch_timestamp = voter.last_fetch_timestamp > 0
        voter.replica_directory_id = voter.replica_directory_id != ZERO_UUID
    partition.high_watermark = 0
    return answer


@pytest.mark.parametrize("version", range(3))
def test_describe_quorum(wires: dict[str, Wire], version: int) -> None:
    check(wires, "DQ1", lambda wire: settled_quorum(wire, version))


@pytest.mark.parametrize("version", range(3))
def test_describe_quorum_of_anything_else(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        metadata, topic = "__cluster_metadata", wire.create("t")
        return [
            quorum(wire, version, (metadata, [1])),
            quorum(wire, version, (metadata, [0, 1])),
            quorum(wire, version, (metadata, [0, 0])),
            quorum(wire, version, (metadata, [0]), (metadata, [0])),
            quorum(wire, version, (metadata, [0]), (topic, [0])),
            quorum(wire, version, (topic, [0, -1]), ("", [0])),
            quorum(wire, version, (metadata, [])),
            quorum(wire, version),
        ]

    check(wires, "DQ2", scenario)


@pytest.mark.parametrize("version", [0, 1])
def test_alter_partition_reassignments(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic, node = wire.create("t", 2), wire.metadata().brokers[0].node_id

        def ask(name: str, *targets: tuple[int, list[int] | None], allow: bool = True) -> Any:
            partitions = [ReassignablePartition(*target) for target in targets]
            return wire.call(AlterPartitionReassignmentsRequest(10_000, allow, [ReassignableTopic(name, partitions)]), version)

        return [
            ask(topic, (0, [node]), (1, [node])),
            ask(topic, (0, [node]), allow=False),
            ask(topic, (0, None), (7, None), (-1, [node])),
            ask(topic, (0, []), (1, [node, node])),
            ask(topic, (0, [node + 7]), (1, [node, node + 7])),
            ask(topic, (0, [-1])),
            ask("nope", (0, [node]), (1, None)),
            ask("", (0, [node])),
            ask(topic),
            wire.call(AlterPartitionReassignmentsRequest(0, True, []), version),
        ]

    check(wires, "APR1", scenario)
