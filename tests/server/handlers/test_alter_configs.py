"""AlterConfigs at every version, and where the metadata log cannot be written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.log.errors import StorageError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.server.handlers.admin_calls import call
from tests.server.handlers.data_calls import versions
from tests.server.metadata.support import Node

TOPIC, BROKER, LOGGER = 2, 4, 8


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    node.start()
    call(node, "create_topics", CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 7)
    yield node
    node.stop()


def request(*resources: tuple[int, str, dict[str, str | None]], validate_only: bool = False) -> AlterConfigsRequest:
    asked = [
        AlterConfigsResource(kind, name, [AlterableConfig(*pair) for pair in settings.items()])
        for kind, name, settings in resources
    ]
    return AlterConfigsRequest(asked, validate_only)


@pytest.mark.parametrize("version", versions("alter_configs"))
def test_resources_are_answered_in_order(node: Node, version: int) -> None:
    asked = request(
        (TOPIC, "nope", {}), (TOPIC, "t", {"flush.ms": "7"}), (LOGGER, "1", {"root": "INFO"}), (BROKER, "1", {"no.such": None})
    )
    answer = call(node, "alter_configs", asked, version)
    assert answer.throttle_time_ms == 0
    assert [(each.resource_type, each.resource_name, each.error_code) for each in answer.responses] == [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "t", 0),
        (LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ErrorCode.INVALID_REQUEST),
    ]
    assert [bool(each.error_message) for each in answer.responses] == [True, False, True, True]
    assert node.image.config_of(TOPIC, "t") == {"flush.ms": "7"}


@pytest.mark.parametrize("version", versions("alter_configs"))
def test_validate_only(node: Node, version: int) -> None:
    answer = call(node, "alter_configs", request((TOPIC, "t", {"flush.ms": "7"}), validate_only=True), version)
    assert [each.error_code for each in answer.responses] == [0]
    assert node.image.config_of(TOPIC, "t") == {}


def test_a_log_that_cannot_be_written(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(node.controller, "_commit", fail)
    answer = call(node, "alter_configs", request((TOPIC, "t", {"flush.ms": "7"}), (TOPIC, "nope", {})), 2)
    assert [(each.error_code, each.error_message, each.resource_name) for each in answer.responses] == [
        (ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone", "t"),
        (ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone", "nope"),
    ]
