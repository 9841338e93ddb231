"""These tests cover a replication quota: which replicas it holds for, and when it is used up."""

from __future__ import annotations

import pytest

from ottla.server.replication.throttle import UNLIMITED, Throttle
from tests.fakes import ManualClock


def throttle(limit: int = 100) -> tuple[Throttle, ManualClock]:
    clock = ManualClock()
    made = Throttle(1, clock, windows=4, window_s=1)
    made.limit = limit
    return made, clock


@pytest.mark.parametrize(
    ("replicas", "covered"),
    [((), False), (("*",), True), (("0:1",), True), (("0:2",), False), (("1:1",), False), (("0:2", "0:1"), True)],
)
def test_which_replicas_it_covers(replicas: tuple[str, ...], covered: bool) -> None:
    assert throttle()[0].covers(0, replicas) == covered


def test_it_is_exceeded_beyond_the_limit_and_not_at_it() -> None:
    made, _ = throttle()
    assert not made.is_exceeded()
    made.record(100)
    assert not made.is_exceeded()
    made.record(1)
    assert made.is_exceeded()


def test_the_rate_is_that_of_the_time_since_the_oldest_window() -> None:
    made, clock = throttle()
    made.record(300)
    clock.advance(2.9)
    assert made.is_exceeded()
    clock.advance(0.1)
    assert not made.is_exceeded()


def test_a_window_counts_until_it_is_too_old() -> None:
    made, clock = throttle()
    made.record(1000)
    clock.advance(3.99)
    assert made.is_exceeded()
    clock.advance(0.01)
    assert not made.is_exceeded()
    made.record(100)
    assert not made.is_exceeded()
    made.record(1)
    assert made.is_exceeded()


def test_without_a_limit_it_never_is() -> None:
    made, _ = throttle(UNLIMITED)
    made.record(1 << 40)
    assert not made.is_exceeded()


def test_what_is_only_recorded_is_forgotten_too() -> None:
    """A replica that is level with its leader is recorded and never asks whether the quota is used up."""
    made, clock = throttle()
    for _ in range(100):
        made.record(1)
        clock.advance(1)
    assert len(made._used) <= 4
    made.record(500)
    assert made.is_exceeded()
