"""Time as a parameter: the interface of a clock, and its implementation by asyncio.

Nothing in the server calls time.time or sleeps; it gets a Clock as a parameter. Tests pass one that stands still until the test
advances it (tests/fakes.py), so that a session timeout of half an hour is tested in no time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Cancellable(Protocol):
    """A scheduled callback that can be cancelled."""

    def cancel(self) -> None:
        """Cancels the callback. This does nothing if it has run already."""


class Clock(Protocol):
    """Gives the wall time, for what is stored, and monotonic time, for waiting."""

    def now_ms(self) -> int:
        """Returns the wall time in milliseconds since 1970, as in records and checkpoints."""
        ...

    def monotonic(self) -> float:
        """Returns a time in seconds that never goes back."""
        ...

    def ticks_ns(self) -> int:
        """Returns nanoseconds that never go back, for how long something took."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Cancellable:
        """Runs `callback` on the event loop after `seconds`."""
        ...


class LoopClock:
    """The clock of the running event loop, which must be running when this is made."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.monotonic: Callable[[], float] = loop.time
        self._call_later = loop.call_later

    ticks_ns = staticmethod(time.perf_counter_ns)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Cancellable:
        return self._call_later(seconds, callback)
