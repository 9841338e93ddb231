"""Tests of what the controller asks permission for: partitions of topics that pass all other checks, topic by topic."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.metadata.operation import Permits, Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.fakes import CALLER
from tests.server.metadata.support import Node

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Counted(Permits):
    """Lets so many partitions through, as whole operations."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.asked: list[int] = []

    def take(self, partitions: int) -> None:
        self.asked.append(partitions)
        if partitions > self.left:
            raise Refused(EXCEEDED)
        self.left -= partitions

    def give_back(self, partitions: int) -> None:
        self.left += partitions


@pytest.fixture
def node() -> Node:
    made = Node()
    made.start()
    asyncio.run(
        made.controller.create_topics(CreateTopicsRequest([CreatableTopic("a", 2, 1), CreatableTopic("b", 3, 1)]), CALLER)
    )
    return made


@pytest.mark.parametrize("validate_only", [False, True])
def test_creating_topics(node: Node, validate_only: bool) -> None:
    permits = Counted(5)
    topics = [CreatableTopic(name, count, 1) for name, count in (("c", 4), ("a", 1), ("d", 2), ("e", 1), ("f", 0))]
    answer = asyncio.run(node.controller.create_topics(CreateTopicsRequest(topics, validate_only=validate_only), CALLER, permits))
    codes = {topic.name: topic.error_code for topic in answer.topics}
    assert codes == {"c": 0, "a": ErrorCode.TOPIC_ALREADY_EXISTS, "d": EXCEEDED, "e": 0, "f": ErrorCode.INVALID_PARTITIONS}
    assert permits.asked == [4, 2, 1]
    assert sorted(node.image.topics) == (["a", "b"] if validate_only else ["a", "b", "c", "e"])


def test_deleting_topics(node: Node) -> None:
    permits = Counted(2)
    states = [DeleteTopicState(name) for name in ("b", "nope", "a")]
    answer = asyncio.run(node.controller.delete_topics(DeleteTopicsRequest(states, timeout_ms=1000), CALLER, permits))
    codes = {topic.name: topic.error_code for topic in answer.responses}
    assert codes == {"b": EXCEEDED, "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "a": 0}
    assert permits.asked == [3, 2]
    assert list(node.image.topics) == ["b"]


def test_adding_partitions(node: Node) -> None:
    permits = Counted(4)
    topics = [
        CreatePartitionsTopic("a", 5, None),
        CreatePartitionsTopic("b", 5, None),
        CreatePartitionsTopic("nope", 5, None),
    ]
    answer = asyncio.run(node.controller.create_partitions(CreatePartitionsRequest(topics, 1000), CALLER, permits))
    codes = {topic.name: topic.error_code for topic in answer.results}
    assert codes == {"a": 0, "b": EXCEEDED, "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert permits.asked == [3, 2]
    assert [len(topic.partitions) for topic in node.image.topics.values()] == [5, 3]


def test_what_is_planned_anew_is_charged_once(node: Node) -> None:
    """A large topic is encoded in slices, and planned again if the metadata changes meanwhile."""
    permits = Counted(3100)

    async def meanwhile() -> CreateTopicsResponse:
        large = CreateTopicsRequest([CreatableTopic("large", 3000, 1)])
        first = asyncio.ensure_future(node.controller.create_topics(large, CALLER, permits))
        await asyncio.sleep(0)
        assert not first.done()
        await node.controller.create_topics(CreateTopicsRequest([CreatableTopic("c", 1, 1)]), CALLER)
        return await first

    answer = asyncio.run(meanwhile())
    assert answer.topics[0].error_code == 0
    assert (permits.asked, permits.left) == ([3000, 3000], 100)


@pytest.mark.parametrize(("brokers", "asked"), [([[1], [1]], []), ([[9]], [1])])
def test_an_assignment_of_the_wrong_length_is_refused_before_and_wrong_brokers_after(
    node: Node, brokers: list[list[int]], asked: list[int]
) -> None:
    permits = Counted(4)
    topic = CreatePartitionsTopic("a", 3, [CreatePartitionsAssignment(each) for each in brokers])
    answer = asyncio.run(node.controller.create_partitions(CreatePartitionsRequest([topic], 1000), CALLER, permits))
    assert answer.results[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert permits.asked == asked


def test_topics_that_are_created_for_who_asks_for_them(node: Node) -> None:
    """Each by itself; who is refused asks again."""
    permits = Counted(1)
    node.controller.create_in_background(["c", "d", "a"], CALLER, permits)
    node.controller.create_in_background(["c"], CALLER, permits)
    node.clock.run()
    assert permits.asked == [1, 1]
    assert list(node.image.topics) == ["a", "b", "c"]
    node.controller.create_in_background(["d"], CALLER, Counted(1))
    node.clock.run()
    assert list(node.image.topics) == ["a", "b", "c", "d"]
