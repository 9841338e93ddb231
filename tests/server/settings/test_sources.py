"""server/settings/sources.py: what DescribeConfigs says of a broker's setting, by the levels that it was written at. The answers
themselves, and those for topics and groups, are asked for in tests/server/handlers/test_describe_configs.py.
"""

from __future__ import annotations

import pytest

from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.current import ALL_BROKERS, CurrentSettings
from ottla.server.settings.sources import Described, Source, Sources
from tests.server.settings.test_current import Dynamic

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
