"""These tests cover settings of groups: the group's own within the broker's bounds, or else the broker's."""

from __future__ import annotations

import pytest

from ottla.server.group.modern.group_configs import GroupConfigs
from tests.server.group.fakes import Broker

NAME = "consumer.session.timeout.ms"
BOUNDS: dict[str, object] = {
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.min.session.timeout.ms": 40_000,
    "group.consumer.max.session.timeout.ms": 60_000,
}


def values(own: str | None = None, all_brokers: str | None = None, bounds: dict[str, object] | None = None) -> GroupConfigs:
    broker = Broker()
    if own is not None:
        broker.configs[32, "g"] = {NAME: own}
    if all_brokers is not None:
        broker.configs[4, ""] = {"group." + NAME: all_brokers}
    return GroupConfigs(BOUNDS if bounds is None else bounds, broker.metadata)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, 45_000),
        ("50000", 50_000),
        ("40000", 40_000),
        ("39999", 40_000),
        ("60000", 60_000),
        ("60001", 60_000),
        ("no", 45_000),
    ],
)
def test_a_group_has_its_own_number_within_bounds(own: str | None, expected: int) -> None:
    assert values(own).number("g", NAME) == expected
    assert values(own).number("other", NAME) == 45_000
    assert values(own).text("g", NAME) == own


@pytest.mark.parametrize(("written", "expected"), [("55000", 55_000), ("no", 45_000), (None, 45_000)])
def test_what_was_set_for_all_brokers_counts_before_what_the_broker_was_started_with(written: str | None, expected: int) -> None:
    assert values(all_brokers=written).number("g", NAME) == expected
    assert values(all_brokers=written).broker_number("group." + NAME) == expected


def test_without_bounds_any_number_holds() -> None:
    assert values("1", bounds={}).number("g", NAME) == 1


def test_a_value_that_nobody_set_has_its_default() -> None:
    assert values(bounds={}).broker_value("group.consumer.max.size") == 2**31 - 1
