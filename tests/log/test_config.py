"""The topic settings: Kafka's own table, values from topic and broker, and values against each other."""

from __future__ import annotations

import dataclasses

import pytest

from ottla.log.config import TOPIC_SETTINGS, LogConfig, in_topic_unit, inherited, validate_overrides
from ottla.log.config_def import ConfigError, InvalidSetting
from ottla.server.settings.broker_settings import BROKER_SETTINGS


def test_defaults() -> None:
    config = LogConfig.from_overrides({})
    assert config.segment_bytes == 1 << 30
    assert config.cleanup_policy == frozenset({"delete"})
    assert config.retention_ms == 604_800_000
    assert config.min_cleanable_dirty_ratio == 0.5


def test_every_shown_setting_has_its_field() -> None:
    shown = {name.replace(".", "_") for name, setting in TOPIC_SETTINGS.items() if not setting.internal}
    assert shown | {"max_decompressed_batch_bytes"} == set(LogConfig.__slots__)
    assert len(shown) == 37


def test_the_bound_for_batches_is_the_broker_s() -> None:
    assert LogConfig.from_overrides({}).decompression_bounds == (64 << 20, 2**31 - 9)
    broker = {"ottla.max.decompressed.batch.bytes": 7, "max.decompressed.message.bytes": 5}
    assert LogConfig.from_overrides({}, broker).decompression_bounds == (7, 5)
    assert LogConfig.from_overrides({"max.decompressed.message.bytes": "6"}, broker).decompression_bounds == (7, 6)


def test_every_setting_says_what_it_is_for() -> None:
    assert all(setting.doc.endswith(".") for setting in TOPIC_SETTINGS.values())


def test_a_topic_s_own_value_beats_the_broker_s() -> None:
    broker = {"log.retention.ms": 5, "message.max.bytes": 7}
    config = LogConfig.from_overrides({"retention.ms": "9"}, broker)
    assert (config.retention_ms, config.max_message_bytes) == (9, 7)


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        ({"log.retention.ms": None, "log.retention.minutes": None, "log.retention.hours": 2}, 7_200_000),
        ({"log.retention.ms": None, "log.retention.minutes": 3, "log.retention.hours": 2}, 180_000),
        ({"log.retention.ms": 4, "log.retention.minutes": 3, "log.retention.hours": 2}, 4),
        ({"log.retention.ms": -7}, -1),
        ({"log.retention.hours": -1}, -1),
        ({}, 604_800_000),
    ],
)
def test_the_finest_unit_that_is_set_counts(broker: dict[str, object], retention_ms: int) -> None:
    assert LogConfig.from_overrides({}, broker).retention_ms == retention_ms


def test_flush_falls_back_to_the_scheduler_s_interval() -> None:
    flush = TOPIC_SETTINGS["flush.ms"]
    assert inherited(flush, {"log.flush.interval.ms": None, "log.flush.scheduler.interval.ms": 11}) == 11
    assert inherited(flush, {"log.flush.interval.ms": 3, "log.flush.scheduler.interval.ms": 11}) == 3


@pytest.mark.parametrize(
    ("policy", "lag_ms", "expected"),
    [("delete", 50, 100), ("compact", 50, 50), ("compact,delete", 50, 50), ("compact", 200, 100), ("compact", 0, 100)],
)
def test_segments_of_compacted_topics_roll_before_the_compaction_lag_is_over(policy: str, lag_ms: int, expected: int) -> None:
    config = LogConfig.from_overrides({"cleanup.policy": policy, "segment.ms": "100"})
    assert dataclasses.replace(config, max_compaction_lag_ms=lag_ms).roll_after_ms == expected


def test_bytes_are_no_time() -> None:
    assert in_topic_unit("log.retention.bytes", -5) == -5
    assert in_topic_unit("log.roll.hours", 1) == 3_600_000


def test_synonyms_exist_and_agree_on_their_defaults() -> None:
    for setting in TOPIC_SETTINGS.values():
        defaults = [BROKER_SETTINGS[name].default for name in setting.synonyms]
        known = [in_topic_unit(name, value) for name, value in zip(setting.synonyms, defaults, strict=True) if value is not None]
        assert not setting.synonyms or known[0] == setting.default, setting.name


def test_small_segments_are_possible_for_tests() -> None:
    assert LogConfig.from_overrides({"internal.segment.bytes": "100"}).segment_bytes == 100
    with pytest.raises(InvalidSetting, match="the least is 1048576"):
        LogConfig.from_overrides({"segment.bytes": "100"})


def test_an_unknown_override_does_not_keep_a_log_from_opening() -> None:
    assert LogConfig.from_overrides({"of.a.later.kafka": "1"}) == LogConfig.from_overrides({})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"no.such": "1", "retention.ms": "x"}, "no.such: topics do not have this setting; check the spelling"),
        ({"retention.ms": "abc"}, "retention.ms: 'abc' is not a whole number of 64 bits; write it in digits"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "min.compaction.lag.ms: 10 is above max.compaction.lag.ms, 5; lower the first or raise the second",
        ),
        (
            {"remote.storage.enable": "true"},
            "remote.storage.enable: this broker has no tiered storage; leave this setting false",
        ),
    ],
)
def test_refused_in_one_line_that_begins_with_the_key(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_overrides(overrides)
    assert str(refused.value) == message


def test_the_broker_s_values_count_in_a_conflict() -> None:
    with pytest.raises(ConfigError, match=r"10 is above max.compaction.lag.ms, 5"):
        validate_overrides({"min.compaction.lag.ms": "10"}, {"log.cleaner.max.compaction.lag.ms": 5})


@pytest.mark.parametrize("text", ["*", "", "0:1", "0:1,1:2", "0:1 , 2:3", "0:1,"])
def test_throttled_replicas(text: str) -> None:
    TOPIC_SETTINGS["leader.replication.throttled.replicas"].parse(text)


@pytest.mark.parametrize("text", ["none", "*,0:1", "a:b", "0:1,x", ",0:1"])
def test_what_are_no_throttled_replicas(text: str) -> None:
    with pytest.raises(InvalidSetting, match="list of partition:broker pairs"):
        TOPIC_SETTINGS["leader.replication.throttled.replicas"].parse(text)
