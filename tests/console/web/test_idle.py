"""A console that nobody looks at ends, and one with an open stream does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.console.web.idle import IDLE_S, Idle
from tests.in_loop import in_loop


class Timers:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._armed: dict[object, tuple[float, Callable[[], None]]] = {}

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        timer = Timer(self._armed)
        self._armed[timer] = (self.now_s + delay_s, call)
        return timer

    def move(self, seconds: float) -> None:
        self.now_s += seconds
        for timer, (due_s, call) in list(self._armed.items()):
            if due_s <= self.now_s:
                del self._armed[timer]
                call()


class Timer:
    def __init__(self, armed: dict[object, Any]) -> None:
        self._armed = armed

    def cancel(self) -> None:
        self._armed.pop(self, None)


async def page(*_: Any) -> None:
    """Is answered at once."""


def counting(app: Callable[..., Any]) -> tuple[Idle, Timers, list[float]]:
    """Returns an application that counts, its time, and when it was over."""
    timers, over = Timers(), list[float]()
    idle = Idle(app, call_later=timers.call_later)
    idle.begin(lambda: over.append(timers.now_s))
    return idle, timers, over


@in_loop
async def test_it_ends_fifteen_minutes_after_the_last_request_and_once() -> None:
    idle, timers, over = counting(page)
    for _ in range(100):  # somebody who looks every 14 minutes
        timers.move(14 * 60)
        await idle({}, None, None)  # type: ignore[arg-type]  # which the page does not use
    assert not over
    timers.move(IDLE_S - 1)
    assert not over
    timers.move(1)
    assert over == [100 * 14 * 60 + 15 * 60]
    timers.move(10 * IDLE_S)
    assert len(over) == 1


@in_loop
async def test_one_that_nobody_asks_at_all_ends_as_well() -> None:
    _, timers, over = counting(page)
    timers.move(IDLE_S)
    assert over == [15 * 60]


@in_loop
async def test_it_does_not_end_while_a_stream_is_open() -> None:
    opened, closes = asyncio.Event(), asyncio.Event()

    async def stream(*_: Any) -> None:
        opened.set()
        await closes.wait()

    idle, timers, over = counting(stream)
    streams = [asyncio.ensure_future(idle({}, None, None)) for _ in range(2)]  # type: ignore[arg-type]  # no server reads or sends anything here
    await opened.wait()
    timers.move(3600)
    closes.set()
    await streams[0]
    await streams[1]
    assert not over
    timers.move(IDLE_S)
    assert over == [3600 + IDLE_S]
