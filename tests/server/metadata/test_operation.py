"""Operations on many topics are done in parts, so that none of them keeps the event loop: each part has so many topics and
records and is a batch of its own, and what a later part meets does not undo an earlier one.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.server.metadata import operation
from ottla.server.metadata.configs import SET
from ottla.server.metadata.image import TOPIC
from ottla.server.metadata.operation import PART_SIZE
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import alter_configs as replacing
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.fakes import CALLER
from tests.server.metadata.support import Node

A_PART = PART_SIZE // 3 + 1
"""The number of topics of one partition that are created in one part: each counts itself and has two records."""


@pytest.fixture
def node() -> Node:
    made = Node()
    made.start()
    return made


def names(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


def creation(*topics: str, partitions: int = 1, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name in topics], validate_only=validate_only)


def batches(node: Node) -> list[int]:
    """Returns how many records each batch of the metadata log has."""
    log = node.logs.get("__cluster_metadata", 0) if node.logs else None
    assert log is not None
    return [read_header(batch).records_count for batch in log.iterate_batches(0)]


def carried_out(operation: Coroutine[Any, Any, Any]) -> tuple[Any, int]:
    """The answer, and how many turns of the event loop came before it."""

    async def run() -> tuple[Any, int]:
        task, turns = asyncio.ensure_future(operation), 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        return task.result(), turns

    return asyncio.run(run())


def test_many_topics_are_created_in_parts(node: Node) -> None:
    before = len(batches(node))
    answer, turns = carried_out(node.controller.create_topics(creation(*names(2 * A_PART + 1)), CALLER))
    assert batches(node)[before:] == [2 * A_PART, 2 * A_PART, 2]
    assert turns >= 3
    assert [(result.name, result.error_code) for result in answer.topics] == [(name, 0) for name in names(2 * A_PART + 1)]
    assert list(node.image.topics) == names(2 * A_PART + 1)


def test_a_part_ends_with_the_topic_that_makes_it_full(node: Node) -> None:
    before = len(batches(node))
    carried_out(node.controller.create_topics(creation(*names(4), partitions=PART_SIZE // 2), CALLER))
    assert batches(node)[before:] == [PART_SIZE + 2, PART_SIZE + 2]


def test_many_topics_are_deleted_and_extended_in_parts(node: Node) -> None:
    carried_out(node.controller.create_topics(creation(*names(A_PART + 1)), CALLER))
    before = len(batches(node))
    added = CreatePartitionsRequest([CreatePartitionsTopic(name, 2, None) for name in names(A_PART + 1)], timeout_ms=1000)
    answer, _ = carried_out(node.controller.create_partitions(added, CALLER))
    assert sum(result.error_code for result in answer.results) == 0
    assert batches(node)[before:] == [A_PART + 1]  # each counts two
    deleted = DeleteTopicsRequest([DeleteTopicState(name) for name in names(A_PART + 1)], timeout_ms=1000)
    answer, _ = carried_out(node.controller.delete_topics(deleted, CALLER))
    assert [(result.name, result.error_code) for result in answer.responses] == [(name, 0) for name in names(A_PART + 1)]
    assert batches(node)[before + 1 :] == [PART_SIZE // 4, A_PART + 1 - PART_SIZE // 4]  # two partitions count as well
    assert not node.image.topics


def test_what_is_only_validated_is_planned_in_parts_and_not_written(node: Node) -> None:
    before = len(batches(node))
    answer, turns = carried_out(node.controller.create_topics(creation(*names(2 * A_PART), validate_only=True), CALLER))
    assert (len(answer.topics), turns >= 2, batches(node)[before:]) == (2 * A_PART, True, [])
    assert not node.image.topics


def test_a_part_that_cannot_be_written_is_refused_and_the_earlier_ones_stay(node: Node) -> None:
    node.disk.fail("append", errno.ENOSPC, path="__cluster_metadata-0", skip=1)
    answer, _ = carried_out(node.controller.create_topics(creation(*names(3 * A_PART)), CALLER))
    codes = [result.error_code for result in answer.topics]
    assert codes == [0] * A_PART + [ErrorCode.KAFKA_STORAGE_ERROR] * 2 * A_PART
    assert [result.name for result in answer.topics] == names(3 * A_PART)
    assert list(node.image.topics) == names(A_PART)


def test_names_of_one_request_may_be_alike_whatever_part_they_are_in(node: Node) -> None:
    carried_out(node.controller.create_topics(creation("b.c"), CALLER))
    answer, _ = carried_out(node.controller.create_topics(creation("a.b", *names(A_PART), "a_b", "b_c"), CALLER))
    codes = {result.name: result.error_code for result in answer.topics if result.error_code}
    assert codes == {"b_c": ErrorCode.INVALID_TOPIC_EXCEPTION}
    carried_out(node.controller.delete_topics(DeleteTopicsRequest([DeleteTopicState("a.b")], timeout_ms=1000), CALLER))
    assert list(node.image.named_like("a.b")) == ["a_b"]
    assert list(node.image.named_like("x.y")) == []


def test_a_topic_that_is_gone_when_its_turn_comes(node: Node) -> None:
    carried_out(node.controller.create_topics(creation(*names(A_PART + 1)), CALLER))

    async def both() -> Any:
        states = [DeleteTopicState(name) for name in names(A_PART + 1)]
        first = asyncio.ensure_future(node.controller.delete_topics(DeleteTopicsRequest(states, timeout_ms=1000), CALLER))
        await asyncio.sleep(0)
        last = DeleteTopicsRequest([DeleteTopicState(f"t{A_PART}")], timeout_ms=1000)
        assert (await node.controller.delete_topics(last, CALLER)).responses[0].error_code == 0
        return await first

    answer = asyncio.run(both())
    assert [result.error_code for result in answer.responses[-1:]] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert not node.image.topics


def test_topics_are_created_in_the_background_in_parts_and_once(node: Node) -> None:
    before = len(batches(node))
    node.controller.create_in_background(names(A_PART + 1), CALLER)
    node.clock.run()
    assert list(node.image.topics) == names(A_PART)
    node.controller.create_in_background([*names(A_PART + 1), "more"], CALLER)
    assert node.clock.run() == 1
    assert list(node.image.topics) == names(A_PART + 1)
    assert node.clock.run() == 1
    assert batches(node)[before:] == [2 * A_PART, 2, 2]
    assert node.clock.run() == 0


def test_a_large_topic_is_planned_and_encoded_between_turns_and_created_as_a_whole(node: Node) -> None:
    before = len(batches(node))
    answer, turns = carried_out(node.controller.create_topics(creation("large", partitions=4000), CALLER))
    assert (answer.topics[0].error_code, turns >= 6) == (0, True)
    assert batches(node)[before:] == [4001]


async def while_encoding(node: Node, request: CreateTopicsRequest, *others: CreateTopicsRequest) -> Any:
    """The answer to a request in whose turns the others are carried out."""
    first = asyncio.ensure_future(node.controller.create_topics(request, CALLER))
    for other in others:
        await asyncio.sleep(0)
        assert not first.done()
        await node.controller.create_topics(other, CALLER)
    return await first


def test_a_large_topic_is_planned_anew_when_the_metadata_changes_meanwhile(node: Node) -> None:
    large = creation("large", *names(2), partitions=3000)
    answer = asyncio.run(while_encoding(node, large, creation("large")))
    assert [result.error_code for result in answer.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS, 0, 0]
    assert {name: len(topic.partitions) for name, topic in node.image.topics.items()} == {"large": 1, "t0": 3000, "t1": 3000}


def test_a_metadata_log_that_never_rests_does_not_keep_a_large_topic_for_ever(node: Node) -> None:
    async def scenario() -> Any:
        first = asyncio.ensure_future(node.controller.create_topics(creation("large", partitions=9000), CALLER))
        await asyncio.sleep(0)
        for number in range(30):
            if first.done():
                return await first
            await node.controller.create_topics(creation(f"o{number}"), CALLER)
            await asyncio.sleep(0)
        raise AssertionError("it is still planned anew")

    answer = asyncio.run(scenario())
    assert answer.topics[0].error_code == 0
    assert len(node.image.topics["large"].partitions) == 9000


def settings_of(*topics: str, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    resources = [AlterConfigsResource(TOPIC, name, [AlterableConfig("flush.ms", SET, "7")]) for name in topics]
    return IncrementalAlterConfigsRequest(resources, validate_only)


def test_the_settings_of_many_topics_are_changed_in_parts(node: Node) -> None:
    carried_out(node.controller.create_topics(creation(*names(PART_SIZE)), CALLER))
    before = len(batches(node))
    answer, turns = carried_out(node.controller.incremental_alter_configs(settings_of(*names(PART_SIZE), "none"), CALLER))
    assert batches(node)[before:] == [PART_SIZE // 2] * 2  # each counts two
    assert turns >= 3
    assert [(each.resource_name, each.error_code) for each in answer.responses[-2:]] == [(names(PART_SIZE)[-1], 0), ("none", 3)]
    assert node.image.config_of(TOPIC, names(PART_SIZE)[-1]) == {"flush.ms": "7"}
    resources = [replacing.AlterConfigsResource(TOPIC, name, []) for name in names(PART_SIZE)]
    _, turns = carried_out(node.controller.alter_configs(replacing.AlterConfigsRequest(resources), CALLER))
    assert turns >= 2
    assert node.image.config_of(TOPIC, names(PART_SIZE)[-1]) == {}


def test_settings_that_are_only_validated_are_not_written(node: Node) -> None:
    carried_out(node.controller.create_topics(creation("t"), CALLER))
    before = len(batches(node))
    answer, _ = carried_out(node.controller.incremental_alter_configs(settings_of("t", validate_only=True), CALLER))
    assert (answer.responses[0].error_code, batches(node)[before:]) == (0, [])


def test_the_parts_together_change_as_much_as_one_request_may(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "MAX_RECORDS", PART_SIZE - 1)
    carried_out(node.controller.create_topics(creation(*names(40)), CALLER))
    carried_out(node.controller.create_topics(creation(*names(PART_SIZE)[40:80]), CALLER))
    monkeypatch.setattr(operation, "MAX_RECORDS", 70)
    monkeypatch.setattr(operation, "PART_SIZE", 16)
    answer, _ = carried_out(node.controller.incremental_alter_configs(settings_of(*names(80)), CALLER))
    assert [each.error_code for each in answer.responses] == [0] * 70 + [ErrorCode.POLICY_VIOLATION] * 10


def test_settings_whose_part_cannot_be_written(node: Node) -> None:
    carried_out(node.controller.create_topics(creation(*names(PART_SIZE)), CALLER))
    node.disk.fail("append", errno.ENOSPC, path="__cluster_metadata-0", skip=1)
    answer, _ = carried_out(node.controller.incremental_alter_configs(settings_of(*names(PART_SIZE)), CALLER))
    half = PART_SIZE // 2
    assert [each.error_code for each in answer.responses] == [0] * half + [ErrorCode.KAFKA_STORAGE_ERROR] * half
