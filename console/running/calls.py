"""Runs what waits for a cluster in threads: so many at a time, so many that wait for their turn, so long.

librdkafka's calls have times of their own and cannot be interrupted. A page that takes longer is given up: one that still waits
for its turn never begins, and the thread of another is free again when the last call in it has returned. At the console's end,
pages have one more second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.console.running.streams import Streams
from ottla.console.running.threads import Threads

T = TypeVar("T")

AT_ONCE: Final = 8
MAX_WAITING: Final = 32
END_S: Final = 1.0
"""The time that a page may still take when the console ends: less than the server gives its connections, which then cuts them
off."""


class Busy(Exception):
    """Raised if too many pages wait already."""


class TooSlow(Exception):
    """Raised if a page was not there in time."""


class Ending(Exception):
    """Raised if the console ends before a page was there."""


class Calls:
    """`within_s` is how long a page may take, its turn included."""

    def __init__(self, within_s: float, *, at_once: int = AT_ONCE, waiting: int = MAX_WAITING) -> None:
        self._within_s = within_s
        self._most = at_once + waiting
        self._running = 0
        self._threads = Threads(at_once, "page")
        self._limits: set[asyncio.Timeout] = set()
        self._is_ending = False
        self.streams = Streams()

    async def run(self, page: Callable[[], T]) -> T:
        """Returns what the function returns in its thread. Raises Busy, TooSlow, Ending, and what the function raises."""
        if self._running >= self._most:
            raise Busy
        self._running += 1
        future = self._threads.submit(page)
        waiting = asyncio.wrap_future(future)
        waiting.add_done_callback(self._ended)
        limit = asyncio.timeout(END_S if self._is_ending else self._within_s)
        try:
            async with limit:
                self._limits.add(limit)
                return await asyncio.shield(waiting)
        except TimeoutError:
            if not limit.expired():  # the page's own
                raise
            future.cancel()  # if it has not begun, nobody waits for it any more
            raise (Ending if self._is_ending else TooSlow) from None
        finally:
            self._limits.discard(limit)

    def _ended(self, waiting: asyncio.Future[T]) -> None:
        self._running -= 1
        if not waiting.cancelled():
            waiting.exception()  # of a page that was given up, nobody else asks for it

    def end(self) -> None:
        """Has all pages and streams end soon. For the event loop."""
        self._is_ending = True
        soon = asyncio.get_running_loop().time() + END_S
        for limit in self._limits:
            when = limit.when()
            if not limit.expired() and (when is None or when > soon):
                limit.reschedule(soon)
        self.streams.end()

    def close(self) -> bool:
        """Lets go of the threads and ends the streams. Returns whether a thread is still in a call; it ends with that, or with
        the process (see `leave` in threads.py)."""
        self._threads.close()
        return self.streams.close() or self._running > 0
