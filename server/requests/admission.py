"""Admits few long requests at once, in the order in which they came.

Decoded, a request about thousands of things takes megabytes, and hundreds of clients can send one at the same time. So most of
them wait as the bytes that came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.server.base.promise import Promise

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable, Clock

MOST: Final = 2
"""So many long requests are decoded and answered at once. There are as many threads for them (turns.py); with more of them, the
garbage collector looks at what is decoded and waits, and everybody else waits for that."""
LONGEST_S: Final = 5.0
"""One that takes longer waits for somebody else, perhaps, and then the next one need not wait for it."""


class Admission:
    """The long requests of one broker that are under way, and those that wait."""

    __slots__ = ("_clock", "_inside", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._inside: dict[Hashable, Cancellable] = {}
        self._waiting: deque[tuple[Hashable, Promise[None]]] = deque()

    def enter(self, request: Hashable) -> Promise[None]:
        """Returns a promise that is kept when the request is admitted, which may be now. After this, `leave` has to be called."""
        promise: Promise[None] = Promise()
        self._waiting.append((request, promise))
        self._admit()
        return promise

    def leave(self, request: Hashable) -> None:
        """Lets the next one come, if the request has not done so before: when it is answered, or has to wait for others."""
        timer = self._inside.pop(request, None)
        if timer is not None:
            timer.cancel()
            self._admit()

    def _admit(self) -> None:
        while self._waiting and len(self._inside) < MOST:
            request, promise = self._waiting.popleft()
            if not promise.done():  # else its client has gone
                self._inside[request] = self._clock.call_later(LONGEST_S, partial(self.leave, request))
                promise.set_result(None)
