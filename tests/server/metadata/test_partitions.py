"""Adding partitions: rows CP of the compatibility table."""

from __future__ import annotations

import asyncio

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.fakes import CALLER
from tests.server.metadata.support import Node


@pytest.fixture
def node() -> Node:
    made = Node()
    controller = made.start()
    asyncio.run(
        controller.create_topics(CreateTopicsRequest([CreatableTopic("ct", 1, 1), CreatableTopic("other", 2, 1)]), CALLER)
    )
    return made


def grow(node: Node, *asked: CreatePartitionsTopic, validate_only: bool = False) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(list(asked), 1000, validate_only=validate_only)
    return asyncio.run(node.controller.create_partitions(request, CALLER)).results


def to(count: int, name: str = "ct", replicas: list[list[int]] | None = None) -> CreatePartitionsTopic:
    assigned = None if replicas is None else [CreatePartitionsAssignment(ids) for ids in replicas]
    return CreatePartitionsTopic(name, count, assigned)


def test_cp6_three(node: Node) -> None:
    (result,) = grow(node, to(3))
    assert (result.name, result.error_code, result.error_message) == ("ct", 0, None)
    assert list(node.image.topics["ct"].partitions) == [0, 1, 2]
    assert node.image.topics["ct"].partitions[2][:5] == ((1,), (1,), 1, 0, 0)


def test_cp4_validation_makes_nothing(node: Node) -> None:
    (result,) = grow(node, to(3), validate_only=True)
    assert result.error_code == 0
    assert list(node.image.topics["ct"].partitions) == [0]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        pytest.param(to(0), ErrorCode.INVALID_PARTITIONS, id="CP2"),
        pytest.param(to(1), ErrorCode.INVALID_PARTITIONS, id="as many as there are"),
        pytest.param(to(-5), ErrorCode.INVALID_PARTITIONS, id="negative"),
        pytest.param(to(3, "nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="CP3"),
        pytest.param(to(20_000), ErrorCode.POLICY_VIOLATION, id="too many"),
        pytest.param(to(3, replicas=[[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="one assigned of two"),
        pytest.param(to(2, replicas=[]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="none assigned"),
        pytest.param(to(2, replicas=[[2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="unknown broker"),
        pytest.param(to(2, replicas=[[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="broker twice"),
    ],
)
def test_what_is_refused(node: Node, asked: CreatePartitionsTopic, code: ErrorCode) -> None:
    assert [result.error_code for result in grow(node, asked)] == [code]
    assert list(node.image.topics["ct"].partitions) == [0]


def test_named_twice_is_answered_once(node: Node) -> None:
    results = grow(node, to(2), to(5, "other"), to(3))
    assert {result.name: result.error_code for result in results} == {"ct": ErrorCode.INVALID_REQUEST, "other": 0}
    assert len(results) == 2
    assert len(node.image.topics["other"].partitions) == 5


def test_without_time_nothing_grows(node: Node) -> None:
    twice = [to(3, "other"), to(3, "other")]
    for timeout_ms in (0, -1):
        request = CreatePartitionsRequest([*twice, to(3)], timeout_ms)
        results = asyncio.run(node.controller.create_partitions(request, CALLER)).results
        assert [(result.name, result.error_code) for result in results] == [
            (name, ErrorCode.REQUEST_TIMED_OUT) for name in ("other", "other", "ct")
        ]
        assert list(node.image.topics["ct"].partitions) == [0]
        (result,) = asyncio.run(node.controller.create_partitions(CreatePartitionsRequest(twice, timeout_ms), CALLER)).results
        assert result.error_code == ErrorCode.INVALID_REQUEST


def test_too_many_are_refused_whole(node: Node) -> None:
    results = grow(node, to(9_000), to(1_004, "other"), to(7, "nope"))
    assert [result.error_code for result in results] == [ErrorCode.POLICY_VIOLATION] * 3
    results = grow(node, to(10_001), to(-20_000, "other"), to(20_000, "nope"), validate_only=True)
    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_an_assignment(node: Node) -> None:
    assert grow(node, to(3, replicas=[[1], [1]]))[0].error_code == 0


def test_partitions_outlive_a_restart_with_a_new_leader_epoch(node: Node) -> None:
    grow(node, to(3))
    for epoch in (1, 2):
        node.kill()
        node.start()
        assert [p[:5] for p in node.image.topics["ct"].partitions.values()] == [((1,), (1,), 1, epoch, epoch)] * 3
