"""Steps that wait for what others wait for, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, TypeVar

from ottla.server.base.clock import Clock
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def in_line(line: deque[Promise[None]], steps: Steps[T]) -> Steps[T]:
    """Takes steps once all that came to the line before have come to their end."""
    turn: Promise[None] = Promise()
    line.append(turn)
    try:
        if line[0] is not turn:
            yield turn
        return (yield from steps)
    finally:
        line.remove(turn)
        if line and not line[0].done():
            line[0].set_result(None)


def in_line_of(lines: dict[K, deque[Promise[None]]], key: K, steps: Steps[T]) -> Steps[T]:
    """Does the same in the line of a key, which there is as long as somebody stands in it."""
    line = lines.setdefault(key, deque())
    try:
        return (yield from in_line(line, steps))
    finally:
        if not line:
            del lines[key]


def wait_with_others(promise: Promise[Any] | None) -> Steps[None]:
    """Makes steps that wait until a promise is done, however it ends. Who gives up these steps cancels what they wait for
    (`take_steps`), which must not be the promise itself.
    """
    if promise is not None:
        waited: Promise[None] = Promise()
        promise.add_done_callback(lambda _: None if waited.done() else waited.set_result(None))
        yield waited


def take_to_the_end(steps: Steps[T], clock: Clock) -> T | Promise[T]:
    """Does what `take_steps` does, but goes on if nobody wants the answer any more: a client that has gone must not leave half of
    what it asked for."""
    answer = take_steps(steps, clock)
    return take_steps(_result_of(answer), clock) if isinstance(answer, Promise) else answer


def _result_of(promise: Promise[T]) -> Steps[T]:
    yield from wait_with_others(promise)
    return promise.result()
