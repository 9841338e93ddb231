"""What offsets were at each look, so that rates can be shown: kept since a page was opened, in this process, and bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, Final, NamedTuple

MAX_SAMPLES: Final = 600
MAX_SERIES: Final = 64
"""How many topics and groups are remembered; the one that was looked at longest ago is forgotten first."""
MIN_S: Final = 1.0
"""Looks that are closer together count as one: their rate would be noise."""


class Sample(NamedTuple):
    """What numbers were at a time, in seconds of the clock, and in ms since 1970 for who reads it."""

    at: float
    time_ms: int
    values: Mapping[str, int]


class Rate(NamedTuple):
    """How much a number rose in a second, up to this time."""

    time_ms: int
    a_second: float


class History:
    """`clock` counts seconds; `now_ms` is the time of day in ms since 1970. Used by threads."""

    def __init__(self, clock: Callable[[], float], now_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._series: OrderedDict[object, deque[Sample]] = OrderedDict()

    def add(self, key: object, values: Mapping[str, int]) -> Sequence[Sample]:
        """Adds what numbers are now, and returns all samples that are kept of the key, the earliest first."""
        with self._lock:
            samples = self._series.setdefault(key, deque(maxlen=MAX_SAMPLES))
            self._series.move_to_end(key)
            if len(self._series) > MAX_SERIES:
                self._series.popitem(last=False)
            now = self._clock()
            if not samples or now - samples[-1].at >= MIN_S:
                samples.append(Sample(now, self._now_ms(), dict(values)))
            return tuple(samples)


class Rises:
    """Adds up how much many numbers have risen since the first look at each; where one fell, as when a topic was made anew, it
    begins again. One that is not known at a look is compared with when it was. Used by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[object, int] = {}
        self._total = 0

    def add(self, numbers: Mapping[Any, int]) -> int:
        """Takes what the numbers are now, and returns how much they have risen in all."""
        with self._lock:
            for key, number in numbers.items():
                self._total += max(0, number - self._last.get(key, number))
            self._last |= numbers
            return self._total

    def keep_only(self, keys: Set[Any]) -> None:
        """Forgets numbers that are no more."""
        with self._lock:
            self._last = {key: number for key, number in self._last.items() if key in keys}


def rates(samples: Sequence[Sample], name: str) -> list[Rate]:
    """Returns the rate of a number between each two looks. Where it fell, as when a topic was made anew, there is none."""
    found = []
    for before, after in pairwise(samples):
        rise = after.values.get(name, 0) - before.values.get(name, 0)
        if rise >= 0 and name in before.values and name in after.values:
            found.append(Rate(after.time_ms, rise / (after.at - before.at)))
    return found
