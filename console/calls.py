"""Runs what waits for a cluster in threads: so many at a time, so many that wait for their turn, so long.

librdkafka's calls have times of their own and cannot be interrupted. A page that takes longer is given up: one that still waits
for its turn never begins, and the thread of another is free again when the last call in it has returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.console.streams import Streams
from ottla.console.threads import Threads

T = TypeVar("T")

AT_ONCE: Final = 8
MAX_WAITING: Final = 32


class Busy(Exception):
    """Raised if too many pages wait already."""


class TooSlow(Exception):
    """Raised if a page was not there in time."""


class Calls:
    """`within_s` is how long a page may take, its turn included."""

    def __init__(self, within_s: float, *, at_once: int = AT_ONCE, waiting: int = MAX_WAITING) -> None:
        self._within_s = within_s
        self._most = at_once + waiting
        self._running = 0
        self._threads = Threads(at_once, "page")
        self.streams = Streams()

    async def run(self, page: Callable[[], T]) -> T:
        """Returns what the function returns in its thread. Raises Busy, TooSlow, and what the function raises."""
        if self._running >= self._most:
            raise Busy
        self._running += 1
        future = self._threads.submit(page)
        waiting = asyncio.wrap_future(future)
        waiting.add_done_callback(self._ended)
        limit = asyncio.timeout(self._within_s)
        try:
            async with limit:
                return await asyncio.shield(waiting)
        except TimeoutError:
            if not limit.expired():  # the page's own
                raise
            future.cancel()  # if it has not begun, nobody waits for it any more
            raise TooSlow from None

    def _ended(self, waiting: asyncio.Future[T]) -> None:
        self._running -= 1
        if not waiting.cancelled():
            waiting.exception()  # of a page that was given up, nobody else asks for it

    def close(self) -> None:
        """Lets go of the threads; one that is still in a call ends with it, or with the process. Ends the streams."""
        self._threads.close()
        self.streams.close()
