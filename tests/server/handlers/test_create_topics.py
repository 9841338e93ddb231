"""CreateTopics: what its versions add, and a disk that fails. The rules themselves: tests/server/metadata/test_topics.py."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import MAX_VERSION, MIN_VERSION, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.primitives import ZERO_UUID
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import Node

VERSIONS = range(MIN_VERSION, MAX_VERSION + 1)


@pytest.fixture
def node() -> Node:
    made = Node()
    made.start()
    return made


def create(node: Node, version: int, *topics: CreatableTopic, validate_only: bool = False) -> Any:
    return call(node, "create_topics", CreateTopicsRequest(list(topics), validate_only=validate_only), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_good_and_a_bad_topic(node: Node, version: int) -> None:
    answer = create(
        node,
        version,
        CreatableTopic("ct", 2, 1, configs=[CreatableTopicConfig("retention.ms", "5")]),
        CreatableTopic("a/b", 1, 1),
    )
    good, bad = answer.topics
    assert (good.name, good.error_code, good.error_message) == ("ct", 0, None)
    assert (good.num_partitions, good.replication_factor) == ((2, 1) if version >= 5 else (-1, -1))
    assert len(good.configs) == (37 if version >= 5 else 0)
    assert (good.topic_id != ZERO_UUID) == (version >= 7)
    assert (bad.name, bad.error_code) == ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert bad.error_message
    assert list(node.image.topics) == ["ct"]


@pytest.mark.parametrize("version", VERSIONS)
def test_validation_and_defaults(node: Node, version: int) -> None:
    answer = create(node, version, CreatableTopic("ct", -1, -1), validate_only=True)
    assert [topic.error_code for topic in answer.topics] == [0]
    assert not node.image.topics


def test_an_internal_setting_is_answered_if_it_was_given(node: Node) -> None:
    small = CreatableTopic("small", 1, 1, configs=[CreatableTopicConfig("internal.segment.bytes", "1000")])
    answer = create(node, MAX_VERSION, small, CreatableTopic("plain", 1, 1))
    told = [{each.name: each.value for each in topic.configs if each.name.startswith("internal.")} for topic in answer.topics]
    assert told == [{"internal.segment.bytes": "1000"}, {}]


def test_a_disk_that_fails(node: Node) -> None:
    node.disk.fail("append", path="__cluster_metadata-0")
    answer = create(node, MAX_VERSION, CreatableTopic("a", 1, 1), CreatableTopic("b", 1, 1))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", ErrorCode.KAFKA_STORAGE_ERROR),
        ("b", ErrorCode.KAFKA_STORAGE_ERROR),
    ]
    assert not node.image.topics
