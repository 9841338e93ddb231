"""Delayed operations: a fetch below its min.bytes waits in the purgatory until a partition that it watches grows, or time is up.

A `DelayedOperation` is one waiting request: a timer for its deadline, an entry among the `watchers` of each partition that it is
about, and a function that attempts to answer. Everything that happens in between is a wake:

- A partition that grows forgets all its watchers and wakes them. A wake only schedules one check in the `Purgatory`. The check
  comes when the connection that appended has served all that it read, and before it is answered, or else in the event loop's next
  turn. So a hundred appends of one read cost a delayed fetch one check, and an append never runs another request inside its own.
- A check that finds too little watches those partitions again that forgot the operation; its deadline stays. The attempt at the
  deadline has to answer.

The answer is a `Promise`, which runs its callbacks at once, so a record reaches its consumer in the turn of the loop that brought
it. Whoever gives up on the answer (a closed connection) cancels the promise, and nothing watches for it any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from ottla.server.base.clock import Clock
from ottla.server.base.promise import Promise

T = TypeVar("T")


class Watchable(Protocol):
    """What an operation can wait for: a partition (server/partitions/replica.py), or a share group's side of one."""

    watchers: dict[object, Callable[[], None]]
    """What to call when something changes, by owner. A wake takes the entry out and calls it, once."""


class Purgatory:
    """The delayed operations of a broker that something happened to, until each has had its check."""

    __slots__ = ("_checks", "clock")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._checks: deque[Callable[[], None]] = deque()

    def watch(self, watched: Iterable[Watchable], max_wait_ms: int, attempt: Callable[[bool], T | None]) -> Promise[T]:
        """Promises what `attempt(last)` returns. It is called after each change of one of `watched` until it returns something,
        and after `max_wait_ms` with `last` true, when it has to return something.
        """
        return DelayedOperation(self, list(watched), max_wait_ms, attempt).promise

    def schedule(self, check: Callable[[], None]) -> None:
        """Has `check` called once, by the next `run_checks` or in the event loop's next turn."""
        if not self._checks:
            self.clock.call_later(0, self.run_checks)
        self._checks.append(check)

    def run_checks(self) -> None:
        """Runs the checks that are scheduled now. Those which they schedule wait for the next run."""
        for _ in range(len(self._checks)):
            if self._checks:  # a check may end in another run
                self._checks.popleft()()


class DelayedOperation(Generic[T]):
    """One waiting request. `promise` is of its answer."""

    __slots__ = ("_attempt", "_check_scheduled", "_purgatory", "_timer", "_watched", "promise")

    def __init__(
        self, purgatory: Purgatory, watched: list[Watchable], max_wait_ms: int, attempt: Callable[[bool], T | None]
    ) -> None:
        self.promise: Promise[T] = Promise()
        self._attempt = attempt
        self._purgatory = purgatory
        self._watched = watched
        self._check_scheduled = False
        for each in watched:
            each.watchers[self] = self._wake
        self._timer = purgatory.clock.call_later(max_wait_ms / 1000, self._expire)
        self.promise.add_done_callback(self._stop_watching)

    def _wake(self) -> None:
        if not self._check_scheduled:
            self._check_scheduled = True
            self._purgatory.schedule(self._check)

    def _check(self) -> None:
        self._check_scheduled = False
        if self.promise.done():
            return
        self._try(last=False)
        if not self.promise.done():
            for each in self._watched:
                each.watchers.setdefault(self, self._wake)

    def _expire(self) -> None:
        if not self.promise.done():
            self._try(last=True)

    def _try(self, *, last: bool) -> None:
        try:
            answer = self._attempt(last)
        except Exception as error:  # noqa: BLE001 - the request's own failure, which the promise's owner deals with
            self.promise.set_exception(error)
            return
        if answer is not None:
            self.promise.set_result(answer)
        else:
            assert not last, "the last attempt has to answer"

    def _stop_watching(self, _: object) -> None:
        self._timer.cancel()
        for each in self._watched:
            each.watchers.pop(self, None)
