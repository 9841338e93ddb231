"""The slope of a series of measurements, robustly: Theil and Sen's estimate, with an interval of confidence.

The slope is the median of the slopes between all pairs of points, so that a third of the points may be anything. Its interval is
Sen's (1968), from the normal approximation of Kendall's statistic. That takes points to be independent of each other;
measurements of one process are not, so points are the medians of blocks of time, and the variance grows by what the rests still
have to do with their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, median
from typing import Final

Point = tuple[float, float]
"""A time and what was measured then."""

CONFIDENCE: Final = 0.95
_FEWEST: Final = 4
"""Fewer points have no interval worth its name."""


@dataclass(frozen=True)
class Slope:
    """A slope with the interval in which it lies with the probability CONFIDENCE; all three in units of y a unit of x."""

    value: float
    low: float
    high: float
    points: int

    def verdict(self, bound: float) -> str:
        """Returns `level` if the slope is surely not above the bound, `grows` if it surely is, `open` if nobody can say."""
        if self.high <= bound:
            return "level"
        return "grows" if self.low > bound else "open"


def blocks(points: Sequence[Point], width: float) -> list[Point]:
    """Returns the median of x and of y for each stretch of this width in x, in order; stretches without points are left out."""
    found: dict[int, list[Point]] = {}
    for point in points:
        found.setdefault(math.floor(point[0] / width), []).append(point)
    return [(median(x for x, _ in found[at]), median(y for _, y in found[at])) for at in sorted(found)]


def slope(points: Sequence[Point], confidence: float = CONFIDENCE) -> Slope:
    """Returns Theil and Sen's slope. Raises ValueError for fewer than four points, or if all lie at the same x."""
    pairs = sorted((y2 - y1) / (x2 - x1) for at, (x1, y1) in enumerate(points) for x2, y2 in points[at + 1 :] if x2 != x1)
    if len(points) < _FEWEST or not pairs:
        raise ValueError(f"{len(points)} points have no slope")
    value = median(pairs)
    quantile = NormalDist().inv_cdf((1 + confidence) / 2)
    half = quantile * math.sqrt(kendall_variance([y for _, y in points]) * inflation(points, value)) / 2
    first = max(math.floor(len(pairs) / 2 - half), 0)
    last = min(math.ceil(len(pairs) / 2 + half), len(pairs) - 1)
    return Slope(value, pairs[first], pairs[last], len(points))


def kendall_variance(values: Sequence[float]) -> float:
    """Returns the variance of Kendall's S for values in random order; equal ones make it smaller."""

    def term(count: int) -> int:
        return count * (count - 1) * (2 * count + 5)

    equals: dict[float, int] = {}
    for value in values:
        equals[value] = equals.get(value, 0) + 1
    return (term(len(values)) - sum(map(term, equals.values()))) / 18


def inflation(points: Sequence[Point], value: float) -> float:
    """Returns by how much the variance is larger than that of independent points: (1 + r) / (1 - r), where r is the correlation
    of what the slope leaves over with its neighbour, if that is positive.
    """
    rests = [y - value * x for x, y in points]
    middle = sum(rests) / len(rests)
    rests = [rest - middle for rest in rests]
    total = sum(rest * rest for rest in rests)
    if total <= 0:
        return 1.0
    r = sum(one * two for one, two in pairwise(rests)) / total
    r = min(max(r, 0.0), 0.95)  # where a series is nearly a walk, no interval of it says much: this one is six times as wide
    return (1 + r) / (1 - r)
