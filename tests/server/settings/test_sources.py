"""server/settings/sources.py: what DescribeConfigs says of a broker's setting, by the levels that it was written at. The answers
themselves, and those for topics and groups, are asked for in tests/server/handlers/test_describe_configs.py.
"""

from __future__ import annotations

import pytest

from ottla.log.config import TOPIC_SETTINGS
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.current import ALL_BROKERS, CurrentSettings
from ottla.server.settings.sources import Described, Source, Sources
from tests.server.settings.test_current import Dynamic

TOPIC = Source.TOPIC
OWN, COMMON, STATIC, DEFAULT = Source.DYNAMIC_BROKER, Source.DYNAMIC_DEFAULT, Source.STATIC, Source.DEFAULT
OF_A_LISTENER = "listener.name.plaintext.max.connections"


@pytest.fixture(scope="module")
def settings() -> dict[str, Described]:
    """The settings of a broker that has some from each level, by name."""
    common = {"message.max.bytes": "9", "log.retention.ms": "5000000", OF_A_LISTENER: "20"}
    own = {"message.max.bytes": "10"}
    start = {"message.max.bytes": "3", "log.retention.hours": "4", "some.plugin": "secret", "ssl.key.password": "secret"}
    current = CurrentSettings(BrokerConfig.from_mapping(start)[0], Dynamic({ALL_BROKERS: common, "1": own}))
    return {each.name: each for each in Sources(current).of_broker()}


@pytest.mark.parametrize(
    ("name", "value", "candidates"),
    [
        ("message.max.bytes", "10", [("10", OWN), ("9", COMMON), ("3", STATIC), ("1048588", DEFAULT)]),
        ("num.partitions", "1", [("1", DEFAULT)]),
        ("some.plugin", None, [(None, STATIC)]),
        ("ssl.key.password", None, [(None, STATIC)]),
    ],
    ids=["at all levels", "nowhere", "unknown", "a password"],
)
def test_the_strongest_level_comes_first(
    settings: dict[str, Described], name: str, value: str | None, candidates: list[tuple[str | None, Source]]
) -> None:
    described = settings[name]
    assert (described.value, described.source) == (value, candidates[0][1])
    assert described.candidates == [(name, *candidate) for candidate in candidates]


def test_other_units_are_candidates_from_the_asked_name_on(settings: dict[str, Described]) -> None:
    hours = [("log.retention.hours", "4", STATIC), ("log.retention.hours", "168", DEFAULT)]
    assert settings["log.retention.ms"].candidates == [("log.retention.ms", "5000000", COMMON), *hours]
    assert settings["log.retention.hours"].candidates == hours
    assert settings["log.retention.minutes"].candidates == []


def test_the_broker_s_setting_is_behind_a_listener_s_own(settings: dict[str, Described]) -> None:
    assert settings[OF_A_LISTENER].candidates == [(OF_A_LISTENER, "20", COMMON), ("max.connections", "2147483647", DEFAULT)]


QUOTAS = (
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


def test_quotas_of_replication_are_there_only_where_they_were_written() -> None:
    plain = {each.name for each in Sources(CurrentSettings(BrokerConfig.from_mapping({})[0], Dynamic({}))).of_broker()}
    assert not plain & {*QUOTAS}
    written = CurrentSettings(BrokerConfig.from_mapping({})[0], Dynamic({"1": dict.fromkeys(QUOTAS, "7")}))
    found = {each.name: each for each in Sources(written).of_broker()}
    assert found.keys() - plain == {*QUOTAS}
    assert [(found[name].value, found[name].source, found[name].documented) for name in QUOTAS] == [("7", OWN, False)] * 3
    assert found["message.max.bytes"].documented


def test_a_new_topic_has_what_was_given_then_what_the_broker_has_and_nothing_internal_by_itself() -> None:
    start = {"log.retention.hours": "4", "message.max.bytes": "8"}
    current = CurrentSettings(BrokerConfig.from_mapping(start)[0], Dynamic({ALL_BROKERS: {"message.max.bytes": "9"}}))

    def begins_with(**overrides: str) -> dict[str, tuple[str | None, Source]]:
        given = {name.replace("_", "."): text for name, text in overrides.items()}
        return {each.name: (each.value, each.source) for each in Sources(current).of_new_topic(TOPIC_SETTINGS, given)}

    plain = begins_with()
    assert plain.keys() == {name for name, setting in TOPIC_SETTINGS.items() if not setting.internal}
    assert list(plain) == sorted(plain)
    assert plain["retention.ms"] == (str(4 * 3_600_000), STATIC)
    assert plain["max.message.bytes"] == ("9", COMMON)
    assert plain["segment.bytes"] == ("1073741824", DEFAULT)
    given = begins_with(internal_segment_bytes="100", retention_ms=" 5 ")
    assert given == plain | {"internal.segment.bytes": ("100", TOPIC), "retention.ms": (" 5 ", TOPIC)}
