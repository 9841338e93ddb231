"""`Pace` keeps moves of partitions between log directories at a rate in bytes per second (KIP-113), which may change meanwhile.

What was taken is a debt that shrinks at the rate, and nobody takes more before it is gone. So a single piece may be larger than
what a second allows, and a longer pause follows it. Kafka measures the rate over windows instead; over minutes it is the same.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.server.base.clock import Clock


class Pace:
    """The rate that all moves share; `rate` returns its present value. Call `look_again` when that may have changed."""

    def __init__(self, clock: Clock, rate: Callable[[], int]) -> None:
        self._clock = clock
        self._read_rate = rate
        self._rate = max(rate(), 1)
        self._debt = 0.0
        self._at = clock.monotonic()
        self._waiting: set[asyncio.Event] = set()

    async def take(self, size: int) -> None:
        """Waits until `size` bytes may be copied, and counts them."""
        self._settle()
        while self._debt >= 1:  # less than a byte is left over by rounding
            await self._wait(self._debt / self._rate)
            self._settle()
        self._debt += size

    def look_again(self) -> None:
        """Has those who wait wait for as long as the present rate requires."""
        self._settle()
        for waiting in self._waiting:
            waiting.set()

    def _settle(self) -> None:
        """Takes from the debt what the time since the last look was worth, at the rate of then."""
        now = self._clock.monotonic()
        self._debt = max(0.0, self._debt - self._rate * (now - self._at))
        self._at, self._rate = now, max(self._read_rate(), 1)

    async def _wait(self, seconds: float) -> None:
        over = asyncio.Event()
        self._waiting.add(over)
        timer = self._clock.call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
            self._waiting.discard(over)
