"""Limits how long answers of a coordinator wait for the replicas of what they are about.

One timer rings for the earliest deadline. An answer that goes out in time is forgotten with the next one that has to wait, so
that a shard with thousands of commits a second neither arms a timer for each nor keeps them until their time is over.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable, Clock
    from ottla.server.base.promise import Promise


class Deadlines:
    """The answers of one shard that wait, and until when each may."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[tuple[float, Promise[ErrorCode]]] = deque()
        """(deadline, answer), in the order of their requests."""
        self._timer: Cancellable | None = None
        self._rings_at = float("inf")

    def __len__(self) -> int:
        """Returns how many answers are remembered, some of which may have gone out."""
        return len(self._waiting)

    def add(self, answer: Promise[ErrorCode], seconds: float) -> None:
        """Keeps the promise with COORDINATOR_NOT_AVAILABLE if it is not done after so long."""
        waiting = self._waiting
        while waiting and waiting[0][1].done():
            waiting.popleft()
        deadline = self._clock.monotonic() + seconds
        waiting.append((deadline, answer))
        if deadline < self._rings_at:
            if self._timer is not None:
                self._timer.cancel()
            self._arm(deadline)

    def close(self) -> None:
        """Ends the limits: all answers have gone out."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, deadline: float) -> None:
        self._rings_at = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer, self._rings_at = None, float("inf")
        now = self._clock.monotonic()
        waiting = [each for each in self._waiting if not each[1].done()]
        self._waiting = deque(each for each in waiting if each[0] > now)
        if self._waiting:
            self._arm(min(deadline for deadline, _ in self._waiting))
        for deadline, answer in waiting:
            if deadline <= now and not answer.done():  # an answer before it may have ended the shard
                answer.set_result(ErrorCode.COORDINATOR_NOT_AVAILABLE)
