"""Tests of how many partitions the broker holds at most, and what is answered where there would be more."""

from __future__ import annotations

import asyncio

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from tests.fakes import CALLER
from tests.server.metadata.support import Node


@pytest.fixture
def node() -> Node:
    made = Node(ottla_max_partitions="5", offsets_topic_num_partitions="4")
    made.start()
    return made


def create(node: Node, *topics: tuple[str, int]) -> list[int]:
    request = CreateTopicsRequest([CreatableTopic(name, count, 1) for name, count in topics])
    return [result.error_code for result in asyncio.run(node.controller.create_topics(request, CALLER)).topics]


def extend(node: Node, *topics: tuple[str, int]) -> list[tuple[int, str | None]]:
    request = CreatePartitionsRequest([CreatePartitionsTopic(name, count, None) for name, count in topics], timeout_ms=1000)
    results = asyncio.run(node.controller.create_partitions(request, CALLER)).results
    return [(result.error_code, result.error_message) for result in results]


def test_topics_of_one_request_share_what_is_left(node: Node) -> None:
    assert create(node, ("a", 3), ("b", 3), ("c", 2), ("d", 1)) == [0, ErrorCode.POLICY_VIOLATION, 0, ErrorCode.POLICY_VIOLATION]
    assert list(node.image.topics) == ["a", "c"]
    assert create(node, ("e", 1)) == [ErrorCode.POLICY_VIOLATION]


def test_partitions_that_are_added_count(node: Node) -> None:
    create(node, ("a", 1), ("b", 2))
    assert extend(node, ("a", 4), ("b", 4)) == [
        (ErrorCode.POLICY_VIOLATION, "Broker 1 would hold 6 partitions; its setting ottla.max.partitions allows 5."),
        (0, None),
    ]


def test_internal_topics_count_but_are_never_refused(node: Node) -> None:
    create(node, ("a", 3))
    node.controller.create_in_background(["__consumer_offsets"], CALLER)
    node.clock.run()
    assert len(node.image.topics["__consumer_offsets"].partitions) == 4
    assert create(node, ("b", 1)) == [ErrorCode.POLICY_VIOLATION]


def test_partitions_of_other_brokers_do_not_count(node: Node) -> None:
    elsewhere = [PartitionRecord(index, b"x" * 16, [2], [2], leader=2) for index in range(9)]
    node.image.apply_all([TopicRecord("x", b"x" * 16), *elsewhere])
    assert create(node, ("a", 5)) == [0]


def test_a_broker_that_holds_more_than_its_new_limit_keeps_them() -> None:
    node = Node()
    node.start()
    create(node, ("a", 3))
    node.config.values["ottla.max.partitions"] = 2
    assert create(node, ("b", 1)) == [ErrorCode.POLICY_VIOLATION]
    assert list(node.image.topics) == ["a"]
