"""`LoopLag`: by how much the event loop is late, which is how long everybody waits who asks this broker for something.

A timer rings every half second. How much later than planned it rings is how long the loop was held up: by the work of a request,
or because the process did not get the processor. It is measured only while metrics are served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.server.base.recent_times import RecentTimes

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable, Clock

INTERVAL_S: Final = 0.5


class LoopLag:
    """Measures from `start` to `stop`."""

    def __init__(self, clock: Clock) -> None:
        self._times = RecentTimes(clock)
        self._clock = clock
        self._timer: Cancellable | None = None

    def start(self) -> None:
        """Begins to measure."""
        due = self._clock.monotonic() + INTERVAL_S
        self._timer = self._clock.call_pass("event loop lag", INTERVAL_S, lambda: self._ring(due))

    def stop(self) -> None:
        """Measures no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def longest_s(self) -> float:
        """The longest of the last one to two minutes."""
        return (self._times.longest_ms or 0.0) / 1000

    def _ring(self, due: float) -> None:
        self._times.note(max(0.0, self._clock.monotonic() - due))
        self.start()
