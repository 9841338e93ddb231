"""These tests cover settings of share groups: the group's own within the broker's bounds, or else the broker's."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.settings.broker_settings import BROKER_SETTINGS
from ottla.server.share.share_group_config import ShareGroupConfig, duration_ms

BROKER: dict[str, Any] = {name: setting.default for name, setting in BROKER_SETTINGS.items()}


def test_defaults_are_the_brokers() -> None:
    settings = ShareGroupConfig.of_group({}, BROKER | {"group.share.record.lock.duration.ms": 20_000})
    assert settings == ShareGroupConfig(5, 2000, 20_000, True, False, "latest")


def test_a_groups_own_settings() -> None:
    own = {
        "share.delivery.count.limit": "7",
        "share.partition.max.record.locks": "300",
        "share.record.lock.duration.ms": "15000",
        "share.renew.acknowledge.enable": "false",
        "share.isolation.level": "read_committed",
        "share.auto.offset.reset": "earliest",
    }
    assert ShareGroupConfig.of_group(own, BROKER) == ShareGroupConfig(7, 300, 15_000, False, True, "earliest")


def test_the_brokers_bounds_count_also_when_they_were_set_later() -> None:
    own = {"share.delivery.count.limit": "9", "share.record.lock.duration.ms": "15000"}
    broker = BROKER | {"group.share.max.delivery.count.limit": 6, "group.share.min.record.lock.duration.ms": 16_000}
    settings = ShareGroupConfig.of_group(own, broker)
    assert (settings.delivery_count_limit, settings.record_lock_duration_ms) == (6, 16_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H", 3_600_000),
        ("P1D", 86_400_000),
        ("P2DT3H4M5.5S", 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5_500),
        ("pt0s", 0),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(f"by_duration:{text}") == expected
