"""Answers that may come later: a function returns either the answer itself or a `Promise` of it.

These functions make one answer of others. Where nothing has to wait, they make no promise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from ottla.server.base.promise import Promise

T = TypeVar("T")
U = TypeVar("U")
E = TypeVar("E", bound=Exception)


def settle(promise: Promise[T], compute: Callable[[], T]) -> None:
    """Keeps `promise` with what `compute` returns, or breaks it with what that raises, unless nobody waits any more."""
    if promise.done():
        return
    try:
        value = compute()
    except Exception as error:  # noqa: BLE001 - for whoever waits for the promise
        promise.set_exception(error)
    else:
        promise.set_result(value)


def keep_running(answer: Awaitable[Any]) -> asyncio.Future[Any]:
    """Has the loop work on an answer, whoever waits for it: the loop itself keeps no reference to its tasks."""
    task = asyncio.ensure_future(answer)
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    return task


_under_way: set[asyncio.Future[Any]] = set()


def has_come(done: Promise[Any] | asyncio.Future[Any]) -> bool:
    """Returns whether what is done is an answer: it neither failed nor was cancelled."""
    if done.cancelled():
        return False
    return not done.failed if isinstance(done, Promise) else done.exception() is None


def map_answer(answer: T | Promise[T], make: Callable[[T], U]) -> U | Promise[U]:
    """Returns what `make` makes of the answer, or a promise of that if the answer comes later. The promise fails if `answer`
    fails or `make` raises.
    """
    if not isinstance(answer, Promise):
        return make(answer)
    made: Promise[U] = Promise()
    answer.add_done_callback(lambda done: settle(made, lambda: make(done.result())))
    return made


def combine_answers(answers: Sequence[T | Promise[T]], make: Callable[[list[T]], U]) -> U | Promise[U]:
    """Returns what `make` makes of all answers, or a promise of that if some of them come later. Those must not fail."""
    left = sum(isinstance(answer, Promise) for answer in answers)
    values = cast("list[T]", list(answers))
    if left == 0:
        return make(values)
    made: Promise[U] = Promise()

    def take(index: int, done: Promise[T]) -> None:
        nonlocal left
        values[index] = done.result()
        left -= 1
        if left == 0 and not made.done():  # else nobody waits any more
            made.set_result(make(values))

    for index, answer in enumerate(answers):
        if isinstance(answer, Promise):
            answer.add_done_callback(partial(take, index))
    return made


async def wait_for(answer: T | Promise[T]) -> T:
    """Returns the answer, and waits for it if it comes later. Raises the error with which its promise fails."""
    return await answer if isinstance(answer, Promise) else answer


def chain_answer(answer: T | Promise[T], go_on: Callable[[T], U | Promise[U]]) -> U | Promise[U]:
    """Returns what `go_on` returns for the answer, which may itself come later. The promise fails if one of the two fails or
    `go_on` raises; if it is cancelled, so is what `go_on` promised.
    """
    if not isinstance(answer, Promise):
        return go_on(answer)
    chained: Promise[U] = Promise()

    def take(done: Promise[T]) -> None:
        if chained.done():  # nobody waits any more
            return
        try:
            then = go_on(done.result())
        except Exception as error:  # noqa: BLE001 - for whoever waits for the promise
            chained.set_exception(error)
            return
        if isinstance(then, Promise):
            chained.add_done_callback(lambda outer: then.cancel() if outer.cancelled() else None)
            then.add_done_callback(lambda end: None if end.cancelled() else settle(chained, end.result))
        else:
            chained.set_result(then)

    answer.add_done_callback(take)
    return chained


def recover_answer(answer: T | Promise[T], kind: type[E] | tuple[type[E], ...], make: Callable[[E], U]) -> T | U | Promise[T | U]:
    """Returns the answer, or a promise of it; where `answer` is a promise that fails with an error of this kind, the answer is
    what `make` makes of the error. The promise fails if `answer` fails with another error or `make` raises.
    """
    if not isinstance(answer, Promise):
        return answer
    recovered: Promise[T | U] = Promise()

    def compute(done: Promise[T]) -> T | U:
        try:
            return done.result()
        except kind as error:
            return make(error)

    answer.add_done_callback(lambda done: settle(recovered, partial(compute, done)))
    return recovered
