"""IncrementalAlterConfigs: rows IAC of the compatibility table, for each kind of resource."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.metadata.configs import APPEND, DELETE, SET, SUBTRACT
from ottla.server.metadata.eligible import MIN_ISR
from ottla.server.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from tests.fakes import CALLER
from tests.server.metadata.support import Node

Change = tuple[str, int, str | None]


@pytest.fixture
def node() -> Node:
    made = Node()
    controller = made.start()
    asyncio.run(controller.create_topics(CreateTopicsRequest([CreatableTopic("ct", 1, 1)]), CALLER))
    return made


def resource(kind: int, name: str, *changes: Change) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(*change) for change in changes])


def alter(node: Node, *resources: AlterConfigsResource, validate_only: bool = False) -> list[AlterConfigsResourceResponse]:
    request = IncrementalAlterConfigsRequest(list(resources), validate_only)
    return asyncio.run(node.controller.incremental_alter_configs(request, CALLER)).responses


def topic(node: Node, *changes: Change, validate_only: bool = False) -> tuple[int, str | None]:
    (answer,) = alter(node, resource(TOPIC, "ct", *changes), validate_only=validate_only)
    assert (answer.resource_type, answer.resource_name) == (TOPIC, "ct")
    return answer.error_code, answer.error_message


def test_iac1_set_and_delete(node: Node) -> None:
    assert topic(node, ("retention.ms", SET, "123456"), ("segment.ms", SET, "7")) == (0, None)
    assert node.image.config_of(TOPIC, "ct") == {"retention.ms": "123456", "segment.ms": "7"}
    assert topic(node, ("retention.ms", DELETE, None)) == (0, None)
    assert node.image.config_of(TOPIC, "ct") == {"segment.ms": "7"}


def test_iac4_iac5_lists_start_from_the_default(node: Node) -> None:
    topic(node, ("cleanup.policy", APPEND, "compact"))
    assert node.image.config_of(TOPIC, "ct") == {"cleanup.policy": "delete,compact"}
    topic(node, ("cleanup.policy", APPEND, "compact"))
    assert node.image.config_of(TOPIC, "ct") == {"cleanup.policy": "delete,compact"}
    topic(node, ("cleanup.policy", SUBTRACT, "delete"))
    assert node.image.config_of(TOPIC, "ct") == {"cleanup.policy": "compact"}
    topic(node, ("leader.replication.throttled.replicas", APPEND, "0:1,1:1"))
    assert node.image.config_of(TOPIC, "ct")["leader.replication.throttled.replicas"] == "0:1,1:1"


@pytest.mark.parametrize(("text", "after"), [(",", "delete"), ("compact,,", "delete,compact"), ("delete,", "delete")])
def test_what_is_appended_has_no_empty_end(node: Node, text: str, after: str) -> None:
    assert topic(node, ("cleanup.policy", APPEND, text)) == (0, None)
    assert node.image.config_of(TOPIC, "ct") == {"cleanup.policy": after}


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        pytest.param(("retention.ms", APPEND, "5"), 40, "retention.ms", id="IAC3"),
        pytest.param(("no.such", APPEND, "5"), 40, "no.such", id="append to nothing"),
        pytest.param(("no.such", SET, "5"), 40, "no.such: topics do not have this setting; check the spelling", id="IAC7"),
        pytest.param(("retention.ms", 9, "5"), 42, "9", id="IAC8"),
        pytest.param(("retention.ms", SET, None), 42, "retention.ms", id="IAC9"),
        pytest.param(("cleanup.policy", APPEND, None), 42, "cleanup.policy", id="append null"),
        pytest.param(
            ("retention.ms", SET, "abc"),
            40,
            "retention.ms: 'abc' is not a whole number of 64 bits; write it in digits",
            id="IAC12",
        ),
    ],
)
def test_what_is_refused(node: Node, change: Change, code: int, text: str) -> None:
    before = node.image.highest_offset
    for validate_only in (True, False):
        answer = topic(node, change, validate_only=validate_only)
        assert answer[0] == code
        assert text in (answer[1] or "")
    assert node.image.highest_offset == before


def test_settings_that_contradict_each_other(node: Node) -> None:
    topic(node, ("max.compaction.lag.ms", SET, "10"))
    assert topic(node, ("min.compaction.lag.ms", SET, "11"))[0] == ErrorCode.INVALID_CONFIG
    assert topic(node, ("min.compaction.lag.ms", SET, "11"), ("max.compaction.lag.ms", SET, "12"))[0] == 0


def test_one_bad_change_spoils_its_resource_and_no_other(node: Node) -> None:
    answers = alter(
        node,
        resource(TOPIC, "ct", ("retention.ms", SET, "1"), ("segment.ms", SET, "x")),
        resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
    )
    assert [answer.error_code for answer in answers] == [40, 0]
    assert node.image.config_of(TOPIC, "ct") == {}
    assert node.image.config_of(GROUP, "g") == {"consumer.session.timeout.ms": "50000"}


def test_validation_changes_nothing(node: Node) -> None:
    assert topic(node, ("retention.ms", SET, "5"), validate_only=True) == (0, None)
    assert node.image.config_of(TOPIC, "ct") == {}


def test_what_changes_nothing_is_not_written(node: Node) -> None:
    topic(node, ("retention.ms", SET, "5"))
    before = node.image.highest_offset
    assert topic(node, ("retention.ms", SET, "5"), ("segment.ms", DELETE, None)) == (0, None)
    assert node.image.highest_offset == before


def test_names_and_values_that_old_versions_could_not_show(node: Node) -> None:
    long = ",".join(["0:1"] * 10_000)
    assert topic(node, ("leader.replication.throttled.replicas", SET, long))[0] == ErrorCode.INVALID_CONFIG
    for key, value in (("some.plugin", "x" * 32_768), ("x" * 32_768, "1")):
        (answer,) = alter(node, resource(BROKER, "1", (key, SET, value)))
        assert answer.error_code == ErrorCode.INVALID_CONFIG
    (answer,) = alter(node, resource(BROKER, "1", ("some.plugin", SET, "x" * 32_767)))
    assert answer.error_code == 0


def test_settings_outlive_a_restart(node: Node) -> None:
    topic(node, ("retention.ms", SET, "5"))
    node.kill()
    node.start()
    assert node.image.config_of(TOPIC, "ct") == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (resource(TOPIC, "nope", ("retention.ms", SET, "5")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource(TOPIC, "", ("retention.ms", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "a/b", ("retention.ms", SET, "5")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (resource(BROKER, "2", ("message.max.bytes", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "x", ("message.max.bytes", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "1", ("log.dirs", SET, "/x")), ErrorCode.INVALID_REQUEST),  # IAC11
        (resource(BROKER, "1", ("listeners", SET, "PLAINTEXT://:1")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "", ("message.max.bytes", SET, "x")), ErrorCode.INVALID_REQUEST),
        (resource(GROUP, "", ("consumer.session.timeout.ms", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(GROUP, "g", ("no.such", SET, "5")), ErrorCode.INVALID_CONFIG),
        (resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "x")), ErrorCode.INVALID_CONFIG),
        (resource(CLIENT_METRICS, "m", ("no.such", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(CLIENT_METRICS, "m", ("interval.ms", SET, "99")), ErrorCode.INVALID_REQUEST),
        (resource(CLIENT_METRICS, "m", ("interval.ms", SET, "x")), ErrorCode.INVALID_CONFIG),
        (resource(CLIENT_METRICS, "m", ("match", SET, "client_id=[")), ErrorCode.INVALID_CONFIG),
        (resource(CLIENT_METRICS, "m", ("match", APPEND, "client_id=a")), ErrorCode.INVALID_CONFIG),
        (resource(CLIENT_METRICS, "", ("metrics", SUBTRACT, "a")), ErrorCode.INVALID_CONFIG),
        (resource(GROUP, "g", ("streams.rack.aware.assignment.tags", APPEND, "a")), ErrorCode.INVALID_CONFIG),
        (resource(GROUP, "g", ("streams.rack.aware.assignment.tags", SET, "a, a")), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "1", ("log.cleanup.policy", APPEND, "compact,compact")), ErrorCode.INVALID_REQUEST),
        (resource(8, "1", ("root", SET, "INFO")), ErrorCode.INVALID_REQUEST),  # broker loggers are not the controller's
        (resource(3, "x", ("a", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "ct", ("retention.ms", SET, "5"), ("retention.ms", SET, "6")), ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_are_refused(node: Node, asked: AlterConfigsResource, code: ErrorCode) -> None:
    (answer,) = alter(node, asked)
    assert answer.error_code == code
    assert (TOPIC, "ct") not in node.image.configs


def test_a_resource_named_twice_is_refused_both_times(node: Node) -> None:
    change = ("retention.ms", SET, "5")
    answers = alter(node, resource(TOPIC, "ct", change), resource(TOPIC, "ct", change))
    assert [answer.error_code for answer in answers] == [42, 42]


def test_settings_of_this_broker_of_all_and_of_nobody(node: Node) -> None:
    answers = alter(
        node,
        resource(BROKER, "1", ("log.cleaner.threads", SET, "2")),
        resource(BROKER, "", ("message.max.bytes", SET, "5000"), ("my.plugin.setting", SET, "x")),
        resource(CLIENT_METRICS, "m", ("interval.ms", SET, "5000")),
    )
    assert [answer.error_code for answer in answers] == [0, 0, 0]
    assert node.image.config_of(BROKER, "1") == {"log.cleaner.threads": "2"}
    assert node.image.config_of(BROKER, "") == {MIN_ISR: "1", "message.max.bytes": "5000", "my.plugin.setting": "x"}
    assert node.image.config_of(CLIENT_METRICS, "m") == {"interval.ms": "5000"}


def test_a_brokers_setting_is_written_again_though_nothing_changed(node: Node) -> None:
    for _ in range(2):
        before = node.image.highest_offset
        alter(node, resource(BROKER, "1", ("log.cleaner.threads", SET, "2")))
        assert node.image.highest_offset == before + 1


def test_dynamic_broker_settings_show_in_new_topics(node: Node) -> None:
    alter(
        node, resource(BROKER, "", ("log.retention.ms", SET, "1")), resource(BROKER, "1", ("log.segment.bytes", SET, "2000000"))
    )
    request = CreateTopicsRequest([CreatableTopic("new", 1, 1)])
    (result,) = asyncio.run(node.controller.create_topics(request, CALLER)).topics
    values = {config.name: (config.value, config.config_source) for config in result.configs or ()}
    assert values["retention.ms"] == ("1", 3)
    assert values["segment.bytes"] == ("2000000", 2)
