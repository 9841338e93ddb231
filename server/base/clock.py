"""Time as a parameter: what the server asks of a clock, and asyncio's.

Nothing in the server calls time.time or sleeps; it is handed a Clock. Tests hand it one that stands still until it is told to
advance (tests/fakes.py), so that a session timeout of half an hour is tested in no time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Cancellable(Protocol):
    """A callback that has not run yet."""

    def cancel(self) -> None:
        """Do not run it. Harmless when it has run."""


class Clock(Protocol):
    """Wall time for what is written down, monotonic time for waiting."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as records and checkpoints carry them."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Cancellable:
        """Run `callback` on the event loop after `seconds`."""
        ...


class LoopClock:
    """The clock of the running event loop. Make it inside the loop."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.monotonic: Callable[[], float] = loop.time
        self._call_later = loop.call_later

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Cancellable:
        return self._call_later(seconds, callback)
