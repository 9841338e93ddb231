"""Turns: work for one client that takes long is done piece by piece, and everybody else comes between two pieces.

The event loop serves one connection at a time, so whatever one request takes, all other clients wait for. A request about many
partitions, groups or topics is therefore answered item by item, and when a turn's time is over the rest is left for the loop's
next rounds (`answer_in_turns`); what has other steps than items is a generator (`take_steps`). All requests that wait for their
next turn share the time of one turn in a round (`Turns` in clock.py). One step that takes long by itself, such as decompressing
many megabytes, is done in a thread (`Workers`): the codecs let other threads run meanwhile.

Both give promises only where something really has to come later; a request that is done within its turn never knows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, cast

from ottla.server.base.answers import keep_running
from ottla.server.base.clock import Clock
from ottla.server.base.promise import InTurns, Promise

T = TypeVar("T")
U = TypeVar("U")

Awaited = Promise[Any] | asyncio.Future[Any]
"""The things that steps may wait for."""
Steps = Generator[Awaited | None, None, T]
"""Work in steps: a generator that yields None where it may pause, and a promise or a future where it has to wait for that."""

FEW: Final = 100
"""The answer about so many things is encoded within a turn."""
MAX_THREADS: Final = 2
"""The most jobs of clients in threads at once. It bounds the memory of what they unfold, and leaves the loop's other threads to
flushes."""


def answer_in_turns(
    items: Iterable[T], answer: Callable[[T], U | Promise[U]], clock: Clock, on_pause: Callable[[], object] | None = None
) -> list[U] | Promise[list[U]]:
    """Returns the answers to all items, in their order, or a promise of them if that takes longer than one turn.

    One item is answered after the other: the next one waits for a promised answer of the one before. `on_pause` is called once,
    before this returns a promise; it has to copy what of the request's frame is still needed. If `answer` raises, this raises or
    the promise fails, and the remaining items are not answered; nor are they once the promise is cancelled.
    """
    return take_steps(_answer_each(items, answer), clock, on_pause)


def _answer_each(items: Iterable[T], answer: Callable[[T], U | Promise[U]]) -> Steps[list[U]]:
    answers: list[U] = []
    for item in items:
        each = answer(item)
        if isinstance(each, Promise):
            yield each
            each = each.result()
        answers.append(each)
        yield None
    return answers


def answer_once(
    items: Iterable[T], answer: Callable[[T], U | Promise[U]], key: Callable[[T], Hashable] | None = None
) -> Steps[list[U]]:
    """Makes steps that return the answers to all items, in their order. Those with the same key get the same object, which is
    made once. The key is the item itself if `key` is None; where `key` returns None, the item shares its answer with no other.

    Promised answers are waited for at the end; they must not fail.
    """
    made: dict[Hashable, U | Promise[U]] = {}
    answers: list[U | Promise[U]] = []
    for item in items:
        known = item if key is None else key(item)
        if known is None:
            answers.append(answer(item))
        else:
            if known not in made:
                made[known] = answer(item)
            answers.append(made[known])
        yield None
    return (yield from all_kept(answers))


def one_kept(answer: T | Promise[T]) -> Steps[T]:
    """Makes steps that wait for an answer if it is promised, and return it."""
    if isinstance(answer, Promise):
        yield answer
        return answer.result()
    return answer


def all_kept(answers: Iterable[T | Promise[T]]) -> Steps[list[T]]:
    """Makes steps that wait for those answers that are promised, and return all."""
    kept: list[T] = []
    for each in answers:
        if isinstance(each, Promise):
            yield each
            kept.append(each.result())
        else:
            kept.append(each)
    return kept


def wait_in_steps(answer: Awaitable[T]) -> Steps[T]:
    """Makes steps that wait for an answer on which the loop works, whether or not these steps are taken to their end. What takes
    them (`take_steps`) promises an answer that may be long."""
    waited = asyncio.shield(keep_running(answer))
    yield waited
    return cast(T, waited.result())


def promise_if_long(answer: Awaitable[T], length: int, clock: Clock) -> Awaitable[T] | T | Promise[T]:
    """Returns an answer about so many things, on which the loop works. If they are more than FEW, it is promised by `take_steps`,
    so that a thread encodes it."""
    if length <= FEW:
        return answer
    promised: T | Promise[T] = take_steps(wait_in_steps(answer), clock)
    return promised


def in_runs(items: Sequence[T], length: int) -> Iterator[Sequence[T]]:
    """Yields the items in runs of so many, in their order."""
    for start in range(0, len(items), length):
        yield items[start : start + length]


def at_once(steps: Steps[T]) -> T:
    """Returns what steps return that are so few that they need not pause. They must not wait for anything."""
    try:
        while True:
            awaited = next(steps)
            assert awaited is None
    except StopIteration as end:
        return cast(T, end.value)


def take_steps(steps: Steps[T], clock: Clock, on_pause: Callable[[], object] | None = None) -> T | Promise[T]:
    """Returns what the steps return at last, or a promise of it if they take longer than one turn. `on_pause` and errors are as
    in `answer_in_turns`.
    """
    work = _Work(steps, clock)
    if work.go_on(clock.turns.first_until(clock.ticks_ns())):
        return cast(T, work.result)
    if on_pause is not None:
        on_pause()
    promise = work.promise = InTurns()
    promise.add_done_callback(lambda done: work.cancel() if done.cancelled() else None)
    return promise


def take_in_background(steps: Steps[None], clock: Clock) -> None:
    """Takes steps for whose end nobody waits. An error in a later turn is raised for the loop, which logs it."""
    taken: Promise[None] | None = take_steps(steps, clock)
    if taken is not None:
        taken.add_done_callback(lambda done: done.result())


class _Work(Generic[T]):
    """Holds how far `take_steps` has come with the steps of one request."""

    __slots__ = ("_clock", "_pending", "_steps", "promise", "result")

    def __init__(self, steps: Steps[T], clock: Clock) -> None:
        self._steps = steps
        self._clock = clock
        self._pending: Awaited | None = None
        self.promise: Promise[T] | None = None
        """None in the first turn."""
        self.result: T | None = None

    def go_on(self, until: int) -> bool:
        """Takes steps until the turn is over, at `until`, or one has to wait; returns whether all are taken. Raises what a step
        raises.
        """
        ticks = self._clock.ticks_ns
        try:
            while True:
                awaited = next(self._steps)
                if awaited is not None:
                    if not awaited.done():
                        self._pending = awaited
                        awaited.add_done_callback(self._go_on_later)
                        return False
                elif ticks() > until:
                    self._wait()
                    return False
        except StopIteration as end:
            self.result = end.value
            return True

    def _go_on_later(self, awaited: Awaited) -> None:
        self._pending = None
        if self.promise is None or not self.promise.done():  # if somebody else cancelled what was awaited, the next step raises
            self._wait()

    def _wait(self) -> None:
        self._clock.turns.queue(self._clock, self._next_turn)

    def _next_turn(self, until: int) -> None:
        promise = self.promise
        assert promise is not None
        if promise.done():  # the client has gone
            return
        try:
            finished = self.go_on(until)
        except Exception as error:  # noqa: BLE001 - for whoever waits for the promise
            promise.set_exception(error)
            return
        if finished:
            promise.set_result(cast(T, self.result))

    def cancel(self) -> None:
        """Gives up what the next step waits for, and lets go of what the steps hold."""
        if self._pending is not None:
            self._pending.cancel()
        self._steps.close()


def run_in_thread(job: Callable[[], T], done: Callable[[asyncio.Future[T]], object]) -> None:
    """Runs `job` in the running loop's thread pool and then calls `done`, on the loop, with how it ended."""
    asyncio.get_running_loop().run_in_executor(None, job).add_done_callback(done)


class Workers:
    """Runs jobs that take too long for the event loop in threads, `threads` at a time, in the order in which they came.

    `run` is `run_in_thread`, or what a test has in its place.
    """

    __slots__ = ("_free", "_run", "_waiting")

    def __init__(
        self,
        run: Callable[[Callable[[], Any], Callable[[asyncio.Future[Any]], object]], None] = run_in_thread,
        threads: int = MAX_THREADS,
    ) -> None:
        self._run = run
        self._free = threads
        self._waiting: deque[tuple[Callable[[], Any], Promise[Any]]] = deque()

    def run(self, job: Callable[[], T]) -> Promise[T]:
        """Returns a promise of what `job` returns, which fails with what it raises. A job whose promise is cancelled before a
        thread is free is not run.
        """
        promise: Promise[T] = Promise()
        self._waiting.append((job, promise))
        self._begin()
        return promise

    def _begin(self) -> None:
        while self._waiting and self._free:
            job, promise = self._waiting.popleft()
            if promise.done():
                continue
            self._free -= 1
            try:
                self._run(job, lambda future, promise=promise: self._ended(future, promise))  # type: ignore[misc]  # a lambda's default
            except RuntimeError as error:  # the system gives us no thread
                self._free += 1
                promise.set_exception(error)

    def _ended(self, future: asyncio.Future[T], promise: Promise[T]) -> None:
        self._free += 1
        self._begin()
        error = future.exception()
        if promise.done():  # the client has gone
            return
        if error is None:
            promise.set_result(future.result())
        elif isinstance(error, Exception):
            promise.set_exception(error)
        else:
            raise error


def call_in_thread(job: Callable[[], T], workers: Callable[[], Workers]) -> Steps[T]:
    """Makes steps that return what `job` returns, or raise what it raises. A thread calls it, or the loop if the system has no
    thread for us.
    """
    done = workers().run(job)
    yield done
    try:
        return done.result()
    except RuntimeError:
        return job()


def in_threads(steps: Generator[Callable[[], object] | None, None, T], workers: Callable[[], Workers]) -> Steps[T]:
    """Makes steps of a generator that yields None where it may pause, and where it has long work, a job that has to be done
    before its next step. The jobs run in threads; an error of a job is raised here, and ends the work."""
    while True:
        try:
            job = next(steps)
        except StopIteration as end:
            return cast(T, end.value)
        if job is None:
            yield None
        else:
            done = workers().run(job)
            yield done
            done.result()
