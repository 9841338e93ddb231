"""Computes quantiles of how long requests took, from buckets whose bounds double.

Bucket n of a route's `took` counts the requests that took 2**(n-1) to 2**n - 1 ns. So a quantile is known to a factor of two; it
is placed between the bounds of its bucket in proportion, as Prometheus does with histograms. Times are sums of integers, never
samples.

Quantiles cover the last five to ten minutes, as Kafka's lean to the last five: `Window` keeps the buckets of an earlier time and
subtracts them. It moves on when it is read, so without a reader nothing happens, and several readers all see the same window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.server.dispatch.measured import BUCKETS, RequestCounts

WINDOW_SECONDS: Final = 300
Key = tuple[str, ...]
QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""The quantiles, written as the JMX exporter writes Kafka's percentiles."""


class Times(NamedTuple):
    """Holds a number of durations: how many they are, their sum in ns, and their buckets (empty if only the sum is known)."""

    total: int
    sum_ns: int
    took: Sequence[int] = ()


def sum_times(routes: Iterable[RequestCounts]) -> Times:
    """Returns the times of several routes together."""
    took, sum_ns = [0] * BUCKETS, 0
    for counts in routes:
        sum_ns += counts.took_ns
        for bucket, count in enumerate(counts.took):
            took[bucket] += count
    return Times(sum(took), sum_ns, took)


def quantile_ns(took: Sequence[int], quantile: float) -> float:
    """Returns the time in ns below which this share of the durations lies; 0.0 if there are none."""
    rank = quantile * sum(took)
    below = 0
    for bucket, count in enumerate(took):
        if count and below + count >= rank:
            low, high = (1 << bucket) >> 1, 1 << bucket
            return low + (high - low) * (rank - below) / count
        below += count
    return 0.0


class Window:
    """Subtracts what is older than the window from the buckets of each key; a key is the values of a metric's labels."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._begin: Mapping[Key, Sequence[int]] = {}
        self._next_begin: Mapping[Key, Sequence[int]] = {}

    def recent(self, key: Key, took: Sequence[int]) -> Sequence[int]:
        """Returns what was added to these buckets since the window began."""
        before = self._begin.get(key)
        return took if before is None else [new - old for new, old in zip(took, before, strict=True)]

    def move(self, monotonic: float, took: Mapping[Key, Sequence[int]]) -> None:
        """Remembers all buckets as they are at a reading, from which the window begins after another WINDOW_SECONDS."""
        if self._since is None:
            self._since = monotonic
        elif monotonic - self._since >= WINDOW_SECONDS:
            self._begin, self._next_begin, self._since = self._next_begin, took, monotonic
