"""AlterConfigs: what is not named is gone; what is refused leaves everything as it was."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.metadata.eligible import MIN_ISR
from ottla.server.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.fakes import CALLER
from tests.server.metadata.support import Node

Asked = tuple[int, str, list[tuple[str, str | None]]]


@pytest.fixture
def node() -> Node:
    made = Node()
    controller = made.start()
    asyncio.run(controller.create_topics(CreateTopicsRequest([CreatableTopic("t", 1, 1), CreatableTopic("u", 1, 1)]), CALLER))
    return made


def replace(node: Node, *resources: Asked, validate_only: bool = False) -> list[int]:
    """The codes."""
    asked = [AlterConfigsResource(kind, name, [AlterableConfig(*pair) for pair in pairs]) for kind, name, pairs in resources]
    responses = asyncio.run(node.controller.alter_configs(AlterConfigsRequest(asked, validate_only), CALLER)).responses
    assert [(each.resource_type, each.resource_name) for each in responses] == [(kind, name) for kind, name, _ in resources]
    assert all((each.error_message is None) == (each.error_code == 0) for each in responses)
    return [each.error_code for each in responses]


@pytest.mark.parametrize(
    ("kind", "name", "first", "second"),
    [
        (TOPIC, "t", ("retention.ms", "5"), ("flush.ms", "7")),
        (BROKER, "1", ("background.threads", "11"), ("no.such", "x")),
        (BROKER, "", ("background.threads", "11"), ("log.retention.ms", "5000")),
        (GROUP, "g", ("consumer.session.timeout.ms", "46000"), ("consumer.heartbeat.interval.ms", "6000")),
        (CLIENT_METRICS, "m", ("interval.ms", "1000"), ("metrics", "a")),
    ],
)
def test_what_is_not_named_is_gone(node: Node, kind: int, name: str, first: tuple[str, str], second: tuple[str, str]) -> None:
    stays = [(MIN_ISR, "1")] if (kind, name) == (BROKER, "") else []
    for pairs in ([first], [first, second], [second], []):
        assert replace(node, (kind, name, [*stays, *pairs])) == [0]
        assert node.image.config_of(kind, name) == dict([*stays, *pairs])


def test_only_changes_are_written(node: Node) -> None:
    """But of a broker everything, so that it reads again what a setting points to."""
    replace(node, (TOPIC, "t", [("retention.ms", "5"), ("flush.ms", "7")]), (BROKER, "1", [("background.threads", "11")]))
    before = node.image.highest_offset
    replace(node, (TOPIC, "t", [("retention.ms", "5"), ("flush.ms", "7")]))
    assert node.image.highest_offset == before
    replace(node, (TOPIC, "t", [("retention.ms", "6")]))
    assert node.image.highest_offset == before + 2
    replace(node, (BROKER, "1", [("background.threads", "11")]))
    assert node.image.highest_offset == before + 3


def test_validate_only(node: Node) -> None:
    replace(node, (TOPIC, "t", [("retention.ms", "5")]))
    before = node.image.highest_offset
    asked: list[Asked] = [(TOPIC, "t", [("flush.ms", "7")]), (TOPIC, "u", [("flush.ms", "x")])]
    assert replace(node, *asked, validate_only=True) == [0, ErrorCode.INVALID_CONFIG]
    assert (node.image.highest_offset, node.image.config_of(TOPIC, "t")) == (before, {"retention.ms": "5"})


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ((TOPIC, "t", [("retention.ms", None)]), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "t", [("no.such", None)]), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "t", [("flush.ms", "1"), ("flush.ms", "1")]), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "t", [("no.such", "1")]), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "t", [("", "1")]), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "t", [("flush.ms", "x" * 32_768)]), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "", []), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "a b", []), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((TOPIC, "nope", []), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "nope", [("flush.ms", "x")]), ErrorCode.INVALID_CONFIG),
        ((BROKER, "2", []), ErrorCode.INVALID_REQUEST),
        ((BROKER, "1", [("node.id", "1")]), ErrorCode.INVALID_REQUEST),
        ((GROUP, "", []), ErrorCode.INVALID_REQUEST),
        ((GROUP, "g", [("no.such", "1")]), ErrorCode.INVALID_CONFIG),
        ((CLIENT_METRICS, "", []), ErrorCode.INVALID_REQUEST),
        ((CLIENT_METRICS, "m", [("no.such", "1")]), ErrorCode.INVALID_REQUEST),
        ((8, "1", []), ErrorCode.INVALID_REQUEST),
        ((0, "x", []), ErrorCode.INVALID_REQUEST),
        ((-1, "x", []), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused_resources_leave_the_others_alone(node: Node, asked: Asked, code: ErrorCode) -> None:
    replace(node, (TOPIC, "t", [("retention.ms", "5")]))
    assert replace(node, asked, (TOPIC, "u", [("flush.ms", "7")])) == [code, 0]
    assert node.image.config_of(TOPIC, "t") == {"retention.ms": "5"}
    assert node.image.config_of(TOPIC, "u") == {"flush.ms": "7"}


def test_a_resource_twice(node: Node) -> None:
    asked: list[Asked] = [(TOPIC, "t", [("flush.ms", "1")]), (TOPIC, "u", [("flush.ms", "7")]), (TOPIC, "t", [])]
    assert replace(node, *asked) == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert node.image.config_of(TOPIC, "t") == {}


def test_nothing_asked_for(node: Node) -> None:
    assert replace(node) == []


def test_more_than_one_request_may_change(node: Node) -> None:
    pairs: list[tuple[str, str | None]] = [(f"plugin.{n}", "x") for n in range(10_001)]
    assert replace(node, (BROKER, "1", pairs)) == [ErrorCode.POLICY_VIOLATION]
    assert replace(node, (BROKER, "1", pairs[1:])) == [0]
