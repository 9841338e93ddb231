"""A `Timer` is a deadline that is pushed back far more often than it is reached.

Every heartbeat moves a member's session deadline. To cancel and set a timer of the event loop each time would cost more than the
heartbeat itself, so the loop's timer stays as it is: when it fires early, it is set again for the remaining time.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.server.base.clock import Cancellable, Clock


class Timer:
    """Calls `callback` `delay_ms` after the last `reset(delay_ms)`; `cancel()` stops it, and `reset()` starts it again."""

    __slots__ = ("_armed_for", "_callback", "_clock", "_due", "_handle")

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._due = 0.0
        self._armed_for = 0.0
        self._handle: Cancellable | None = None

    @property
    def active(self) -> bool:
        return self._handle is not None

    @property
    def seconds_left(self) -> float | None:
        """Returns how long it is until the deadline; None if the timer is stopped or has run."""
        return None if self._handle is None else self._due - self._clock.monotonic()

    def reset(self, delay_ms: int) -> None:
        """Sets the deadline to `delay_ms` from now, whatever it was before."""
        self._due = self._clock.monotonic() + delay_ms / 1000
        if self._handle is not None:
            if self._armed_for <= self._due:
                return
            self._handle.cancel()
        self._arm(delay_ms / 1000)

    def postpone(self, seconds: float) -> None:
        """Moves the deadline, if there is one, by so much. The timer of the event loop stays as it is, as for `reset`."""
        self._due += seconds

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, delay: float) -> None:
        self._armed_for = self._due
        self._handle = self._clock.call_later(delay, self._fire)

    def _fire(self) -> None:
        self._handle = None
        rest = self._due - self._clock.monotonic()
        if rest > 0:
            self._arm(rest)
        else:
            self._callback()
