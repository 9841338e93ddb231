"""AlterConfigs, and which settings of a broker, a group and a subscription may change how (docs/kafka-behaviour.md, row AC1).

Brokers are asked with `validate_only`, since all tests share them; one test changes them for real, by settings nobody minds. For
all brokers, a request of AlterConfigs has to name min.insync.replicas: Kafka writes it for a new cluster, and does not let it go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.same import check, same_answer
from compat_tests.wire_diff.test_configs import BROKER, CLIENT_METRICS, GROUP, LOGGER, SET, TOPIC, Change, alter, describe
from ottla.log.config import TOPIC_SETTINGS
from ottla.log.config_def import Setting
from ottla.server.settings.broker_settings import BROKER_SETTINGS, FIXED_HERE
from ottla.server.settings.group_settings import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from ottla.wire.messages import alter_configs

VERSIONS = range(3)
Pairs = list[tuple[str, str | None]]
Asked = tuple[int, str, Pairs]
CLUSTER_WIDE = "min.insync.replicas"
OF_ALL = {CLUSTER_WIDE: "1"}


def replace(wire: Wire, *resources: Asked, version: int = 2, validate_only: bool = False, timeout_s: float = 15) -> Any:
    """With a setting twice where it stands twice."""
    asked = [
        alter_configs.AlterConfigsResource(kind, name, [alter_configs.AlterableConfig(*pair) for pair in pairs])
        for kind, name, pairs in resources
    ]
    return wire.call(alter_configs.AlterConfigsRequest(asked, validate_only), version, timeout_s)


def own(wire: Wire, kind: int, name: str) -> dict[str, str | None]:
    """Returns what was set for the resource itself."""
    sources = {TOPIC: 1, BROKER: 2, GROUP: 8, CLIENT_METRICS: 7}
    found = describe(wire, kind, name).results[0].configs
    return {config.name: config.value for config in found if config.config_source == sources[kind]}


@pytest.mark.parametrize("version", VERSIONS)
def test_all_settings_at_once(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t", cleanup_policy="compact", retention_ms="5000")
        seen = []
        steps: list[tuple[Pairs, bool]] = [
            ([("flush.ms", "7"), ("retention.ms", "5000")], True),
            ([("flush.ms", "7"), ("retention.ms", "5000")], False),
            ([("flush.ms", "7"), ("retention.ms", "6000")], False),
            ([], False),
        ]
        for pairs, validate_only in steps:
            answer = replace(wire, (TOPIC, topic, pairs), version=version, validate_only=validate_only)
            if not validate_only:
                wait_for(lambda: own(wire, TOPIC, topic) == dict(pairs), "the settings are seen")  # noqa: B023 - called within the round
            seen.append((answer, own(wire, TOPIC, topic)))
        return seen

    check(wires, "AC1", scenario)


@pytest.mark.parametrize("kind", [GROUP, CLIENT_METRICS])
def test_groups_and_subscriptions(wires: dict[str, Wire], kind: int) -> None:
    first, second = (
        ("consumer.session.timeout.ms", "46000"), ("consumer.heartbeat.interval.ms", "6000")
    ) if kind == GROUP else (("interval.ms", "1000"), ("metrics", "a.,b."))  # fmt: skip

    def scenario(wire: Wire) -> Any:
        name, seen = wire.name("x"), []
        for pairs in ([first], [first, second], [second], []):
            answer = replace(wire, (kind, name, list(pairs)))
            wait_for(lambda: own(wire, kind, name) == dict(pairs), "the settings are seen")  # noqa: B023 - called within the round
            seen.append(answer)
        return seen

    check(wires, "AC2", scenario)


@same_answer("AC3")
def test_a_broker_s_own(wire: Wire) -> Any:
    seen = []
    for pairs in ([("background.threads", "11"), ("no.such", "x")], [("background.threads", "11")], []):
        answer = replace(wire, (BROKER, "1", list(pairs)))
        wait_for(lambda: own(wire, BROKER, "1").keys() == dict(pairs).keys(), "the settings are seen")  # noqa: B023 - as above
        seen.append((answer, own(wire, BROKER, "1")))
    return seen


REFUSED: dict[str, tuple[str, Pairs]] = {
    "null value": ("t", [("retention.ms", None)]),
    "a null among others": ("t", [("flush.ms", "1"), ("no.such", None)]),
    "a setting twice": ("t", [("retention.ms", "1"), ("retention.ms", "1")]),
    "unknown setting": ("t", [("no.such", "1")]),
    "empty name": ("t", [("", "1")]),
    "not a number": ("t", [("retention.ms", "abc")]),
    "empty value": ("t", [("retention.ms", "")]),
    "out of bounds": ("t", [("segment.bytes", "1")]),
    "too large": ("t", [("segment.bytes", "2147483648")]),
    "against each other": ("t", [("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "4")]),
    "no such topic": ("nope", [("retention.ms", "1")]),
    "no such topic, bad value": ("nope", [("retention.ms", "x")]),
    "a broker's setting": ("t", [("log.retention.ms", "1")]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_topics(wires: dict[str, Wire], case: str) -> None:
    def scenario(wire: Wire) -> Any:
        wire.create("t", flush_ms="5")
        stem, pairs = REFUSED[case]
        asked = (TOPIC, wire.name(stem), pairs)
        answers = [replace(wire, asked, version=v, validate_only=only) for v in VERSIONS for only in (False, True)]
        return answers, own(wire, TOPIC, wire.name("t"))

    check(wires, "AC4", scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_resources_of_all_kinds(wires: dict[str, Wire], version: int) -> None:
    """Those that are none, and a good one between them."""

    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        asked: list[Asked] = [
            (TOPIC, "", []), (TOPIC, "a b", [("flush.ms", "1")]), (TOPIC, wire.name("nope"), []),
            (GROUP, "", []), (GROUP, "g", [("no.such", "1")]), (CLIENT_METRICS, "", []), (CLIENT_METRICS, "m", [("x", "1")]),
            (LOGGER, "1", []), (LOGGER, "1x", [("root", None)]), (TOPIC, topic, [("flush.ms", "7")]),
            (BROKER, "9", []), (BROKER, "x", []), (BROKER, "-1", []), (BROKER, " 1", []), (BROKER, "99999999999", []),
            *((kind, f"of {kind}", []) for kind in (0, 1, 3, 64, 127, -1)),
        ]  # fmt: skip
        answer = replace(wire, *asked, version=version)
        wait_for(lambda: own(wire, TOPIC, topic) == {"flush.ms": "7"}, "the good one")
        return answer, replace(wire, version=version)

    check(wires, "AC5", scenario)


@same_answer("AC6")
def test_a_resource_twice(wire: Wire) -> Any:
    """Kafka's answer has the resource twice, and its own count of errors fails on that."""
    topic = wire.create("t")
    answer = replace(wire, (TOPIC, topic, []), (TOPIC, topic, [("flush.ms", "1")]), timeout_s=wire.patience_s("kafka"))
    return answer if isinstance(answer, str) else {each.error_code for each in answer.responses}


@same_answer("AClong")
def test_an_unknown_setting_of_the_longest_name(wire: Wire) -> Any:
    return replace(wire, (TOPIC, wire.create("t"), [("x" * 32_767, "1")])).responses[0].error_code


@pytest.mark.parametrize("name", ["01", "+1"])
@pytest.mark.parametrize("old", [False, True])
def test_other_spellings_of_the_broker_s_number(wires: dict[str, Wire], name: str, old: bool) -> None:
    key, text = "background.threads", "11"

    def scenario(wire: Wire) -> Any:
        if old:
            return replace(wire, (BROKER, name, [(key, text)]), validate_only=True).responses[0].error_code
        return alter(wire, BROKER, name, Change(key, SET, text), validate_only=True).responses[0].error_code

    check(wires, "ACspelling", scenario)


def codes(wire: Wire, kind: int, name: str, settings: Iterable[str], texts: Iterable[str]) -> Any:
    """By both APIs: the code for each setting with each text, by itself."""
    texts, also = list(texts), list(OF_ALL.items()) if (kind, name) == (BROKER, "") else []
    return {
        f"{key}={text}": [
            alter(wire, kind, name, Change(key, SET, text), validate_only=True).responses[0].error_code,
            replace(wire, (kind, name, [*also, (key, text)]), validate_only=True).responses[0].error_code,
        ]
        for key in settings
        for text in texts
    }


TEXTS = (
    "",
    "0",
    "1",
    "-1",
    "-2",
    "3",
    "17",
    "100",
    "2147483647",
    "2147483648",
    "0.5",
    " 7 ",
    "true",
    "abc",
    "a,b",
    "delete",
    "delete,delete",
)
DYNAMIC = [name for name, setting in BROKER_SETTINGS.items() if setting.dynamic and name not in (*FIXED_HERE, CLUSTER_WIDE)]
FIXED = [name for name, setting in BROKER_SETTINGS.items() if not setting.dynamic]
OF_LISTENERS = [
    f"listener.name.{listener}{name}"
    for listener in ("plaintext.", "PLAINTEXT.", "controller.", "nobody.", "")
    for name in (
        "max.connections", "max.connection.creation.rate", "num.network.threads", "ssl.keystore.location", "ssl.cipher.suites",
        "plain.sasl.jaas.config", "sasl.enabled.mechanisms", "log.retention.ms", "max.connections.per.ip", "no.such",
    )
]  # fmt: skip


@pytest.mark.parametrize("name", ["1", ""])
@pytest.mark.parametrize("part", range(4))
def test_every_setting_of_a_broker(wires: dict[str, Wire], name: str, part: int) -> None:
    check(wires, "settings of a broker, one by one", lambda wire: codes(wire, BROKER, name, DYNAMIC[part::4], TEXTS))


@pytest.mark.parametrize("name", ["1", ""])
def test_settings_that_do_not_change(wires: dict[str, Wire], name: str) -> None:
    check(wires, "settings that do not change", lambda wire: codes(wire, BROKER, name, FIXED, ["1"]))


@pytest.mark.parametrize("name", ["1", ""])
def test_settings_of_listeners(wires: dict[str, Wire], name: str) -> None:
    check(wires, "settings of listeners", lambda wire: codes(wire, BROKER, name, OF_LISTENERS, ("", "0", "1", "5", "17", "abc")))


TABLES: dict[str, tuple[int, Mapping[str, Setting], tuple[str, ...]]] = {
    "group": (GROUP, GROUP_SETTINGS, (*TEXTS, "5000", "15000", "15001", "45000", "60001", "latest", "sticky", "by_duration:P1D")),
    "subscription": (
        CLIENT_METRICS,
        CLIENT_METRICS_SETTINGS,
        (*TEXTS, "99", "3600000", "3600001", "*", "client_id=a", "client_id=[", "client_id=a=b", "client_id=a=", "x=y",
         "client_id=", "=a", "client_id=a,client_id=b", "client_id=\\p{Alpha}+", "client_id=(a"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_every_setting_of(wires: dict[str, Wire], kind: str) -> None:
    number, table, texts = TABLES[kind]
    check(wires, "settings of a group or a subscription", lambda wire: codes(wire, number, wire.name("x"), table, texts))


def test_every_setting_of_a_topic(wires: dict[str, Wire]) -> None:
    check(wires, "settings of a topic, one by one", lambda wire: codes(wire, TOPIC, wire.create("t"), TOPIC_SETTINGS, TEXTS))


TOGETHER: list[dict[str, str]] = [
    {"log.local.retention.ms": "100", "log.remote.copy.lag.ms": "101"},
    {"log.local.retention.ms": "100", "log.remote.copy.lag.ms": "100"},
    {"log.retention.ms": "-1", "log.remote.copy.lag.ms": "9223372036854775807"},
    {"log.retention.ms": "-1", "log.local.retention.ms": "9223372036854775807"},
    {"log.retention.bytes": "100", "log.local.retention.bytes": "101"},
    {"log.retention.bytes": "100", "log.local.retention.bytes": "-1"},
    {"log.retention.bytes": "100", "log.remote.copy.lag.bytes": "101"},
    {"log.retention.bytes": "100", "log.local.retention.bytes": "50", "log.remote.copy.lag.bytes": "51"},
    {"log.retention.bytes": "100", "log.local.retention.bytes": "50", "log.remote.copy.lag.bytes": "-1"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:9"},
    {"num.io.threads": "16", "background.threads": "21"},
    {"num.io.threads": "16", "background.threads": "20"},
    {"num.io.threads": "4", "num.network.threads": "1"},
    {"num.io.threads": "3"},
    {"no.such": "1", "node.id": "1"},
    {"no.such": "1", "listener.name.x": "1", "nor.this": ""},
]


@pytest.mark.parametrize("name", ["1", ""])
def test_settings_against_each_other(wires: dict[str, Wire], name: str) -> None:
    def scenario(wire: Wire) -> Any:
        also = {} if name else OF_ALL
        return [
            (
                alter(wire, BROKER, name, *(Change(k, SET, v) for k, v in texts.items()), validate_only=True),
                replace(wire, (BROKER, name, [*(also | texts).items()]), validate_only=True),
            )
            for texts in TOGETHER
        ]

    check(wires, "settings against each other", scenario)


@pytest.mark.parametrize("name", ["1", ""])
@pytest.mark.parametrize("key", ["sasl.enabled.mechanisms", "log.cleanup.policy", "node.id", "log.retention.ms", "no.such"])
def test_operations_on_a_broker(wires: dict[str, Wire], name: str, key: str) -> None:
    def scenario(wire: Wire) -> Any:
        return [
            alter(wire, BROKER, name, Change(key, operation, text), validate_only=True)
            for operation in (1, 2, 3)
            for text in ("delete", "x", "", ",", "x,", "compact,compact")
        ]

    check(wires, "operations on settings of a broker", scenario)


@pytest.mark.parametrize(
    ("kind", "key"), [(GROUP, "streams.rack.aware.assignment.tags"), (CLIENT_METRICS, "match"), (CLIENT_METRICS, "metrics")]
)
def test_lists_of_others_take_no_operations(wires: dict[str, Wire], kind: int, key: str) -> None:
    def scenario(wire: Wire) -> Any:
        return [
            alter(wire, kind, name, Change(key, operation, "client_id=a"), validate_only=True)
            for operation in (2, 3)
            for name in (wire.name("x"), "")
        ]

    check(wires, "operations on lists of others", scenario)


@same_answer("two faults of loggers")
def test_two_faults_of_loggers(wire: Wire) -> Any:
    return alter(wire, LOGGER, "1", Change("no.such", SET, "INFO"), Change("root", SET, None), validate_only=True)


@same_answer("ACelr")
def test_min_insync_replicas_is_the_clusters(wire: Wire) -> Any:
    return [
        alter(wire, BROKER, name, Change(CLUSTER_WIDE, operation, text), validate_only=True)
        for name in ("1", "")
        for operation, text in ((SET, "1"), (SET, "2"), (SET, "0"), (SET, "x"), (1, None))
    ]
