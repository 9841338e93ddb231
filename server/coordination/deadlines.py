"""Limits how long answers of a coordinator wait for the replicas of what they are about.

One timer rings for the earliest deadline. An answer that goes out in time is forgotten with one of the next that have to wait, so
that a shard with thousands of commits a second neither arms a timer for each nor keeps them until their time is over.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable, Clock
    from ottla.server.base.promise import Promise

FEW: Final = 64
"""Fewer answers than this are never looked through for those that have gone out."""


class Deadlines:
    """The answers of one shard that wait, and until when each may."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[float, int, Promise[ErrorCode]]] = []
        """(deadline, number, answer), as a heap; the numbers are in the order of the requests."""
        self._numbers = count()
        self._most = FEW
        """Once so many are remembered, all that have gone out are forgotten."""
        self._timer: Cancellable | None = None
        self._rings_at = float("inf")

    def __len__(self) -> int:
        """Returns how many answers are remembered, some of which may have gone out."""
        return len(self._waiting)

    def add(self, answer: Promise[ErrorCode], seconds: float) -> None:
        """Keeps the promise with COORDINATOR_NOT_AVAILABLE if it is not done after so long."""
        waiting = self._waiting
        while waiting and waiting[0][2].done():
            heappop(waiting)
        if len(waiting) >= self._most:
            self._forget_done()
        deadline = self._clock.monotonic() + seconds
        heappush(waiting, (deadline, next(self._numbers), answer))
        if deadline < self._rings_at:
            if self._timer is not None:
                self._timer.cancel()
            self._arm(deadline)

    def _forget_done(self) -> None:
        """Forgets all answers that have gone out. Their deadlines may be later than that of one that waits."""
        self._waiting[:] = [each for each in self._waiting if not each[2].done()]
        heapify(self._waiting)
        self._most = max(FEW, 2 * len(self._waiting))

    def close(self) -> None:
        """Ends the limits: all answers have gone out."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, deadline: float) -> None:
        self._rings_at = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer, self._rings_at = None, float("inf")
        now, waiting = self._clock.monotonic(), self._waiting
        late: list[Promise[ErrorCode]] = []
        while waiting and (waiting[0][0] <= now or waiting[0][2].done()):
            late.append(heappop(waiting)[2])
        if waiting:
            self._arm(waiting[0][0])
        for answer in late:
            if not answer.done():  # it may have gone out in time, or one before it has ended the shard
                answer.set_result(ErrorCode.COORDINATOR_NOT_AVAILABLE)
