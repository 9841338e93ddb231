"""cordoned.log.dirs (KIP-1066): what the broker registers as closed to new partitions, and what the controller then refuses."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.metadata.configs import DELETE, SET
from ottla.server.metadata.image import BROKER
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.primitives import uuid_from_text
from tests.fakes import CALLER
from tests.server.metadata.support import Node

ONE, TWO = "/one", "/two"


def started(**settings: str) -> Node:
    node = Node(log_dirs=f"{ONE},{TWO}", **settings)
    node.start()
    return node


def cordon(node: Node, value: str | None) -> None:
    """Set the broker's own setting and let a turn of the loop pass."""
    config = AlterableConfig("cordoned.log.dirs", DELETE if value is None else SET, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "1", [config])])
    (answer,) = asyncio.run(node.controller.incremental_alter_configs(request, CALLER)).responses
    assert answer.error_code == 0
    node.clock.run()


def registered(node: Node) -> set[str]:
    assert node.logs is not None
    ids = {uuid_from_text(meta.directory_id): path for path, meta in node.logs.meta_properties().items() if meta is not None}
    return {ids[directory_id] for directory_id in node.image.brokers[1].cordoned_log_dirs}


def create(node: Node, name: str, *replicas: int) -> int:
    topic = CreatableTopic(name, 1, 1)
    if replicas:
        topic = CreatableTopic(name, -1, -1, [CreatableReplicaAssignment(0, list(replicas))])
    (answer,) = asyncio.run(node.controller.create_topics(CreateTopicsRequest([topic]), CALLER)).topics
    return answer.error_code


def grow(node: Node, count: int, *replicas: int) -> int:
    assignments = [CreatePartitionsAssignment(list(replicas))] if replicas else None
    request = CreatePartitionsRequest([CreatePartitionsTopic("t", count, assignments)], 1000)
    (answer,) = asyncio.run(node.controller.create_partitions(request, CALLER)).results
    return answer.error_code


def test_a_broker_with_a_directory_left_takes_partitions() -> None:
    node = started()
    cordon(node, TWO)
    assert registered(node) == {TWO}
    assert [create(node, "t"), grow(node, 2), create(node, "u", 1)] == [0, 0, 0]


@pytest.mark.parametrize("value", ["*", f"{ONE},{TWO}"])
def test_a_broker_without_takes_none(value: str) -> None:
    node = started()
    assert create(node, "t") == 0
    cordon(node, value)
    assert registered(node) == {ONE, TWO}
    by_itself, by_hand = ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert [create(node, "u"), create(node, "u", 1), grow(node, 2), grow(node, 2, 1)] == [by_itself, by_hand, by_itself, by_hand]
    cordon(node, None)
    assert registered(node) == set()
    assert [create(node, "u"), grow(node, 2)] == [0, 0]


def test_a_restart_registers_it_again() -> None:
    node = started()
    cordon(node, ONE)
    node.kill()
    node.start()
    assert registered(node) == {ONE}


def test_the_setting_of_the_start() -> None:
    node = started(cordoned_log_dirs=TWO)
    assert registered(node) == {TWO}
    cordon(node, "")
    assert registered(node) == set()


def test_other_settings_register_nothing() -> None:
    node = started()
    before = node.image.highest_offset
    config = AlterableConfig("message.max.bytes", SET, "1000")
    asyncio.run(
        node.controller.incremental_alter_configs(
            IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "1", [config])]), CALLER
        )
    )
    assert (node.clock.run(), node.image.highest_offset) == (0, before + 1)


def test_a_change_that_is_taken_back_at_once_registers_nothing() -> None:
    node = started()
    for config in (AlterableConfig("cordoned.log.dirs", SET, ONE), AlterableConfig("cordoned.log.dirs", DELETE, None)):
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "1", [config])])
        asyncio.run(node.controller.incremental_alter_configs(request, CALLER))
    before = node.image.highest_offset
    node.clock.run()
    assert (registered(node), node.image.highest_offset) == (set(), before)


def test_a_disk_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    node = started()
    config = AlterableConfig("cordoned.log.dirs", SET, ONE)
    asyncio.run(
        node.controller.incremental_alter_configs(
            IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "1", [config])]), CALLER
        )
    )
    node.disk.fail("append", path="__cluster_metadata-0")
    node.clock.run()
    assert registered(node) == set()
    assert "the change of cordoned.log.dirs does not affect new topics yet" in caplog.text
