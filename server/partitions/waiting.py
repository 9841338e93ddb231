"""Requests that wait for records: a fetch below its min.bytes is parked on its partitions until one of them grows, or time is up.

What Kafka calls a purgatory. One `Parked` is one request: a timer for its deadline, a place in `Replica.parked` of each of its
partitions, and a function that tries to answer. Everything that happens in between is a wake:

- A partition that grows forgets all who were parked on it and wakes them; a wake only asks for one look (`Woken`), which comes
  when the connection that appended has served all that it read, and before it is answered, or else in the loop's next turn. So a
  hundred appends of one read cost a parked fetch one look, and an append never runs somebody else's request inside its own.
- A look that finds too little parks again, on those partitions that forgot it; the deadline stays. The last look, at the
  deadline, has to answer.

The answer is a `Promise`: a future that tells at once, not in the loop's next turn. So a record reaches its consumer in the turn
that brought it, two earlier. Who gave up on the answer (a closed connection) cancels it, and that unparks everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from ottla.server.base.clock import Clock
from ottla.server.base.promise import Promise

T = TypeVar("T")


class Parkable(Protocol):
    """What one can wait for; server.replicas.Replica is one. A wake takes the entry out and calls it, once."""

    parked: dict[object, Callable[[], None]]


class Woken:
    """The parked requests of a broker that something happened to, until each has had its look."""

    __slots__ = ("_looks", "clock")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._looks: deque[Callable[[], None]] = deque()

    def add(self, look: Callable[[], None]) -> None:
        if not self._looks:
            self.clock.call_later(0, self.run)
        self._looks.append(look)

    def run(self) -> None:
        """Gives those that are here now their look; who is woken by that waits for the next run."""
        for _ in range(len(self._looks)):
            if self._looks:  # a look may end in another run
                self._looks.popleft()()


class Parked(Generic[T]):
    """One waiting request. `promise` is of its answer."""

    __slots__ = ("_asked_for_look", "_attempt", "_places", "_timer", "_woken", "promise")

    def __init__(self, woken: Woken, places: list[Parkable], max_wait_ms: int, attempt: Callable[[bool], T | None]) -> None:
        self.promise: Promise[T] = Promise()
        self._attempt = attempt
        self._woken = woken
        self._places = places
        self._asked_for_look = False
        for place in places:
            place.parked[self] = self._wake
        self._timer = woken.clock.call_later(max_wait_ms / 1000, self._time_is_up)
        self.promise.add_done_callback(self._unpark)

    def _wake(self) -> None:
        if not self._asked_for_look:
            self._asked_for_look = True
            self._woken.add(self._look)

    def _look(self) -> None:
        self._asked_for_look = False
        if self.promise.done():
            return
        self._try(last=False)
        if not self.promise.done():
            for place in self._places:
                place.parked.setdefault(self, self._wake)

    def _time_is_up(self) -> None:
        if not self.promise.done():
            self._try(last=True)

    def _try(self, *, last: bool) -> None:
        try:
            answer = self._attempt(last)
        except Exception as error:  # noqa: BLE001 - the request's own failure: whoever has the promise deals with it
            self.promise.set_exception(error)
            return
        if answer is not None:
            self.promise.set_result(answer)
        else:
            assert not last, "the last attempt has to answer"

    def _unpark(self, _: object) -> None:
        self._timer.cancel()
        for place in self._places:
            place.parked.pop(self, None)


def park(woken: Woken, places: Iterable[Parkable], max_wait_ms: int, attempt: Callable[[bool], T | None]) -> Promise[T]:
    """Answer by `attempt(last)`, called after each change at one of `places` until it returns something, and at the latest, with
    `last` true, after `max_wait_ms`; then it has to.
    """
    return Parked(woken, list(places), max_wait_ms, attempt).promise
