"""DeleteTopics: by name and by id, deletion disabled, a disk that fails. The rules: tests/server/metadata/test_topics.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import MAX_VERSION, MIN_VERSION, DeleteTopicsRequest, DeleteTopicState
from tests.fakes import CALLER
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import Node

VERSIONS = range(MIN_VERSION, MAX_VERSION + 1)


def started(**settings: str) -> Node:
    node = Node(**settings)
    controller = node.start()
    asyncio.run(controller.create_topics(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in "abc"]), CALLER))
    return node


def delete(node: Node, version: int, *names: str) -> Any:
    if version >= 6:
        request = DeleteTopicsRequest([DeleteTopicState(name) for name in names], timeout_ms=1000)
    else:
        request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)
    return call(node, "delete_topics", request, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_by_name(version: int) -> None:
    node = started()
    answer = delete(node, version, "a", "nope", "c")
    assert sorted((topic.name, topic.error_code) for topic in answer.responses) == [("a", 0), ("c", 0), ("nope", 3)]
    assert list(node.image.topics) == ["b"]


def test_by_id() -> None:
    node = started()
    topic_id = node.image.topics["b"].topic_id
    answer = call(node, "delete_topics", DeleteTopicsRequest([DeleteTopicState(None, topic_id)], timeout_ms=1000), 6)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.responses] == [("b", topic_id, 0)]


@pytest.mark.parametrize("version", VERSIONS)
def test_deletion_disabled(version: int) -> None:
    node = started(delete_topic_enable="false")
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert [(topic.name, topic.error_code) for topic in delete(node, version, "a", "nope").responses] == [
        ("a", code),
        ("nope", code),
    ]
    assert len(node.image.topics) == 3


def test_a_disk_that_fails() -> None:
    node = started()
    node.disk.fail("sync", path="__cluster_metadata-0")
    assert [topic.error_code for topic in delete(node, MAX_VERSION, "a").responses] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert len(node.image.topics) == 3
