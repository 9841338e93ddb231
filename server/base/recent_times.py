"""The recent durations of something: the mean and the longest of the last one to two minutes, for metrics that Kafka has in this
form."""

from __future__ import annotations

from typing import Final

from ottla.server.base.clock import Clock

PERIOD_S: Final = 60.0


class RecentTimes:
    """Counts times in two periods, the present one and the one before, in the same memory, however many they are."""

    __slots__ = ("_clock", "_now", "_previous", "_until")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0
        self._now = self._previous = (0, 0.0, 0.0)  # how many, their sum, and the longest

    def note(self, seconds: float) -> None:
        """Counts one that has just ended."""
        self._turn()
        count, total, longest = self._now
        self._now = count + 1, total + seconds, max(longest, seconds)

    @property
    def mean_ms(self) -> float | None:
        """The mean in ms; None if there was none."""
        self._turn()
        count = self._now[0] + self._previous[0]
        return 1000 * (self._now[1] + self._previous[1]) / count if count else None

    @property
    def longest_ms(self) -> float | None:
        """The longest in ms; None if there was none."""
        self._turn()
        return 1000 * max(self._now[2], self._previous[2]) if self._now[0] or self._previous[0] else None

    def _turn(self) -> None:
        """Begins a new period if the present one is over."""
        now_s = self._clock.monotonic()
        if now_s < self._until:
            return
        empty = (0, 0.0, 0.0)
        self._previous = self._now if now_s < self._until + PERIOD_S else empty
        self._now, self._until = empty, now_s + PERIOD_S
