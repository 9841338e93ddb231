"""The five requests to the share coordinator at every version, through the codecs."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.wire.api import BY_MODULE
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import delete_share_group_state as deleting
from ottla.wire.messages import initialize_share_group_state as initializing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import read_share_group_state_summary as summing
from ottla.wire.messages import write_share_group_state as writing
from tests.noted import noted
from tests.server.handlers.group_calls import encoded, versions
from tests.server.share_state.fakes import TOPIC_ID, Driver

NO_TOPIC = b"\7" * 16
WHOLE: dict[str, tuple[Any, Any, Any]] = {
    "initialize_share_group_state": (
        initializing.InitializeShareGroupStateRequest,
        initializing.InitializeStateData,
        lambda partition: initializing.PartitionData(partition, 1, 5),
    ),
    "read_share_group_state": (
        reading.ReadShareGroupStateRequest,
        reading.ReadStateData,
        lambda partition: reading.PartitionData(partition, 1),
    ),
    "write_share_group_state": (
        writing.WriteShareGroupStateRequest,
        writing.WriteStateData,
        lambda partition: writing.PartitionData(partition, 1, 1, 6, -1, [writing.StateBatch(6, 9, 2, 1)]),
    ),
    "read_share_group_state_summary": (
        summing.ReadShareGroupStateSummaryRequest,
        summing.ReadStateSummaryData,
        lambda partition: summing.PartitionData(partition, 1),
    ),
    "delete_share_group_state": (deleting.DeleteShareGroupStateRequest, deleting.DeleteStateData, deleting.PartitionData),
}
EVERY_VERSION = [(module, version) for module in WHOLE for version in versions(module)]


def ask(driver: Driver, module: str, version: int, topics: dict[bytes, list[int]], group: str = "g") -> Any:
    """The request and the answer as they look after the wire."""
    messages = importlib.import_module(f"ottla.wire.messages.{module}")
    handler = importlib.import_module(f"ottla.server.handlers.{module}")
    request_class, topic_class, partition = WHOLE[module]
    request = request_class(group, [topic_class(topic_id, list(map(partition, indexes))) for topic_id, indexes in topics.items()])
    request = messages.DECODE_REQUEST[version](encoded(messages.ENCODE_REQUEST[version], request), 0)[0]
    broker = SimpleNamespace(share_coordinator=lambda: driver.coordinator, clock=driver.clock)
    context = SimpleNamespace(broker=broker, api_version=version)
    answer = handler.handle(request, context)
    return messages.DECODE_RESPONSE[version](encoded(messages.ENCODE_RESPONSE[version], answer), 0)[0]


def begun() -> Driver:
    driver = Driver()
    driver.begin(start_offset=5)
    driver.coordinator.read("g", TOPIC_ID, 0, 1)
    return driver


def test_all_versions_are_there() -> None:
    assert all(BY_MODULE[module].min_version == 0 for module in WHOLE)


@pytest.mark.parametrize(("module", "version"), EVERY_VERSION)
def test_each_partition_has_its_own_answer(module: str, version: int) -> None:
    answer = ask(begun(), module, version, {TOPIC_ID: [0, 7, -1, 0], NO_TOPIC: [0]})
    found = {result.topic_id: {each.partition: each.error_code for each in result.partitions} for result in answer.results}
    needs_state = module in ("read_share_group_state", "write_share_group_state")
    missing = ErrorCode.INVALID_REQUEST if needs_state else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {TOPIC_ID: {0: 0, 7: missing, -1: ErrorCode.INVALID_REQUEST}, NO_TOPIC: {0: missing}}
    texts = [each.error_message for result in answer.results for each in result.partitions]
    assert [text is None for text in texts] == [True, False, False, False]


@pytest.mark.parametrize(("module", "version"), EVERY_VERSION)
def test_what_names_nothing_is_answered_by_nothing(module: str, version: int) -> None:
    driver = begun()
    before = driver.now()
    assert ask(driver, module, version, {}).results == []
    assert ask(driver, module, version, {TOPIC_ID: []}).results == []
    assert ask(driver, module, version, {TOPIC_ID: [0]}, group="").results == []
    assert driver.now() == before


def test_what_is_written_is_read() -> None:
    driver = begun()
    ask(driver, "write_share_group_state", 1, {TOPIC_ID: [0]})
    (read,) = ask(driver, "read_share_group_state", 0, {TOPIC_ID: [0]}).results[0].partitions
    assert (read.state_epoch, read.start_offset, read.state_batches) == (1, 6, [reading.StateBatch(6, 9, 2, 1)])
    (summary,) = ask(driver, "read_share_group_state_summary", 1, {TOPIC_ID: [0]}).results[0].partitions
    assert (summary.state_epoch, summary.leader_epoch, summary.start_offset, summary.delivery_complete_count) == (1, 1, 6, -1)
    ask(driver, "delete_share_group_state", 0, {TOPIC_ID: [0]})
    (gone,) = ask(driver, "read_share_group_state", 0, {TOPIC_ID: [0]}).results[0].partitions
    assert gone.error_code == ErrorCode.INVALID_REQUEST


def test_a_state_is_read_once_however_often_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = begun()
    asked: list[int] = []
    monkeypatch.setattr(driver.coordinator, "read", noted(asked, driver.coordinator.read, 2))
    answer = ask(driver, "read_share_group_state", 0, {TOPIC_ID: [0, 0, 7, 0, 7]})
    assert [(each.partition, each.error_code) for each in answer.results[0].partitions] == [
        (0, 0),
        (7, ErrorCode.INVALID_REQUEST),
    ]
    assert asked == [0, 7, 7]  # an error costs nothing, and is not kept
