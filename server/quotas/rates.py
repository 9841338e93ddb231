"""Measures how much a client uses, in one of two ways: as an average over a few windows, or with a token bucket. Both follow
Kafka's arithmetic to the millisecond, so that both brokers give a client the same `throttle_time_ms`.

`Rate` sums what was counted in windows of time and divides it by the time that they span. The windows before the first count are
taken as empty and past: a client that has just begun may use at once what the limit allows for the whole span. A client that is
over the limit has to be quiet until the average is back at the limit. It measures bytes, time spent and connections.

`TokenBucket` holds at most what the limit gives in the whole span, fills at the rate of the limit, and may be overdrawn by one
operation, however large; while it is below zero nothing more is allowed. It measures changes of metadata, which come in bursts
(KIP-599).

Times are in ms of a clock that never goes back.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

LONGEST_MS: Final = 2**31 - 1
"""The greatest `throttle_time_ms` that an answer can carry."""


class Windows(NamedTuple):
    """Says over which windows the limits of one kind are measured: `quota.window.num` of `quota.window.size.seconds` each."""

    number: int
    size_ms: int

    @property
    def span_ms(self) -> int:
        return self.number * self.size_ms


class _Window:
    """Holds what was counted since `start_ms`."""

    __slots__ = ("last_ms", "start_ms", "sum")

    def __init__(self, now_ms: int) -> None:
        self.restart(now_ms)

    def restart(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.sum = 0.0


class Rate:
    """Measures an average per second over the last windows."""

    __slots__ = ("_current", "_oldest_ms", "_others", "_ring", "_stale_ms", "_window", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._ring: list[_Window] = []  # one more than there are windows, since the oldest may still be within the span
        self._current = 0
        self._window: _Window | None = None  # the current one
        # Derived from the windows, so that a request need not look at all of them
        self._others = 0.0  # the sum of all but the current one
        self._oldest_ms = 0  # when the first of them began
        self._stale_ms = 0  # before this time, none of them is older than the span

    def record(self, value: float, now_ms: int) -> None:
        """Counts a value; a negative one takes back what was counted at the same time."""
        window = self._window
        if window is None or now_ms - window.start_ms >= self._windows.size_ms:
            window = self._next(now_ms)
        window.sum += value
        window.last_ms = now_ms

    def _next(self, now_ms: int) -> _Window:
        if self._ring:
            self._current = (self._current + 1) % (self._windows.number + 1)
        if self._current == len(self._ring):
            self._ring.append(_Window(now_ms))
        else:
            self._ring[self._current].restart(now_ms)
        window = self._window = self._ring[self._current]
        self._derive()
        return window

    def _derive(self) -> None:
        """Computes what is derived from the windows, after they have changed."""
        ring = self._ring
        self._others = sum(window.sum for window in ring if window is not self._window)
        self._oldest_ms = min(window.start_ms for window in ring)
        self._stale_ms = min(window.last_ms for window in ring) + self._windows.span_ms

    def per_second(self, now_ms: int) -> float:
        spanned_ms = self.spanned_ms(now_ms)
        return (self._others + self._window.sum) / (spanned_ms / 1000) if self._window is not None else 0.0

    def spanned_ms(self, now_ms: int) -> int:
        """Returns how many ms the average covers: the time since the oldest window began, but at least all windows except one."""
        if now_ms >= self._stale_ms and self._ring:
            for window in self._ring:
                if now_ms - window.last_ms >= self._windows.span_ms:
                    window.restart(now_ms)
            self._derive()
        spanned_ms = now_ms - self._oldest_ms if self._ring else 0
        missing = self._windows.number - 1 - spanned_ms // self._windows.size_ms
        return max(spanned_ms + max(missing, 0) * self._windows.size_ms, 1)

    def throttle_time_ms(self, limit: float, now_ms: int) -> int:
        """Returns how many ms the client has to be quiet until the average is `limit` per second again; 0 if it is not above."""
        rate = self.per_second(now_ms)
        if rate <= limit:
            return 0
        return rounded_ms((rate - limit) / limit * self.spanned_ms(now_ms)) if limit > 0 else LONGEST_MS

    def now(self, now_ms: int) -> float:
        """Returns the average per second, for the metrics."""
        return self.per_second(now_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Returns whether nothing that was counted matters any more, so that a new Rate would give the same, or nearly."""
        return all(not window.sum or now_ms - window.last_ms >= self._windows.span_ms for window in self._ring)


class TokenBucket:
    """Measures with a bucket that is full at first. `limit` is in tokens per second, and may differ from call to call."""

    __slots__ = ("_filled_ms", "_limit", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens = math.inf
        self._limit = 0.0
        self._filled_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        """Returns how many tokens there are now; the number is negative if the bucket is overdrawn."""
        self._limit = limit
        most = limit * self._windows.span_ms / 1000
        self._tokens = min(most, self._tokens + limit * (now_ms - self._filled_ms) / 1000)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        self._tokens = self.tokens(limit, now_ms) - count

    def throttle_time_ms(self, limit: float, now_ms: int) -> int:
        """Returns in how many ms the bucket will no longer be overdrawn."""
        tokens = self.tokens(limit, now_ms)
        if tokens >= 0:
            return 0
        return rounded_ms(-tokens / limit * 1000) if limit > 0 else LONGEST_MS

    def now(self, now_ms: int) -> float:
        """Returns how many tokens there are by the limit of the last call, for the metrics."""
        return self.tokens(self._limit, now_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Returns whether the bucket is full by the limit of the last call."""
        return self.tokens(self._limit, now_ms) == self._limit * self._windows.span_ms / 1000


def rounded_ms(value: float) -> int:
    """Rounds as Java does, halves up, to at most LONGEST_MS."""
    return min(math.floor(value + 0.5), LONGEST_MS)
