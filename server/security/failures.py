"""The delay of the answer to a failed login, so that guessing passwords is slow.

It is `connection.failed.authentication.delay.ms`. An address whose logins fail more often than `ottla.login.failures.per.minute`
waits twice as long with each further failure, up to MAX_SECONDS. All addresses of one IPv6 network of 64 bits count as one, for
a guesser has a whole one. Only so many are remembered (MAX_ADDRESSES), those that failed last; what is remembered of an address
ends with its minute.
"""

from __future__ import annotations

from typing import Final

from ottla.security.addresses import source_of
from ottla.server.base.clock import Clock

MAX_SECONDS: Final = 5.0
MAX_ADDRESSES: Final = 10_000
PERIOD_SECONDS: Final = 60.0
_LEAST_SECONDS: Final = 0.1  # what is doubled where the setting is 0
_MOST_DOUBLINGS: Final = 10


class Failures:
    """Counts the failed logins of each address. `free_per_minute` of 0 means that no number of failures makes a difference."""

    def __init__(self, clock: Clock, delay_ms: int, free_per_minute: int) -> None:
        self.delay_ms = delay_ms
        self.free_per_minute = free_per_minute
        self._clock = clock
        self._counts: dict[str, tuple[int, float]] = {}  # and until when they count; who failed last is last

    def note(self, host: str) -> float:
        """Counts a failure of this address; returns for how many seconds its answer is held back."""
        delay = self.delay_ms / 1000
        if self.free_per_minute <= 0:
            return delay
        now, source = self._clock.monotonic(), source_of(host)
        count, until = self._counts.pop(source, (0, 0.0))
        if until <= now:
            count, until = 0, now + PERIOD_SECONDS
        self._counts[source] = count + 1, until
        if len(self._counts) > MAX_ADDRESSES:
            del self._counts[next(iter(self._counts))]
        doublings = min(count + 2 - self.free_per_minute, _MOST_DOUBLINGS)
        if doublings <= 0:
            return delay
        return max(delay, min(MAX_SECONDS, max(delay, _LEAST_SECONDS) * (1 << doublings)))
