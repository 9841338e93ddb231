"""The purgatory holds delayed operations: a fetch that finds less than its min.bytes waits here until a partition that it watches
grows or its time is up.

A `DelayedOperation` is one waiting request. It has a timer for its deadline, an entry among the `watchers` of each partition that
it asks for, and a function that attempts to answer. It is driven by wakes:

- A partition that grows removes all its watchers and wakes them. A wake only schedules one check in the `Purgatory`. The check
  runs when the connection that appended has handled everything it read, and before that connection is answered, or else in the
  event loop's next turn. So a hundred appends of one read cost a delayed fetch one check, and an append never runs another
  request inside its own.
- A check that still finds too little watches the partitions again that had removed the operation; its deadline stays. The attempt
  at the deadline must return an answer.
- One append may wake hundreds of fetches, and each may ask for hundreds of partitions. When checks have taken the time of one
  turn, the rest is queued with all other work that takes turns (`Turns` in server/base/clock.py). Those of few partitions are
  checked first, so that they do not wait for long ones. At its deadline a long one is scheduled like one that was woken.
- Where requests that wait keep too much memory together, the oldest are answered before their deadlines (`expire_early`;
  server/network/client_memory.py).

The answer is a `Promise`, which runs its callbacks at once, so a record reaches its consumer in the same turn of the loop that
brought it. When the answer is no longer wanted, because the connection was closed, the promise is cancelled, and the operation
stops watching, if that is of many partitions in turns, too: hundreds of clients may go at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from ottla.server.base.clock import Clock
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, in_runs, take_steps

T = TypeVar("T")

FEW_PARTITIONS: Final = 100
"""An attempt about so many is short: about 0.3 ms."""


class Watchable(Protocol):
    """Something that an operation can wait for: a partition (server/partitions/replica.py) or a share partition."""

    watchers: dict[object, Callable[[], None]]
    """The function to call when something changes, by owner. A wake removes the entry and calls the function once."""


class Purgatory:
    """The checks that are due for the delayed operations of a broker, because something happened to what they watch."""

    __slots__ = ("_checks", "_is_queued", "_long_checks", "clock")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._checks: deque[Callable[[], None]] = deque()
        self._long_checks: deque[Callable[[], None]] = deque()
        self._is_queued = False
        """True while a turn for those that are left is queued."""

    def watch(
        self,
        watched: Iterable[Watchable],
        max_wait_ms: int,
        attempt: Callable[[bool], T | None],
        length: int | None = None,
    ) -> Promise[T]:
        """Returns a promise of what `attempt(last)` returns. `attempt` is called after each change of one of `watched` until it
        returns something other than None, and after `max_wait_ms` with `last` true, when it must do so. `length` says about how
        many things an attempt is, if they are not those watched.
        """
        listed = list(watched)
        return DelayedOperation(self, listed, max_wait_ms, attempt, len(listed) if length is None else length).promise

    def schedule(self, check: Callable[[], None], *, is_long: bool = False) -> None:
        """Lets `check` be called once, by the next `run_checks`, in the event loop's next turn or, after many others, in one of
        the next turns. One that `is_long` comes after those that are not."""
        if not self._checks and not (is_long and self._long_checks):
            self.clock.call_later(0, self.run_checks)
        (self._long_checks if is_long else self._checks).append(check)

    def run_checks(self) -> None:
        """Runs the checks that are scheduled now, and queues what is left of them when one turn's time is over. Checks that these
        schedule in turn wait for the next run."""
        if self._long_checks or len(self._checks) > 1:
            until = self.clock.turns.first_until(self.clock.ticks_ns())
            try:
                if self._run_some(self._checks, until) and not self._is_queued:  # else the long ones have their turns
                    self._run_some(self._long_checks, until)
            finally:
                self._queue_rest()
        elif self._checks:  # one needs no clock
            self._checks.popleft()()

    def _run_some(self, checks: deque[Callable[[], None]], until: int) -> bool:
        """Runs those of the checks that are scheduled now, at least one; returns whether there was time for all."""
        ticks = self.clock.ticks_ns
        for _ in range(len(checks)):
            if checks:  # a check may itself have run the others
                checks.popleft()()
                if ticks() > until:
                    return False
        return True

    def _queue_rest(self) -> None:
        if not self._is_queued and (self._checks or self._long_checks):
            self._is_queued = True
            self.clock.turns.queue(self.clock, self._take_turn)

    def _take_turn(self, until: int) -> None:
        """Runs some checks of both kinds, so that neither keeps the other from its turn."""
        self._is_queued = False
        try:
            self._run_some(self._checks, until)
            self._run_some(self._long_checks, until)
        finally:
            self._queue_rest()


class Watch:
    """The watch of a delayed operation that attempts its answer in several turns (server/base/turns.py), because it asks for very
    many partitions. It ends when `max_wait_ms` have passed, or with `stop`.

    The operation watches first and then attempts, since a partition may grow between its turns.
    """

    __slots__ = ("_changed", "_clock", "_promise", "_timer", "expired", "is_woken", "watched")

    def __init__(self, clock: Clock, max_wait_ms: int) -> None:
        self.expired = False
        """True if the next attempt must return an answer."""
        self.is_woken = False
        """True if something may have changed since `change` was called last. The end of the time alone does not count, unless it
        came during an attempt."""
        self._changed = False
        self._promise: Promise[None] | None = None
        self.watched: list[Watchable] = []
        self._clock = clock
        self._timer = clock.call_later(max_wait_ms / 1000, self._expire)

    def add(self, watchable: Watchable) -> None:
        """Watches one more."""
        self.watched.append(watchable)
        self.renew(watchable)

    def renew(self, watchable: Watchable) -> None:
        """Watches one again that may have changed."""
        watchable.watchers.setdefault(self, self._note)

    def change(self) -> Promise[None]:
        """Returns a promise that is kept when something has changed since the last promise was kept, or the time is over."""
        promise: Promise[None] = Promise()
        self.is_woken = self._changed
        if self._changed:
            self._changed = False
            promise.set_result(None)
        else:
            self._promise = promise
        return promise

    def stop(self) -> None:
        """Watches nothing any more."""
        self._timer.cancel()
        _stop_watching(self, self.watched, self._clock)
        self.watched = []

    def expire_early(self) -> None:
        """Ends the time now."""
        self._timer.cancel()
        self._expire()

    def _note(self) -> None:
        self.is_woken = True
        self._wake()

    def _wake(self) -> None:
        promise, self._promise = self._promise, None
        if promise is None:
            self._changed = True
        elif not promise.done():  # else its client has gone
            promise.set_result(None)

    def _expire(self) -> None:
        self.expired = True
        self._wake()


class DelayedOperation(Generic[T]):
    """One waiting request. `promise` is kept with its answer."""

    __slots__ = ("_attempt", "_check_scheduled", "_is_expired", "_is_long", "_purgatory", "_timer", "_watched", "promise")

    def __init__(
        self,
        purgatory: Purgatory,
        watched: Sequence[Watchable],
        max_wait_ms: int,
        attempt: Callable[[bool], T | None],
        length: int,
    ) -> None:
        self.promise: Promise[T] = Promise()
        self._attempt = attempt
        self._purgatory = purgatory
        self._watched = watched
        self._check_scheduled = False
        self._is_long = length > FEW_PARTITIONS
        self._is_expired = False
        for watchable in watched:
            watchable.watchers[self] = self._wake
        self._timer = purgatory.clock.call_later(max_wait_ms / 1000, self._expire)
        self.promise.add_done_callback(self._stop_watching)

    def _wake(self) -> None:
        if not self._check_scheduled:
            self._check_scheduled = True
            self._purgatory.schedule(self._check, is_long=self._is_long)

    def _check(self) -> None:
        self._check_scheduled = False
        if self.promise.done():
            return
        self._try(last=self._is_expired)
        if not self.promise.done():
            for watchable in self._watched:
                watchable.watchers.setdefault(self, self._wake)

    def expire_early(self) -> None:
        """Has the request answered by the next check, whatever there is."""
        self._is_expired = True
        self._wake()

    def _expire(self) -> None:
        if self._is_long:  # there may be hundreds with the same deadline
            self.expire_early()
        elif not self.promise.done():
            self._try(last=True)

    def _try(self, *, last: bool) -> None:
        try:
            answer = self._attempt(last)
        except Exception as error:  # noqa: BLE001 - the request's own failure, which the promise's owner handles
            self.promise.set_exception(error)
            return
        if answer is not None:
            self.promise.set_result(answer)
        else:
            assert not last, "the last attempt must return an answer"

    def _stop_watching(self, _: object) -> None:
        self._timer.cancel()
        _stop_watching(self, self._watched, self._purgatory.clock)


def _stop_watching(owner: object, watched: Sequence[Watchable], clock: Clock) -> None:
    """Removes a watcher from everything that it watches, at once if that is not much. A wake before that does nothing."""
    if len(watched) <= FEW_PARTITIONS:
        for watchable in watched:
            watchable.watchers.pop(owner, None)
    else:
        take_steps(_stop_in_steps(owner, watched), clock)


def _stop_in_steps(owner: object, watched: Sequence[Watchable]) -> Steps[None]:
    for some in in_runs(watched, FEW_PARTITIONS):
        for watchable in some:
            watchable.watchers.pop(owner, None)
        yield None
