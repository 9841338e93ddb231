"""DescribeTopicPartitions: pages, cursors, and topics that are not there."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, RequestCursor, TopicRequest
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.primitives import ZERO_UUID
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call

ALL = [("a", 2), ("ab", 1), ("b", 3)]


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"b": 3, "a": 2, "ab": 1})


def ask(broker: MemoryBroker, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    begin = None if cursor is None else RequestCursor(*cursor)
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, begin)
    return call(broker, "describe_topic_partitions", 0, request)


def page(answer: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    topics = [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in answer.topics]
    cursor = answer.next_cursor
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_a_topic(broker: MemoryBroker) -> None:
    (topic,) = ask(broker, "ab").topics
    assert (topic.error_code, topic.topic_id, topic.is_internal) == (0, broker.topic_id("ab"), False)
    assert topic.topic_authorized_operations == 3576
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


@pytest.mark.parametrize("names", [(), ("b", "a", "ab"), ("b", "a", "b", "ab", "a")])
def test_topics_come_by_name_and_once(broker: MemoryBroker, names: tuple[str, ...]) -> None:
    assert page(ask(broker, *names)) == ([(name, list(range(count))) for name, count in ALL], None)


@pytest.mark.parametrize(
    ("limit", "topics", "cursor"),
    [
        (1, [("a", [0])], ("a", 1)),
        (2, [("a", [0, 1])], ("ab", 0)),
        (3, [("a", [0, 1]), ("ab", [0])], ("b", 0)),
        (4, [("a", [0, 1]), ("ab", [0]), ("b", [0])], ("b", 1)),
        (6, [("a", [0, 1]), ("ab", [0]), ("b", [0, 1, 2])], None),
        (0, [("a", [0])], ("a", 1)),
        (-1, [("a", [0])], ("a", 1)),
    ],
)
def test_limits(broker: MemoryBroker, limit: int, topics: Any, cursor: Any) -> None:
    assert page(ask(broker, limit=limit)) == (topics, cursor)


def test_the_broker_s_limit() -> None:
    broker = MemoryBroker({"t": 5}, {"max.request.partition.size.limit": "3"})
    assert page(ask(broker, "t")) == ([("t", [0, 1, 2])], ("t", 3))


def test_pages_follow_each_other(broker: MemoryBroker) -> None:
    seen: list[tuple[str, list[int]]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(9):
        topics, cursor = page(ask(broker, limit=1, cursor=cursor))
        seen += topics
        if cursor is None:
            break
    assert seen == [("a", [0]), ("a", [1]), ("ab", [0]), ("b", [0]), ("b", [1]), ("b", [2])]


def test_a_cursor_behind_its_topic_s_end_goes_on_with_the_next(broker: MemoryBroker) -> None:
    assert page(ask(broker, "a", "b", limit=1, cursor=("a", 2**31 - 1))) == ([("a", []), ("b", [0])], ("b", 1))


def test_a_cursor_on_a_topic_that_is_gone(broker: MemoryBroker) -> None:
    """With all topics asked for, the page goes on behind it; where topics are named, the topic is unknown."""
    assert page(ask(broker, cursor=("aa", 1))) == ([("ab", [0]), ("b", [0, 1, 2])], None)
    (gone,) = ask(broker, "b0", cursor=("b0", 1)).topics
    assert (gone.name, gone.error_code) == ("b0", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("cursor", [("a", -1), ("ab", 0), ("", 0)])
def test_cursors_that_are_none(broker: MemoryBroker, cursor: tuple[str, int]) -> None:
    answer = ask(broker, "b", "a", "a", cursor=cursor)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        (name, ErrorCode.INVALID_REQUEST) for name in ("b", "a", "a")
    ]
    assert answer.next_cursor is None


def test_a_negative_cursor_and_all_topics(broker: MemoryBroker) -> None:
    assert page(ask(broker, cursor=("", -1))) == ([], None)


def test_topics_that_are_not_there(broker: MemoryBroker) -> None:
    answer = ask(broker, "a", "0", "a b", "", "__transaction_state")
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("0", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__transaction_state", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", 0),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    missing = answer.topics[2]
    assert (missing.topic_id, missing.is_internal, missing.partitions) == (ZERO_UUID, True, [])
    assert missing.topic_authorized_operations == 3576


def test_unknown_topics_do_not_count_as_partitions(broker: MemoryBroker) -> None:
    assert page(ask(broker, "0", "1", "a", "c", limit=2)) == ([("0", []), ("1", []), ("a", [0, 1])], ("c", 0))


def test_a_partition_whose_leader_cannot_be_reached(broker: MemoryBroker) -> None:
    topic_id = broker.topic_id("ab")
    broker.image.apply(PartitionChangeRecord(0, topic_id, leader=9, replicas=[9, 1], isr=[9], directories=[b"d" * 16] * 2))
    (partition,) = ask(broker, "ab").topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, -1, 1)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([9, 1], [9], [9])


def test_eligible_leader_replicas(broker: MemoryBroker) -> None:
    change = PartitionChangeRecord(0, broker.topic_id("ab"), isr=[], eligible_leader_replicas=[1], last_known_elr=[1])
    broker.image.apply(change)
    (partition,) = ask(broker, "ab").topics[0].partitions
    assert (partition.isr_nodes, partition.eligible_leader_replicas, partition.last_known_elr) == ([], [1], [1])


def test_names_are_ordered_by_utf_16(broker: MemoryBroker) -> None:
    """Of no use for topics, whose names are ASCII; but what is asked for may be anything."""
    answer = ask(broker, "\uffee", "\U0001f600")
    assert [topic.name for topic in answer.topics] == ["\U0001f600", "\uffee"]
