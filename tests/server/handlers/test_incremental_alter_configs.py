"""IncrementalAlterConfigs: loggers are the broker's own, the rest is the controller's; answers keep the request's order."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import Node

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND = 0, 1, 2
NAME = "ottla.tests.alter"


@pytest.fixture
def node() -> Iterator[Node]:
    logger = logging.getLogger(NAME)
    node = Node()
    node.start()
    call(node, "create_topics", CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 7)
    yield node
    node.stop()
    logger.setLevel(logging.NOTSET)


def resource(kind: int, name: str, *configs: tuple[str, int, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(*config) for config in configs])


def alter(node: Node, *resources: AlterConfigsResource, validate_only: bool = False, version: int = 1) -> list[int]:
    request = IncrementalAlterConfigsRequest(list(resources), validate_only)
    responses = call(node, "incremental_alter_configs", request, version).responses
    assert [(each.resource_type, each.resource_name) for each in responses] == [
        (r.resource_type, r.resource_name) for r in resources
    ]
    assert all((each.error_message is None) == (each.error_code == 0) for each in responses)
    return [each.error_code for each in responses]


@pytest.mark.parametrize("version", [0, 1])
def test_a_logger_s_level(node: Node, version: int) -> None:
    assert alter(node, resource(LOGGER, "1", (NAME, SET, "debug")), version=version) == [0]
    assert logging.getLogger(NAME).level == logging.DEBUG
    assert alter(node, resource(LOGGER, "1", (NAME, DELETE, None)), version=version) == [0]
    assert logging.getLogger(NAME).level == logging.NOTSET


def test_validate_only_changes_nothing(node: Node) -> None:
    assert alter(node, resource(LOGGER, "1", (NAME, SET, "DEBUG")), validate_only=True) == [0]
    assert logging.getLogger(NAME).level == logging.NOTSET


@pytest.mark.parametrize(
    ("name", "config", "code"),
    [
        ("1", (NAME, SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ("1", ("ottla.nowhere", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        ("1", ("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        ("1", (NAME, APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        ("1", (NAME, SET, None), ErrorCode.INVALID_REQUEST),
        ("2", (NAME, SET, "INFO"), ErrorCode.INVALID_REQUEST),
        ("", (NAME, SET, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused_levels(node: Node, name: str, config: tuple[str, int, str | None], code: ErrorCode) -> None:
    assert alter(node, resource(LOGGER, name, config)) == [code]


def test_a_level_that_is_missing_counts_before_a_logger_that_does(node: Node) -> None:
    asked = resource(LOGGER, "1", ("ottla.nowhere", SET, "INFO"), (NAME, SET, None))
    assert alter(node, asked) == [ErrorCode.INVALID_REQUEST]


def test_loggers_change_together_or_not_at_all(node: Node) -> None:
    assert alter(node, resource(LOGGER, "1", (NAME, SET, "DEBUG"), ("ottla.nowhere", SET, "INFO"))) == [ErrorCode.INVALID_CONFIG]
    assert alter(node, resource(LOGGER, "1", (NAME, SET, "DEBUG"), (NAME, SET, "INFO"))) == [ErrorCode.INVALID_REQUEST]
    twice = [resource(LOGGER, "1", (NAME, SET, "DEBUG")), resource(LOGGER, "1", (NAME, SET, "INFO"))]
    assert alter(node, *twice) == [ErrorCode.INVALID_REQUEST] * 2
    assert logging.getLogger(NAME).level == logging.NOTSET


def test_answers_are_in_the_order_of_the_request(node: Node) -> None:
    codes = alter(
        node,
        resource(TOPIC, "t", ("retention.ms", SET, "5")),
        resource(LOGGER, "1", (NAME, SET, "WARN")),
        resource(TOPIC, "nosuch", ("retention.ms", SET, "5")),
        resource(LOGGER, "9", (NAME, SET, "WARN")),
        resource(BROKER, "1", ("log.retention.ms", SET, "6000")),
    )
    assert codes == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST, 0]
    assert node.image.config_of(TOPIC, "t") == {"retention.ms": "5"}
    assert node.image.config_of(BROKER, "1") == {"log.retention.ms": "6000"}
    assert logging.getLogger(NAME).level == logging.WARNING
