"""Backoff: twice as long after each failure, never beyond the maximum, and never quite the same."""

from __future__ import annotations

import pytest

from ottla.server.base.randomness import from_seed
from ottla.server.peers.backoff import JITTER, Backoff


@pytest.mark.parametrize(
    ("failures", "expected_ms"), [(0, 50), (1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (6, 1000), (1_000_000_000, 1000)]
)
def test_it_doubles_up_to_its_maximum(failures: int, expected_ms: int) -> None:
    backoff = Backoff(50, 1000, from_seed(1))
    waits = [backoff.seconds(failures) for _ in range(200)]
    low, high = expected_ms * (1 - JITTER) / 1000, min(expected_ms * (1 + JITTER), 1000) / 1000
    assert all(low <= wait <= high for wait in waits)
    assert min(waits) < low + (high - low) / 10
    assert max(waits) > high - (high - low) / 10


def test_the_maximum_counts_from_the_first_failure_on() -> None:
    assert Backoff(500, 20, from_seed(1)).seconds(0) <= 0.02


def test_no_wait_stays_none() -> None:
    assert Backoff(0, 0, from_seed(1)).seconds(7) == 0
    assert Backoff(0, 1000, from_seed(1)).seconds(1_000_000_000) == 0


def test_two_nodes_do_not_come_back_at_the_same_moment() -> None:
    assert Backoff(50, 1000, from_seed(1)).seconds(3) != Backoff(50, 1000, from_seed(2)).seconds(3)
