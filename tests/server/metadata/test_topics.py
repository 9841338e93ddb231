"""Creating and deleting topics: rows CT and DT of the compatibility table, and what lies between them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.server.metadata.image import TOPIC
from ottla.server.metadata.names import invalid_reason
from ottla.server.metadata.operation import LONGEST_MESSAGE, PART_SIZE
from ottla.server.metadata.topics import Deletion
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.internal.register_broker_record import RegisterBrokerRecord
from ottla.wire.primitives import ZERO_UUID
from tests.fakes import CALLER
from tests.server.metadata.support import Node


@pytest.fixture
def node() -> Node:
    made = Node()
    made.start()
    return made


def create(node: Node, *asked: CreatableTopic, validate_only: bool = False) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(list(asked), validate_only=validate_only)
    return asyncio.run(node.controller.create_topics(request, CALLER)).topics


def topic(name: str = "ct", partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    made = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreatableTopic(name, partitions, replicas, configs=made)


def assigned(*replicas: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> CreatableTopic:
    return CreatableTopic("ct", partitions, factor, [CreatableReplicaAssignment(index, ids) for index, ids in replicas])


def delete(node: Node, *states: DeleteTopicState) -> list[DeletableTopicResult]:
    return asyncio.run(node.controller.delete_topics(DeleteTopicsRequest(list(states), timeout_ms=1000), CALLER)).responses


def test_ct1_a_new_topic(node: Node) -> None:
    (result,) = create(node, topic(partitions=3))
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor, result.topic_config_error_code) == (3, 1, 0)
    assert result.configs is not None
    assert len(result.configs) == 37
    assert [config.name for config in result.configs] == sorted(config.name for config in result.configs)
    made = node.image.topics["ct"]
    assert made.topic_id == result.topic_id != ZERO_UUID
    assert [(p.replicas, p.isr, p.leader, p.leader_epoch, p.partition_epoch) for p in made.partitions.values()] == [
        ((1,), (1,), 1, 0, 0)
    ] * 3
    assert made.partitions[0].directories == node.image.brokers[1].log_dirs


def test_ct1_settings_are_answered_with_their_sources(node: Node) -> None:
    node = Node(log_retention_hours="2", compression_type="lz4")
    node.start()
    (result,) = create(node, topic(segment_ms="5000"))
    values = {config.name: (config.value, config.config_source) for config in result.configs or ()}
    assert values["segment.ms"] == ("5000", 1)
    assert values["retention.ms"] == ("7200000", 4)
    assert values["compression.type"] == ("lz4", 4)
    assert values["cleanup.policy"] == ("delete", 5)
    assert values["min.cleanable.dirty.ratio"] == ("0.5", 5)
    assert values["leader.replication.throttled.replicas"] == ("", 5)
    assert node.image.config_of(TOPIC, "ct") == {"segment.ms": "5000"}


def test_ct3_validation_makes_nothing(node: Node) -> None:
    before = node.image.highest_offset
    (result,) = create(node, topic(), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 1)
    assert not node.image.topics
    assert node.image.highest_offset == before
    create(node, topic())
    (again,) = create(node, topic(), validate_only=True)
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_ct6_the_brokers_defaults(node: Node) -> None:
    assert create(node, topic("one", -1, -1))[0].num_partitions == 1
    node = Node(num_partitions="7")
    node.start()
    assert create(node, topic("seven", -1, -1))[0].num_partitions == 7


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        pytest.param(topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION, id="CT4"),
        pytest.param(topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, id="empty name"),
        pytest.param(topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION, id="dot"),
        pytest.param(topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, id="250 characters"),
        pytest.param(topic("é"), ErrorCode.INVALID_TOPIC_EXCEPTION, id="no ASCII"),
        pytest.param(topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, id="the controller's own"),
        pytest.param(topic(replicas=2), ErrorCode.INVALID_REPLICATION_FACTOR, id="CT7"),
        pytest.param(topic(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR, id="CT8"),
        pytest.param(topic(replicas=-2), ErrorCode.INVALID_REPLICATION_FACTOR, id="factor -2"),
        pytest.param(topic(partitions=0), ErrorCode.INVALID_PARTITIONS, id="no partitions"),
        pytest.param(topic(partitions=-2), ErrorCode.INVALID_PARTITIONS, id="-2 partitions"),
        pytest.param(topic(partitions=10_000), ErrorCode.POLICY_VIOLATION, id="too many partitions"),
        pytest.param(topic(partitions=2**31 - 1), ErrorCode.POLICY_VIOLATION, id="far too many partitions"),
        pytest.param(assigned((0, [77])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="CT10"),
        pytest.param(assigned((1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="CT11"),
        pytest.param(assigned((0, [1]), (2, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="gap"),
        pytest.param(assigned((0, [1]), (0, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="assigned twice"),
        pytest.param(assigned((0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="no replica"),
        pytest.param(assigned((0, [1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="one broker twice"),
        pytest.param(assigned((0, [1]), partitions=1), ErrorCode.INVALID_REQUEST, id="count and assignment"),
        pytest.param(assigned((0, [1]), factor=1), ErrorCode.INVALID_REQUEST, id="factor and assignment"),
        pytest.param(topic(no_such="1"), ErrorCode.INVALID_CONFIG, id="CT12"),
        pytest.param(topic(retention_ms=None), ErrorCode.INVALID_CONFIG, id="CT14"),
        pytest.param(topic(retention_ms="x"), ErrorCode.INVALID_CONFIG, id="no number"),
        pytest.param(topic(cleanup_policy="bogus"), ErrorCode.INVALID_CONFIG, id="CT20"),
        # What is checked first is answered.
        pytest.param(topic("a/b", 0, 0, no_such="1"), ErrorCode.INVALID_TOPIC_EXCEPTION, id="name before settings"),
        pytest.param(topic(partitions=0, replicas=0, no_such="1"), ErrorCode.INVALID_CONFIG, id="settings before counts"),
        pytest.param(topic(partitions=0, replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR, id="factor before count"),
    ],
)
def test_what_is_refused(node: Node, asked: CreatableTopic, code: ErrorCode) -> None:
    before = node.image.highest_offset
    (result,) = create(node, asked)
    assert result.error_code == code
    assert result.error_message
    assert (result.name, result.num_partitions, result.replication_factor) == (asked.name, -1, -1)
    assert (result.configs, result.topic_id) == ([], ZERO_UUID)
    assert node.image.highest_offset == before


def test_the_sentences_name_the_setting(node: Node) -> None:
    assert create(node, topic(no_such="1"))[0].error_message == "no.such: topics do not have this setting; check the spelling"
    assert "retention.ms" in (create(node, topic(retention_ms=None))[0].error_message or "")


def test_ct15_named_twice_is_answered_once_and_not_made(node: Node) -> None:
    results = create(node, topic("twice"), topic("once"), topic("twice"))
    assert [(result.name, result.error_code) for result in results] == [("once", 0), ("twice", ErrorCode.INVALID_REQUEST)]
    assert list(node.image.topics) == ["once"]


TWICE = [topic("twice"), topic("twice")]
OWN = topic("__cluster_metadata")


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_is_made(node: Node, timeout_ms: int) -> None:
    request = CreateTopicsRequest([*TWICE, OWN, topic("good")], timeout_ms)
    results = asyncio.run(node.controller.create_topics(request, CALLER)).topics
    assert [(result.name, result.error_code, result.error_message) for result in results] == [
        (name, ErrorCode.REQUEST_TIMED_OUT, None) for name in ("twice", "twice", "__cluster_metadata", "good")
    ]
    assert "good" not in node.image.topics
    results = asyncio.run(node.controller.create_topics(CreateTopicsRequest([*TWICE, OWN], timeout_ms), CALLER)).topics
    assert {result.error_code for result in results} == {ErrorCode.INVALID_REQUEST}, "nothing to make needs no time"


def test_too_many_partitions_are_refused_whole(node: Node) -> None:
    assert {result.error_code for result in create(node, topic("a b", 9_999), topic("ok"), topic("c", -1))} == {
        ErrorCode.POLICY_VIOLATION
    }
    results = create(node, topic("twice", 10_001), topic("twice", 10_001), topic("bad", -5), topic("ok"))
    assert {result.name: result.error_code for result in results} == {
        "twice": ErrorCode.INVALID_REQUEST,
        "bad": ErrorCode.INVALID_PARTITIONS,
        "ok": ErrorCode.NONE,
    }


def test_ct16_names_that_look_the_same_in_metrics(node: Node) -> None:
    create(node, topic("x."))
    (result,) = create(node, topic("x_"))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "x." in (result.error_message or "")
    assert create(node, topic("x."))[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert create(node, topic("x-"))[0].error_code == 0


def test_ct19_a_list_of_policies(node: Node) -> None:
    (result,) = create(node, topic(cleanup_policy="compact,delete"))
    assert result.error_code == 0
    assert node.image.config_of(TOPIC, "ct") == {"cleanup.policy": "compact,delete"}


def test_each_topic_succeeds_or_fails_on_its_own_and_those_that_succeed_are_one_batch(node: Node) -> None:
    before = node.controller._log.end_offset
    results = create(node, topic("a", 2), topic("b/"), topic("c"))
    assert [result.error_code for result in results] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION, 0]
    assert list(node.image.topics) == ["a", "c"]
    log = node.logs.get("__cluster_metadata", 0) if node.logs else None
    assert log is not None
    assert len(list(log.iterate_batches(before))) == 1


def test_a_manual_assignment(node: Node) -> None:
    (result,) = create(node, assigned((1, [1]), (0, [1])))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)
    assert list(node.image.topics["ct"].partitions) == [0, 1]


def test_no_fenced_broker_leads(node: Node) -> None:
    for broker_id, fenced in ((2, False), (3, True)):
        node.image.apply(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=1, fenced=fenced))
    create(node, topic("placed", 30, 3))
    placed = node.image.topics["placed"].partitions.values()
    assert {partition.leader for partition in placed} == {1, 2}
    assert {partition.replicas[-1] for partition in placed} == {3}
    assert {frozenset(partition.isr) for partition in placed} == {frozenset((1, 2))}
    assert create(node, assigned((0, [3])))[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_legal_names() -> None:
    assert [name for name in ("a", "A-9_z.", "x" * 249, "...") if invalid_reason(name)] == []
    assert [name for name in ("", ".", "..", "x" * 250, "a b", "a\n", "é", "a/b") if not invalid_reason(name)] == []


def test_dt1_dt2_unknown_topics(node: Node) -> None:
    by_name, by_id = delete(node, DeleteTopicState("nope"), DeleteTopicState(None, b"x" * 16))
    assert (by_name.error_code, by_name.name, by_name.topic_id) == (3, "nope", ZERO_UUID)
    assert (by_id.error_code, by_id.name, by_id.topic_id) == (100, None, b"x" * 16)


def test_dt4_by_name_and_by_id(node: Node) -> None:
    ids = [result.topic_id for result in create(node, topic("a"), topic("b"))]
    results = delete(node, DeleteTopicState("a"), DeleteTopicState(None, ids[1]))
    assert [(result.name, result.topic_id, result.error_code) for result in results] == [("a", ids[0], 0), ("b", ids[1], 0)]
    assert not node.image.topics
    (again,) = create(node, topic("a"))
    assert again.topic_id != ids[0]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param([DeleteTopicState(None)], [(None, 42)], id="DT5"),
        pytest.param([DeleteTopicState("a"), DeleteTopicState("a")], [("a", 42)], id="DT6"),
        pytest.param([DeleteTopicState("a", b"x" * 16)], [("a", 42)], id="name and id"),
        pytest.param([DeleteTopicState(None, b"x" * 16)] * 2, [(None, 42)], id="id twice"),
    ],
)
def test_dt_malformed(node: Node, states: list[DeleteTopicState], expected: list[Any]) -> None:
    create(node, topic("a"))
    assert [(result.name, result.error_code) for result in delete(node, *states)] == expected
    assert list(node.image.topics) == ["a"]


def test_without_time_nothing_is_deleted(node: Node) -> None:
    create(node, topic())
    malformed = [DeleteTopicState("twice"), DeleteTopicState("twice"), DeleteTopicState(), DeleteTopicState("both", b"1" * 16)]
    for good in (DeleteTopicState("ct"), DeleteTopicState(None, b"1" * 16)):
        request = DeleteTopicsRequest([*malformed, good])
        results = asyncio.run(node.controller.delete_topics(request, CALLER)).responses
        assert [(result.name, result.error_code) for result in results] == [
            (state.name, ErrorCode.REQUEST_TIMED_OUT) for state in request.topics
        ]
    assert "ct" in node.image.topics
    results = asyncio.run(node.controller.delete_topics(DeleteTopicsRequest(malformed), CALLER)).responses
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST] * 3


def test_dt_by_name_and_by_the_id_of_the_same_topic(node: Node) -> None:
    (made,) = create(node, topic("a"))
    (result,) = delete(node, DeleteTopicState("a"), DeleteTopicState(None, made.topic_id))
    assert (result.name, result.topic_id, result.error_code) == ("a", made.topic_id, ErrorCode.INVALID_REQUEST)
    assert list(node.image.topics) == ["a"]


def test_a_message_that_quotes_the_client_is_not_too_long_for_old_versions(node: Node) -> None:
    (result,) = create(node, topic(retention_ms="x" * 32_760))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert len(str(result.error_message)) == LONGEST_MESSAGE
    (result,) = create(node, topic(retention_ms="\U0001f600" * 8_191))
    assert len(str(result.error_message).encode()) < 2**15


def test_others_come_in_between_while_the_topics_of_a_deletion_are_looked_up(node: Node) -> None:
    states = [DeleteTopicState(f"t{number}") for number in range(2 * PART_SIZE + 1)]
    deletion = Deletion(node.image, DeleteTopicsRequest(states, timeout_ms=1000))
    assert len(list(deletion.look_up())) == 2
    assert {result.error_code for result in deletion.answer().responses} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert [result.name for result in deletion.answer().responses] == [state.name for state in states]
