"""Requests that wait for records: a fetch below its min.bytes is parked on its partitions until one of them grows, or time is up.

What Kafka calls a purgatory. One `Parked` is one request: a timer for its deadline, a place in `Replica.parked` of each of its
partitions, and a function that tries to answer. Everything that happens in between is a wake:

- A partition that grows forgets all who were parked on it and wakes them; a wake only *schedules* one look, in the loop's next
  turn. So a hundred appends of one read cost a parked fetch one look, and an append never runs somebody else's request inside its
  own.
- A look that finds too little parks again, on those partitions that forgot it; the deadline stays. The last look, at the
  deadline, has to answer.

The answer is a future. Who gave up on it (a closed connection) cancels it, and that unparks everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from ottla.server.clock import Clock

T = TypeVar("T")


class Parkable(Protocol):
    """What one can wait for; server.replicas.Replica is one. A wake takes the entry out and calls it, once."""

    parked: dict[object, Callable[[], None]]


class Parked(Generic[T]):
    """One waiting request. `future` has its answer."""

    __slots__ = ("_attempt", "_clock", "_places", "_timer", "_woken", "future")

    def __init__(self, clock: Clock, places: list[Parkable], max_wait_ms: int, attempt: Callable[[bool], T | None]) -> None:
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._attempt = attempt
        self._clock = clock
        self._places = places
        self._woken = False
        for place in places:
            place.parked[self] = self._wake
        self._timer = clock.call_later(max_wait_ms / 1000, self._time_is_up)
        self.future.add_done_callback(self._unpark)

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._clock.call_later(0, self._look)

    def _look(self) -> None:
        self._woken = False
        if self.future.done():
            return
        self._try(last=False)
        if not self.future.done():
            for place in self._places:
                place.parked.setdefault(self, self._wake)

    def _time_is_up(self) -> None:
        if not self.future.done():
            self._try(last=True)

    def _try(self, *, last: bool) -> None:
        try:
            answer = self._attempt(last)
        except Exception as error:  # noqa: BLE001 - the request's own failure: whoever awaits the future deals with it
            self.future.set_exception(error)
            return
        if answer is not None:
            self.future.set_result(answer)
        else:
            assert not last, "the last attempt has to answer"

    def _unpark(self, _: object) -> None:
        self._timer.cancel()
        for place in self._places:
            place.parked.pop(self, None)


def park(clock: Clock, places: Iterable[Parkable], max_wait_ms: int, attempt: Callable[[bool], T | None]) -> asyncio.Future[T]:
    """Answer by `attempt(last)`, called after each change at one of `places` until it returns something, and at the latest, with
    `last` true, after `max_wait_ms`; then it has to.
    """
    return Parked(clock, list(places), max_wait_ms, attempt).future
