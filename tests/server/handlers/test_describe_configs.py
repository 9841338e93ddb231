"""DescribeConfigs: what Apache Kafka 4.4.0 answered to the same questions
(docs/kafka-behaviour.md, rows DCF), and each source of a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.log.config import TOPIC_SETTINGS
from ottla.server.handlers.describe_configs import handle as handle_in_turns
from ottla.server.requests.long_answers import JOINED_PARTS
from ottla.server.requests.request import Request
from ottla.server.settings.broker_settings import BROKER_SETTINGS
from ottla.server.settings.sources import Sources
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import decode_whole
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.describe_configs import (
    DECODE_RESPONSE,
    ENCODE_RESPONSE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.internal.config_record import ConfigRecord
from tests.noted import noted
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import Node

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node(
        log_retention_hours="100", log_cleanup_policy="delete, compact", ssl_key_password="secret", ottla_metrics_port="0"
    )
    node.start()
    topic = CreatableTopic("t", 1, 1, configs=[CreatableTopicConfig("segment.ms", " 700000 ")])
    assert call(node, "create_topics", CreateTopicsRequest([topic]), 7).topics[0].error_code == 0
    yield node
    node.stop()


def describe(
    node: Node,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    synonyms: bool = True,
    docs: bool = False,
) -> Any:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], synonyms, docs)
    return call(node, "describe_configs", request, version).results[0]


class CountedText(str):
    """Text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedText.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def handle(body: DescribeConfigsRequest, request: Request) -> DescribeConfigsResponse:
    """Answers within one turn, since the clock stands still."""
    answer = handle_in_turns(body, request)
    assert isinstance(answer, DescribeConfigsResponse)
    return answer


def test_many_keys_cost_no_comparison_of_each_setting_with_each(node: Node) -> None:
    keys: list[str] = [CountedText(f"unknown.{number}") for number in range(1000)]
    CountedText.compared = 0
    request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1", [*keys, "node.id"])])
    found = handle(request, node.context(4)).results[0]
    assert [entry.name for entry in found.configs] == ["node.id"]
    assert CountedText.compared < 10 * len(keys)


def test_a_resource_that_is_named_again_is_described_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also under another name for the same broker, and also where some of its settings are asked for and then others."""
    described: dict[str, list[Sources]] = {}
    for name in ("of_broker", "of_all_brokers", "of_topic", "of_group", "of_client_metrics"):
        monkeypatch.setattr(Sources, name, noted(described.setdefault(name, []), getattr(Sources, name)))
    asked = [
        *((BROKER, name, keys) for name in ("1", "+1", "001") for keys in (None, ["node.id"], ["port", "node.id"], ["nosuch"])),
        *((BROKER, "", None), (GROUP, "a", None), (GROUP, "b", None), (CLIENT_METRICS, "a", None), (CLIENT_METRICS, "b", None)),
        *((TOPIC, "t", None), (TOPIC, "t", ["segment.ms"]), (TOPIC, "nope", None)),
    ] * 20
    request = DescribeConfigsRequest([DescribeConfigsResource(*each) for each in asked], include_synonyms=True)
    answer = handle(request, node.context(4))
    assert [len(times) for times in described.values()] == [1] * 5
    assert len(answer.results) == len(asked)
    alone = [handle(DescribeConfigsRequest([each], True), node.context(4)).results[0] for each in request.resources[:20]]
    assert answer.results == alone * 20
    assert sum(len(times) for times in described.values()) == 5 + 19
    assert len({id(each.configs) for each in answer.results if each.configs}) == 8


def test_what_one_broker_is_many_times_is_encoded_once(node: Node) -> None:
    """2,000 times in 18 kB took ten seconds and 1.6 GB."""
    resource = DescribeConfigsResource(BROKER, "1")
    context = node.context(4)
    encode = context.broker.long_answers.around(ENCODE_RESPONSE[4], "DescribeConfigs")
    parts: list[Any] = []
    encode(handle(DescribeConfigsRequest([resource] * 2000), context), parts)
    once: list[Any] = []
    ENCODE_RESPONSE[4](handle(DescribeConfigsRequest([resource]), node.context(4)), once)
    assert len(parts) < 2 * JOINED_PARTS
    assert len({id(part) for part in parts if len(part) > 5000}) < 30
    answer = decode_whole(DECODE_RESPONSE[4], b"".join(parts))
    assert answer.results == decode_whole(DECODE_RESPONSE[4], b"".join(once)).results * 2000


def alter(node: Node, kind: int, name: str, **changes: str) -> None:
    configs = [AlterableConfig(key.replace("_", "."), 0, value) for key, value in changes.items()]
    answer = call(
        node, "incremental_alter_configs", IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, configs)]), 1
    )
    assert answer.responses[0].error_code == 0, answer


def one(node: Node, kind: int, name: str, key: str, **options: Any) -> Any:
    configs = describe(node, kind, name, [key], **options).configs
    assert [config.name for config in configs] == [key]
    return configs[0]


def candidates(config: Any) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]


def test_a_topic_has_all_its_settings(node: Node) -> None:
    result = describe(node, TOPIC, "t")
    assert (result.error_code, result.error_message, result.resource_type, result.resource_name) == (0, "", TOPIC, "t")
    names = [config.name for config in result.configs]
    assert len(names) == 37
    assert sorted(names) == [name for name in sorted(TOPIC_SETTINGS) if not TOPIC_SETTINGS[name].internal]
    assert not any(config.read_only or config.is_sensitive for config in result.configs)


def test_unknown_keys_are_left_out_and_no_keys_are_all(node: Node) -> None:
    assert [config.name for config in describe(node, TOPIC, "t", ["retention.ms", "nosuch", "retention.ms"]).configs] == [
        "retention.ms"
    ]
    assert len(describe(node, TOPIC, "t", []).configs) == 37


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nosuch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name!", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (BROKER, "1" * 5_000, ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_errors(node: Node, kind: int, name: str, code: ErrorCode) -> None:
    result = describe(node, kind, name)
    assert (result.error_code, result.resource_type, result.resource_name, result.configs) == (code, kind, name, [])
    assert (result.error_message == "") == (code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("kind", [BROKER, TOPIC, LOGGER])
def test_a_name_that_fills_the_request_fits_the_answer(node: Node, kind: int) -> None:
    result = describe(node, kind, "\u20ac" * 10_922)
    assert len(str(result.error_message).encode()) < 2**15


def test_an_impossible_type_spoils_the_whole_request(node: Node) -> None:
    resources = [DescribeConfigsResource(TOPIC, "t", None), DescribeConfigsResource(3, "x", None)]
    results = call(node, "describe_configs", DescribeConfigsRequest(resources), 4).results
    assert [(result.error_code, result.resource_name) for result in results] == [(42, "t"), (42, "x")]


def test_a_topic_s_own_value_comes_first(node: Node) -> None:
    config = one(node, TOPIC, "t", "segment.ms")
    assert (config.value, config.config_source, config.config_type) == ("700000", 1, 5)
    assert candidates(config) == [("segment.ms", "700000", 1)]


def test_resources_of_one_request_keep_to_themselves(node: Node) -> None:
    topics = [CreatableTopic(name, 1, 1) for name in ("u", "v")]
    assert all(not topic.error_code for topic in call(node, "create_topics", CreateTopicsRequest(topics), 7).topics)
    alter(node, TOPIC, "u", segment_ms="800000")
    resources = [DescribeConfigsResource(TOPIC, name, None) for name in ("t", "u", "v")]
    results = call(node, "describe_configs", DescribeConfigsRequest(resources, True, True), 4).results
    assert [result.configs for result in results] == [describe(node, TOPIC, name, docs=True).configs for name in ("t", "u", "v")]
    values = [next(config.value for config in result.configs if config.name == "segment.ms") for result in results]
    assert values == ["700000", "800000", "604800000"]


def test_what_does_not_parse_is_shown_and_does_not_count(node: Node) -> None:
    """An older Kafka took smaller segments."""
    node.image.apply(ConfigRecord(TOPIC, "t", "segment.bytes", "14"))
    config = one(node, TOPIC, "t", "segment.bytes")
    assert (config.value, config.config_source) == ("1073741824", 1)
    assert candidates(config) == [("segment.bytes", "14", 1), ("log.segment.bytes", "1073741824", 5)]


def test_the_broker_s_start_is_behind_it(node: Node) -> None:
    config = one(node, TOPIC, "t", "cleanup.policy")
    assert (config.value, config.config_source) == ("delete,compact", 4)
    assert candidates(config) == [("log.cleanup.policy", "delete, compact", 4), ("log.cleanup.policy", "delete", 5)]


def test_a_default_in_another_unit_is_not_shown(node: Node) -> None:
    """Kafka's habit: only log.retention.hours is set, and the asked name is log.retention.ms."""
    config = one(node, TOPIC, "t", "retention.ms")
    assert (config.value, config.config_source, candidates(config)) == ("360000000", 5, [])


def test_dynamic_settings_are_the_strongest_of_the_broker_s(node: Node) -> None:
    alter(node, BROKER, "", log_retention_ms="5000000")
    alter(node, BROKER, "1", log_retention_ms="6000000")
    expected = [
        ("log.retention.ms", "6000000", 2),
        ("log.retention.ms", "5000000", 3),
        ("log.retention.hours", "100", 4),
        ("log.retention.hours", "168", 5),
    ]
    of_topic, of_broker = one(node, TOPIC, "t", "retention.ms"), one(node, BROKER, "1", "log.retention.ms")
    for config in (of_topic, of_broker):
        assert (config.value, config.config_source, candidates(config)) == ("6000000", 2, expected)


def test_a_broker_has_all_but_the_internal_ones(node: Node) -> None:
    result = describe(node, BROKER, "1")
    names = {config.name for config in result.configs}
    dynamic_only = {
        name for name in BROKER_SETTINGS if name.endswith("throttled.rate") or name.startswith("replica.alter.log.dirs.io")
    }
    assert names == {name for name, setting in BROKER_SETTINGS.items() if not setting.internal} - dynamic_only
    config = next(config for config in result.configs if config.name == "log.dirs")
    assert (config.read_only, config.config_source, config.config_type) == (True, 4, 7)


@pytest.mark.parametrize("name", ["1", "+1", "01", "0" * 50 + "1"])
def test_a_broker_s_number_as_java_reads_it(node: Node, name: str) -> None:
    assert one(node, BROKER, name, "log.retention.hours").value == "100"


def test_passwords_are_hidden_everywhere(node: Node) -> None:
    config = one(node, BROKER, "1", "ssl.key.password")
    assert (config.value, config.is_sensitive, candidates(config)) == (None, True, [("ssl.key.password", None, 4)])


def test_all_brokers_have_what_was_set_for_all(node: Node) -> None:
    assert [config.name for config in describe(node, BROKER, "").configs] == ["min.insync.replicas"]
    alter(node, BROKER, "", log_cleaner_threads="2", some_plug_in_s="secret")
    alter(node, BROKER, "1", log_segment_bytes="2000000")
    configs = [config for config in describe(node, BROKER, "").configs if config.name != "min.insync.replicas"]
    assert [(config.name, config.value, config.config_source, config.read_only) for config in configs] == [
        ("log.cleaner.threads", "2", 3, False),
        ("some.plug.in.s", None, 3, True),
    ]
    assert candidates(configs[0]) == [("log.cleaner.threads", "2", 3)]


def test_node_id_is_broker_id(node: Node) -> None:
    assert candidates(one(node, BROKER, "1", "broker.id")) == [("broker.id", "1", 4), ("broker.id", "-1", 5)]


def test_a_listener_s_own_setting(node: Node) -> None:
    name = "listener.name.plaintext.max.connections"
    alter(node, BROKER, "", **{name: "20"})
    config = one(node, BROKER, "1", name)
    assert (config.value, config.config_source, config.read_only, config.config_type) == ("20", 3, True, 3)
    assert candidates(config) == [(name, "20", 3), ("max.connections", "2147483647", 5)]


def test_groups(node: Node) -> None:
    result = describe(node, GROUP, "g")
    assert len(result.configs) == 21
    own_default = one(node, GROUP, "g", "share.auto.offset.reset")
    assert (own_default.value, candidates(own_default)) == ("latest", [("share.auto.offset.reset", "latest", 5)])
    assert one(node, GROUP, "g", "streams.assignor.name").value == "sticky"
    alter(node, GROUP, "g", consumer_session_timeout_ms="50000")
    config = one(node, GROUP, "g", "consumer.session.timeout.ms")
    assert (config.value, config.config_source) == ("50000", 8)
    expected = [("consumer.session.timeout.ms", "50000", 8), ("group.consumer.session.timeout.ms", "45000", 5)]
    assert candidates(config) == expected


def test_a_group_s_own_value_has_the_default_behind_it(node: Node) -> None:
    alter(node, GROUP, "g", share_isolation_level="read_committed")
    expected = [("share.isolation.level", "read_committed", 8), ("share.isolation.level", "read_uncommitted", 5)]
    assert candidates(one(node, GROUP, "g", "share.isolation.level")) == expected


def test_internal_settings_are_shown_where_somebody_wrote_them_and_as_they_were_written(node: Node) -> None:
    name = "group.share.assignor.offload.enable"
    assert describe(node, BROKER, "1", [name]).configs == []
    alter(node, BROKER, "", **{name: "FALSE"})
    alter(node, GROUP, "g", share_assignor_offload_enable="TRUE")
    assert (one(node, BROKER, "1", name).value, one(node, BROKER, "", name).value) == ("FALSE", "FALSE")
    assert one(node, GROUP, "other", "share.assignor.offload.enable").value == "false"
    assert one(node, GROUP, "g", "share.assignor.offload.enable").value == "TRUE"


def test_a_quota_is_shown_as_it_was_written_and_without_a_text(node: Node) -> None:
    alter(node, BROKER, "1", leader_replication_throttled_rate="+5")
    config = one(node, BROKER, "1", "leader.replication.throttled.rate", docs=True)
    assert (config.value, config.config_source, config.read_only, config.documentation) == ("+5", 2, False, None)


def test_what_is_set_while_the_broker_runs_puts_the_same_in_other_units_back(node: Node) -> None:
    alter(node, BROKER, "", log_retention_ms="5000000")
    config = one(node, BROKER, "1", "log.retention.hours")
    assert (config.value, config.config_source) == ("168", 4)
    assert candidates(config) == [("log.retention.hours", "100", 4), ("log.retention.hours", "168", 5)]


def test_client_metrics(node: Node) -> None:
    alter(node, CLIENT_METRICS, "m", interval_ms="1000")
    configs = describe(node, CLIENT_METRICS, "m").configs
    assert [(config.name, config.value, config.config_source, candidates(config)) for config in configs] == [
        ("interval.ms", "1000", 7, [("interval.ms", "1000", 7)]),
        ("match", "", 5, []),
        ("metrics", "", 5, []),
    ]


def test_loggers(node: Node) -> None:
    configs = describe(node, LOGGER, "1", docs=True).configs
    root = next(config for config in configs if config.name == "root")
    assert (root.config_source, root.config_type, root.is_sensitive, root.read_only, root.documentation) == (
        6,
        0,
        False,
        False,
        "",
    )


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version(node: Node, version: int) -> None:
    config = one(node, TOPIC, "t", "retention.ms", version=version, synonyms=False, docs=True)
    assert (config.value, config.config_source, config.synonyms) == ("360000000", 5, [])
    assert (config.config_type, bool(config.documentation)) == ((5, True) if version >= 3 else (0, False))


def test_documentation_is_asked_for(node: Node) -> None:
    assert one(node, TOPIC, "t", "retention.ms").documentation is None
    text = one(node, BROKER, "1", "log.retention.hours", docs=True).documentation
    assert text.startswith("The value of `retention.ms` for topics that do not set it, in hours. How long records are kept")
    alter(node, BROKER, "", **{"listener.name.plaintext.max.connections": "20"})
    assert one(node, BROKER, "1", "listener.name.plaintext.max.connections", docs=True).documentation is None
