"""Quantiles from buckets that double, and the window they are of."""

from __future__ import annotations

import pytest

from ottla.server.dispatch.measured import BUCKETS, RequestCounts
from ottla.server.metrics.latency import WINDOW_SECONDS, Times, Window, quantile_ns, sum_times

KEY = ("Produce",)


def buckets(*times_ns: int) -> list[int]:
    took = [0] * BUCKETS
    for time_ns in times_ns:
        took[time_ns.bit_length()] += 1
    return took


def test_a_quantile_lies_in_the_bucket_of_its_rank() -> None:
    took = buckets(*[1_000] * 98, 1_000_000, 50_000_000)
    assert 512 <= quantile_ns(took, 0.5) < 1_024
    assert 524_288 <= quantile_ns(took, 0.99) <= 1_048_576
    assert 33_554_432 <= quantile_ns(took, 0.999) <= 67_108_864
    assert [quantile_ns(took, q / 100) for q in range(101)] == sorted(quantile_ns(took, q / 100) for q in range(101))


@pytest.mark.parametrize(
    ("took", "quantile", "time_ns"),
    [
        ([0, 0, 0, 4], 0.5, 6.0),  # from 4 to below 8 ns
        ([0, 0, 2, 0, 2], 0.5, 4.0),
        ([0, 0, 2, 0, 2], 0.75, 12.0),
        ([3, 0, 1], 1.0, 4.0),
        ([1], 1.0, 1.0),
        ([0, 1, 1], 0.0, 1.0),
    ],
)
def test_times_lie_evenly_in_their_bucket(took: list[int], quantile: float, time_ns: float) -> None:
    assert quantile_ns(took, quantile) == time_ns


@pytest.mark.parametrize("quantile", [0.0, 0.5, 0.999, 1.0])
def test_no_times_and_times_of_nothing(quantile: float) -> None:
    assert quantile_ns(buckets(), quantile) == 0.0
    assert quantile_ns(buckets(0), quantile) <= 1.0
    assert quantile_ns(buckets(2**63 + 1), quantile) >= 2**63


def test_routes_are_summed() -> None:
    routes = [RequestCounts(), RequestCounts()]
    for counts, time_ns in zip(routes, (3, 900), strict=True):
        counts.took[time_ns.bit_length()] += 1
        counts.took_ns += time_ns
    assert sum_times(routes) == Times(2, 903, buckets(3, 900))


def test_the_window_forgets_what_is_older() -> None:
    window = Window()
    first, second, third = buckets(5), buckets(5, 700), buckets(5, 700, 90_000)
    window.move(1_000.0, {KEY: first})
    assert window.recent(KEY, first) == first  # nothing is old yet
    window.move(1_000.0 + WINDOW_SECONDS, {KEY: second})
    assert window.recent(KEY, second) == second
    window.move(1_000.0 + 2 * WINDOW_SECONDS, {KEY: third})
    assert window.recent(KEY, third) == buckets(90_000)
    window.move(1_001.0 + 2 * WINDOW_SECONDS, {KEY: third})  # a second reader, just behind
    assert window.recent(KEY, third) == buckets(90_000)
    assert window.recent(("Fetch",), first) == first  # asked for the first time after the window began
