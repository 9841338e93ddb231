"""CreatePartitions at every version, and a disk that fails. The rules: tests/server/metadata/test_partitions.py."""

from __future__ import annotations

import asyncio

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    MAX_VERSION,
    MIN_VERSION,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.fakes import CALLER
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import Node


@pytest.fixture
def node() -> Node:
    made = Node()
    controller = made.start()
    asyncio.run(controller.create_topics(CreateTopicsRequest([CreatableTopic("ct", 1, 1)]), CALLER))
    return made


@pytest.mark.parametrize("version", range(MIN_VERSION, MAX_VERSION + 1))
def test_more_partitions(node: Node, version: int) -> None:
    assigned = CreatePartitionsTopic("ct", 2, [CreatePartitionsAssignment([1])])
    answer = call(
        node, "create_partitions", CreatePartitionsRequest([assigned, CreatePartitionsTopic("nope", 2, None)], 1000), version
    )
    assert [(topic.name, topic.error_code) for topic in answer.results] == [("ct", 0), ("nope", 3)]
    assert len(node.image.topics["ct"].partitions) == 2
    answer = call(
        node,
        "create_partitions",
        CreatePartitionsRequest([CreatePartitionsTopic("ct", 3, None)], 1000, validate_only=True),
        version,
    )
    assert [topic.error_code for topic in answer.results] == [0]
    assert len(node.image.topics["ct"].partitions) == 2


def test_a_disk_that_fails(node: Node) -> None:
    node.disk.fail("append", path="__cluster_metadata-0")
    answer = call(node, "create_partitions", CreatePartitionsRequest([CreatePartitionsTopic("ct", 3, None)], 1000), MAX_VERSION)
    assert [topic.error_code for topic in answer.results] == [ErrorCode.KAFKA_STORAGE_ERROR]
