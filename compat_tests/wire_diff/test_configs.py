"""DescribeConfigs and IncrementalAlterConfigs (docs/kafka-behaviour.md)."""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.messages import describe_configs, incremental_alter_configs

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = incremental_alter_configs.AlterableConfig


def describe(
    wire: Wire, kind: int, name: str, keys: list[str] | None = None, version: int = 4, synonyms: bool = True, docs: bool = False
) -> Any:
    resource = describe_configs.DescribeConfigsResource(kind, name, keys)
    return wire.call(describe_configs.DescribeConfigsRequest([resource], synonyms, docs), version)


def alter(
    wire: Wire,
    kind: int,
    name: str,
    *changes: incremental_alter_configs.AlterableConfig,
    version: int = 1,
    validate_only: bool = False,
) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, list(changes))
    return wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource], validate_only), version)


def value(wire: Wire, topic: str, key: str) -> Any:
    """The value and its source."""
    found = describe(wire, TOPIC, topic, [key]).results[0].configs[0]
    return found.value, found.config_source


def wait_for_value(wire: Wire, topic: str, key: str, wanted: str) -> None:
    wait_for(lambda: value(wire, topic, key)[0] == wanted, f"{key} is {wanted}")


@pytest.mark.parametrize("version", range(1, 5))
def test_describe_a_topic(wires: dict[str, Wire], version: int) -> None:
    """All 37 settings: value, type, source, synonyms, whether read-only or sensitive."""

    def scenario(wire: Wire) -> Any:
        topic = wire.create("t", retention_ms="5000", cleanup_policy="compact")
        return [
            describe(wire, TOPIC, topic, version=version, synonyms=s, docs=d)
            for s, d in ((True, False), (False, False), (True, True))
        ]

    check(wires, "DCF1", scenario)


@same_answer("DCF2")
def test_describe_single_keys(wire: Wire) -> Any:
    topic = wire.create("t")
    return [
        describe(wire, TOPIC, topic, keys) for keys in (["retention.ms", "nosuch"], [], ["retention.ms", "retention.ms"], [""])
    ]


BROKER_KEYS = [
    "broker.id", "num.partitions", "auto.create.topics.enable", "offsets.topic.num.partitions",
    "group.initial.rebalance.delay.ms", "group.min.session.timeout.ms", "group.max.session.timeout.ms", "log.retention.ms",
    "log.retention.hours", "log.segment.bytes", "message.max.bytes", "log.cleanup.policy", "compression.type",
    "min.insync.replicas", "socket.request.max.bytes", "default.replication.factor", "delete.topic.enable",
    "log.message.timestamp.type",
]  # fmt: skip


@same_answer("DCF5")
def test_describe_the_broker(wire: Wire) -> Any:
    return [describe(wire, BROKER, "1", [key]).results for key in BROKER_KEYS]


@same_answer("DCF5own")
def test_what_kafka_has_no_default_for(wire: Wire) -> Any:
    results = describe(wire, BROKER, "1", ["node.id", "process.roles"]).results
    return [[synonym.source for synonym in config.synonyms] for config in sorted(results[0].configs, key=lambda each: each.name)]


@same_answer("DCF3")
def test_describe_what_is_not_there(wire: Wire) -> Any:
    asked = [(TOPIC, wire.name("nope")), (TOPIC, "a b"), (TOPIC, ""), (BROKER, "9"), (BROKER, "x"), (3, "t"), (0, ""), (99, "x")]
    return [describe(wire, kind, name) for kind, name in asked]


@same_answer("IAC1")
def test_set_and_delete(wire: Wire) -> Any:
    topic = wire.create("t")
    answers = [alter(wire, TOPIC, topic, Change("retention.ms", SET, "123456"))]
    wait_for(lambda: value(wire, topic, "retention.ms") == ("123456", 1), "set")
    seen = [describe(wire, TOPIC, topic, ["retention.ms"])]
    answers += [
        alter(wire, TOPIC, topic, Change("retention.ms", DELETE, None)),
        alter(wire, TOPIC, topic, Change("flush.ms", DELETE, None)),
    ]
    wait_for(lambda: value(wire, topic, "retention.ms")[1] == 5, "deleted")
    return answers, seen, describe(wire, TOPIC, topic, ["retention.ms"])


@same_answer("IAC4")
def test_append_and_subtract(wire: Wire) -> Any:
    topic, seen, answers = wire.create("t"), [], []
    steps = [
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (APPEND, "compact", "compact"),
        (SUBTRACT, "nope", "compact"),
    ]
    for operation, text, result in steps:
        answers.append(alter(wire, TOPIC, topic, Change("cleanup.policy", operation, text)))
        wait_for_value(wire, topic, "cleanup.policy", result)
        seen.append(describe(wire, TOPIC, topic, ["cleanup.policy"]))
    return answers, seen


REFUSED = {
    "IAC3 append to a number": Change("retention.ms", APPEND, "1"),
    "subtract from a number": Change("retention.ms", SUBTRACT, "1"),
    "IAC7 unknown key": Change("no.such", SET, "1"),
    "delete an unknown key": Change("no.such", DELETE, None),
    "IAC9 null value": Change("retention.ms", SET, None),
    "append null": Change("cleanup.policy", APPEND, None),
    "IAC12 not a number": Change("retention.ms", SET, "abc"),
    "below the bound": Change("segment.bytes", SET, "1"),
    "unknown policy": Change("cleanup.policy", APPEND, "bogus"),
    "empty key": Change("", SET, "x"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
def test_refused_changes(wires: dict[str, Wire], case: str, validate_only: bool) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        return [alter(wire, TOPIC, topic, REFUSED[case], version=v, validate_only=validate_only) for v in (0, 1)]

    check(wires, case.split(" ", maxsplit=1)[0] if case.startswith("IAC") else case, scenario)


@same_answer("IAC2")
def test_one_bad_change_spoils_its_resource_only(wire: Wire) -> Any:
    topic, other = wire.create("t"), wire.create("u")
    resources = [
        incremental_alter_configs.AlterConfigsResource(TOPIC, topic, [Change("flush.ms", SET, "7"), Change("no.such", SET, "1")]),
        incremental_alter_configs.AlterConfigsResource(TOPIC, other, [Change("flush.ms", SET, "7")]),
    ]
    answer = wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest(resources), 1)
    wait_for(lambda: value(wire, other, "flush.ms") == ("7", 1), "the good one")
    same_key = alter(wire, TOPIC, topic, Change("flush.ms", SET, "7"), Change("flush.ms", SET, "8"))
    twice = wire.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resources[1], resources[1]]), 1)
    return answer, same_key, twice, value(wire, topic, "flush.ms")


@same_answer("IAC10")
def test_resources_that_are_not_there(wire: Wire) -> Any:
    change = Change("retention.ms", SET, "1")
    return [alter(wire, *where, change) for where in ((TOPIC, wire.name("nope")), (TOPIC, ""), (3, "x"), (99, "x"), (0, ""))]


@same_answer("IAC11")
def test_read_only_broker_settings(wire: Wire) -> Any:
    changes = [("log.dirs", "/x"), ("node.id", "7"), ("no.such.broker.setting", "1"), ("log.retention.ms", "abc")]
    return [alter(wire, BROKER, "1", Change(key, SET, text), validate_only=True) for key, text in changes]


@same_answer("settings that are only validated")
def test_validate_only_changes_nothing(wire: Wire) -> Any:
    topic = wire.create("t")
    return alter(wire, TOPIC, topic, Change("retention.ms", SET, "5"), validate_only=True), value(wire, topic, "retention.ms")
