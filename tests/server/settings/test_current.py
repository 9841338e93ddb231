"""Tests of which value of a setting counts now: what was set while brokers ran, over what this one was started with."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.current import ALL_BROKERS, CurrentSettings, overlaid
from tests.server.settings.test_broker_config import config


class Dynamic:
    """The cluster's dynamic settings, by the broker that they are set for."""

    def __init__(self, of_brokers: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self.texts = dict(of_brokers or {})

    def __call__(self, broker: str) -> Mapping[str, str]:
        return self.texts.setdefault(broker, {})


def current(dynamic: Dynamic, **settings: str) -> CurrentSettings:
    return CurrentSettings(config(**settings), dynamic)


def test_without_dynamic_settings_the_values_are_those_of_the_start() -> None:
    settings = current(Dynamic(), num_partitions="3")
    assert settings.values is settings.config.values
    assert settings["num.partitions"] == 3
    with pytest.raises(KeyError):
        settings["nobody.s"]


def test_the_broker_s_own_settings_beat_those_of_all_brokers_which_beat_the_start() -> None:
    common = {"log.segment.bytes": "2000000", "message.max.bytes": "9"}
    dynamic = Dynamic({ALL_BROKERS: common, "1": {"log.segment.bytes": "3000000"}, "2": {"message.max.bytes": "1"}})
    settings = current(dynamic, message_max_bytes="5", log_retention_bytes="7")
    assert (settings["log.segment.bytes"], settings["message.max.bytes"], settings["log.retention.bytes"]) == (3_000_000, 9, 7)
    assert settings.common == common
    assert settings.own == {"log.segment.bytes": "3000000"}


def test_a_change_counts_at_once_and_until_then_the_values_are_one_object() -> None:
    dynamic = Dynamic({ALL_BROKERS: {"message.max.bytes": "9"}})
    settings = current(dynamic)
    before = settings.values
    assert settings.values is before
    dynamic.texts["1"] = {"message.max.bytes": "10"}
    assert settings["message.max.bytes"] == 10
    del dynamic.texts["1"], dynamic.texts[ALL_BROKERS]
    assert settings["message.max.bytes"] == 1_048_588
    assert before["message.max.bytes"] == 9


def test_texts_are_what_somebody_wrote_for_listeners_of_their_own_too() -> None:
    own = "listener.name.plaintext.max.connection.creation.rate"
    dynamic = Dynamic({ALL_BROKERS: {own: "5", "message.max.bytes": "9"}, "1": {own: "6"}})
    settings = CurrentSettings(BrokerConfig.from_mapping({"message.max.bytes": "3", "node.id": "1"})[0], dynamic)
    assert settings.texts == {"message.max.bytes": "9", own: "6", "node.id": "1", "broker.id": "1"}


def test_what_would_count_with_other_settings_of_one_level() -> None:
    dynamic = Dynamic({ALL_BROKERS: {"message.max.bytes": "9", "num.io.threads": "4"}, "1": {"num.io.threads": "6"}})
    settings = current(dynamic)
    for_all = settings.values_with(ALL_BROKERS, {"num.io.threads": "7"})
    assert (for_all["message.max.bytes"], for_all["num.io.threads"]) == (1_048_588, 6)
    own = settings.values_with("1", {"message.max.bytes": "11"})
    assert (own["message.max.bytes"], own["num.io.threads"]) == (11, 4)
    assert settings["num.io.threads"] == 6


def test_dynamic_settings_lie_over_those_of_the_start(caplog: pytest.LogCaptureFixture) -> None:
    values = {"log.segment.bytes": 1 << 20, "log.dirs": ("a",), "message.max.bytes": 5}
    assert overlaid(values, {}, {}) is values
    common = {"log.segment.bytes": "2000000", "message.max.bytes": "x", "log.dirs": "b", "nobody.s": "1"}
    assert overlaid(values, common, {"log.segment.bytes": "3000000"}) == values | {"log.segment.bytes": 3_000_000}
    assert "message.max.bytes: 'x' is not a whole number" in caplog.text


def test_a_dynamic_setting_puts_its_family_in_other_units_back() -> None:
    values = config(log_retention_hours="2", log_retention_minutes="3", log_roll_hours="4").values
    changed = overlaid(values, {"log.retention.ms": "5"}, {})
    family = {"log.retention.ms": 5, "log.retention.minutes": None, "log.retention.hours": 168}
    assert changed == {**values, **family}


def test_a_topic_has_its_own_settings_and_else_the_brokers_as_they_are_now(caplog: pytest.LogCaptureFixture) -> None:
    dynamic = Dynamic({ALL_BROKERS: {"log.retention.bytes": "9"}})
    settings = current(dynamic, log_segment_bytes="3000000")
    found = settings.of_topic("t", {"max.message.bytes": "5", "segment.bytes": "12"})
    assert (found.max_message_bytes, found.retention_bytes, found.segment_bytes) == (5, 9, 3_000_000)
    assert "topic t: a setting is ignored" in caplog.text, "segments of 12 bytes"
    dynamic.texts["1"] = {"log.retention.bytes": "10"}
    assert settings.of_topic("t", {}).retention_bytes == 10
