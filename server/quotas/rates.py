"""How fast somebody is, in two measures: an average over a few windows, and a bucket of tokens. Kafka's arithmetic, to the
millisecond, so that a client is told the same `throttle_time_ms` by both brokers.

`Rate` sums what was counted in windows of time and divides by the time they span. The windows before the first count as empty and
past: whoever just began may use up what the whole span allows at once. Who is over the limit has to be quiet until the average is
back at it. For bytes, time spent and connections.

`TokenBucket` holds at most what the limit gives in the whole span, fills at the limit's rate and may be overdrawn by one
operation, however large; while it is below zero nothing more is allowed. For changes of metadata, which come in bursts (KIP-599).

Times are in ms of a clock that never goes back.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

LONGEST_MS: Final = 2**31 - 1
"""What `throttle_time_ms` can say."""


class Windows(NamedTuple):
    """`quota.window.num` windows of `quota.window.size.seconds`: what the limits of one kind are measured over."""

    number: int
    size_ms: int

    @property
    def span_ms(self) -> int:
        return self.number * self.size_ms


class _Window:
    """What was counted since `start_ms`."""

    __slots__ = ("last_ms", "start_ms", "sum")

    def __init__(self, now_ms: int) -> None:
        self.restart(now_ms)

    def restart(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.sum = 0.0


class Rate:
    """An average per second."""

    __slots__ = ("_current", "_oldest_ms", "_others", "_ring", "_stale_ms", "_window", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._ring: list[_Window] = []  # one more than is counted: the oldest may still be within the span
        self._current = 0
        self._window: _Window | None = None  # the current one
        # What follows from the windows, so that a request need not look at all of them
        self._others = 0.0  # the sum of all but the current one
        self._oldest_ms = 0  # when the first of them began
        self._stale_ms = 0  # before this, none of them is past all windows

    def record(self, value: float, now_ms: int) -> None:
        """Counts; a negative value takes back what was counted at this very time."""
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
        self._look()
        return window

    def _look(self) -> None:
        """Computes anew what follows from the windows, after they have changed."""
        ring = self._ring
        self._others = sum(window.sum for window in ring if window is not self._window)
        self._oldest_ms = min(window.start_ms for window in ring)
        self._stale_ms = min(window.last_ms for window in ring) + self._windows.span_ms

    def per_second(self, now_ms: int) -> float:
        spanned_ms = self.spanned_ms(now_ms)
        return (self._others + self._window.sum) / (spanned_ms / 1000) if self._window is not None else 0.0

    def spanned_ms(self, now_ms: int) -> int:
        """Returns the time in ms that the average is over: from the oldest window on, at least all full windows but one."""
        if now_ms >= self._stale_ms and self._ring:
            for window in self._ring:
                if now_ms - window.last_ms >= self._windows.span_ms:
                    window.restart(now_ms)
            self._look()
        spanned_ms = now_ms - self._oldest_ms if self._ring else 0
        missing = self._windows.number - 1 - spanned_ms // self._windows.size_ms
        return max(spanned_ms + max(missing, 0) * self._windows.size_ms, 1)

    def throttle_time_ms(self, limit: float, now_ms: int) -> int:
        """Returns how many ms to be quiet until the average is `limit` per second again; 0 where it is not above."""
        rate = self.per_second(now_ms)
        if rate <= limit:
            return 0
        return rounded_ms((rate - limit) / limit * self.spanned_ms(now_ms)) if limit > 0 else LONGEST_MS

    def now(self, now_ms: int) -> float:
        """Returns the average, for those who look at it."""
        return self.per_second(now_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Returns whether nothing that was counted matters any more: a new one would say the same, or nearly."""
        return all(not window.sum or now_ms - window.last_ms >= self._windows.span_ms for window in self._ring)


class TokenBucket:
    """A bucket that is full at first. `limit` is in tokens per second, and may be another at each call."""

    __slots__ = ("_filled_ms", "_limit", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens = math.inf
        self._limit = 0.0
        self._filled_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        """Returns how many there are now; negative where it is overdrawn."""
        self._limit = limit
        most = limit * self._windows.span_ms / 1000
        self._tokens = min(most, self._tokens + limit * (now_ms - self._filled_ms) / 1000)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        self._tokens = self.tokens(limit, now_ms) - count

    def throttle_time_ms(self, limit: float, now_ms: int) -> int:
        """Returns how many ms it is until it is not overdrawn any more."""
        tokens = self.tokens(limit, now_ms)
        if tokens >= 0:
            return 0
        return rounded_ms(-tokens / limit * 1000) if limit > 0 else LONGEST_MS

    def now(self, now_ms: int) -> float:
        """Returns what there is, by the limit that it had the last time, for those who look at it."""
        return self.tokens(self._limit, now_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Returns whether it is full, by the limit that it had the last time."""
        return self.tokens(self._limit, now_ms) == self._limit * self._windows.span_ms / 1000


def rounded_ms(value: float) -> int:
    """Rounds as Java does: halves go up."""
    return min(math.floor(value + 0.5), LONGEST_MS)
