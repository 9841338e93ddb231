"""Offsets as they were at each look, so that rates can be shown: kept since a page was opened, in this process, and bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Final, NamedTuple

MAX_SAMPLES: Final = 600
MAX_SERIES: Final = 64
"""The most topics and groups that are remembered; the one that was looked at longest ago is forgotten first."""
MIN_S: Final = 1.0
"""Looks that are closer together count as one: their rate would be noise."""


class Sample(NamedTuple):
    """Numbers as they were at a time, in seconds of the clock, and in ms since 1970 for who reads it."""

    at: float
    time_ms: int
    values: Mapping[str, int]


class Rate(NamedTuple):
    """The rise of a number in a second, up to this time."""

    time_ms: int
    a_second: float


class History:
    """`clock` counts seconds; `now_ms` is the time of day in ms since 1970. Used by threads."""

    def __init__(self, clock: Callable[[], float], now_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._series: OrderedDict[object, deque[Sample]] = OrderedDict()

    def recent(self, key: object) -> Sequence[Sample] | None:
        """Returns all samples of the key if the last one is so new that another look would count as the same; else None."""
        with self._lock:
            samples = self._series.get(key)
            return tuple(samples) if samples and self._clock() - samples[-1].at < MIN_S else None

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
    """Adds up how much the offsets of many partitions have risen since the first look at each; where one fell, as when a topic
    was made anew, it begins again. One that is not known at a look is compared with when it was.

    It is used by threads, and two looks may cross: what an earlier one saw of a topic counts only until a later one has seen it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, dict[int, int]] = {}
        self._seen_at: dict[str, int] = {}
        self._looks = 0
        self.total = 0
        """The sum by which they have risen."""

    def look(self) -> int:
        """Begins a look, before any offset is asked for. Returns its number."""
        with self._lock:
            self._looks += 1
            return self._looks

    def add(self, look: int, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Takes what the offsets were at this look, by topic and partition."""
        with self._lock:
            for topic, now in offsets.items():
                if self._seen_at.get(topic, 0) > look:
                    continue
                self._seen_at[topic] = look
                last = self._last.setdefault(topic, {})
                if now != last:  # most topics are as they were, and that is seen at once
                    self.total += sum(max(0, offset - last.get(number, offset)) for number, offset in now.items())
                    last |= now

    def keep_only(self, topics: Set[str]) -> None:
        """Forgets topics that are no more."""
        with self._lock:
            for gone in self._last.keys() - topics:
                del self._last[gone], self._seen_at[gone]


def rates(samples: Sequence[Sample], name: str) -> list[Rate]:
    """Returns the rate of a number between each two looks. Where it fell, as when a topic was made anew, there is none."""
    found = []
    for before, after in pairwise(samples):
        rise = after.values.get(name, 0) - before.values.get(name, 0)
        if rise >= 0 and name in before.values and name in after.values:
            found.append(Rate(after.time_ms, rise / (after.at - before.at)))
    return found
