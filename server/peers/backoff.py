"""`Backoff`: how long to wait after failures in a row: twice as long after each, up to a maximum, and never quite the same.

Kafka's clients wait like this before they connect again (KIP-144, KIP-580) and for a connection to be set up (KIP-601). The
jitter keeps nodes that lost the same peer at the same moment from coming back at the same moment.
"""

from __future__ import annotations

from random import Random
from typing import Final

FACTOR: Final = 2
JITTER: Final = 0.2
"""A wait is up to this share longer or shorter than the failures alone make it."""


class Backoff:
    """Waits from `initial_ms`, without failures, up to `max_ms`."""

    __slots__ = ("_initial_ms", "_max_ms", "_random")

    def __init__(self, initial_ms: int, max_ms: int, random: Random) -> None:
        self._initial_ms = min(initial_ms, max_ms)
        self._max_ms = max_ms
        self._random = random

    def seconds(self, failures: int) -> float:
        """Returns how long to wait after so many failures in a row, drawn anew each time."""
        wait_ms = float(self._initial_ms)
        for _ in range(failures):
            if not 0 < wait_ms < self._max_ms:
                break
            wait_ms *= FACTOR
        wait_ms = min(wait_ms, self._max_ms)
        return min(wait_ms * self._random.uniform(1 - JITTER, 1 + JITTER), self._max_ms) / 1000
