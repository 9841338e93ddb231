"""Answers that may come later: a function returns either the answer itself or a `Promise` of it.

These functions make one answer of others. Where nothing has to wait, they make no promise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, cast

from ottla.server.base.promise import Promise

T = TypeVar("T")
U = TypeVar("U")


def map_answer(answer: T | Promise[T], make: Callable[[T], U]) -> U | Promise[U]:
    """Returns what `make` makes of the answer, or a promise of that if the answer comes later. The promise fails if `answer`
    fails or `make` raises.
    """
    if not isinstance(answer, Promise):
        return make(answer)
    made: Promise[U] = Promise()

    def settle(done: Promise[T]) -> None:
        if made.done():  # nobody waits any more
            return
        try:
            value = make(done.result())
        except Exception as error:  # noqa: BLE001 - for whoever waits for the promise
            made.set_exception(error)
        else:
            made.set_result(value)

    answer.add_done_callback(settle)
    return made


def combine_answers(answers: Sequence[T | Promise[T]], make: Callable[[list[T]], U]) -> U | Promise[U]:
    """Returns what `make` makes of all answers, or a promise of that if some of them come later. Those must not fail."""
    left = sum(isinstance(answer, Promise) for answer in answers)
    values = cast("list[T]", list(answers))
    if left == 0:
        return make(values)
    made: Promise[U] = Promise()

    def settle(index: int, done: Promise[T]) -> None:
        nonlocal left
        values[index] = done.result()
        left -= 1
        if left == 0 and not made.done():  # else nobody waits any more
            made.set_result(make(values))

    for index, answer in enumerate(answers):
        if isinstance(answer, Promise):
            answer.add_done_callback(partial(settle, index))
    return made
