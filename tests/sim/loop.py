"""An event loop whose time is made up: nothing ever waits, the clock jumps to the next timer.

It runs plain asyncio code. There are no descriptors and no threads: what a program gives to a thread pool runs on the loop, after
a delay that the seed decides, so that such jobs overlap with everything else in an order that can be repeated. If nothing is
left to do, `Idle` is raised instead of waiting for ever.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar

from ottla.server.base.clock import Turns

T = TypeVar("T")
_FORGOTTEN: Final = "Task was destroyed but it is pending!"

LIFE: contextvars.ContextVar[int] = contextvars.ContextVar("LIFE", default=0)
"""The life of the broker that runs now: what an earlier one left on the loop no longer counts. 0: no broker's code."""
_JOB_SECONDS: Final = (0.0, 0.0002, 0.003, 0.04)
"""The time that a job of a thread pool takes: at least one of these, and at most four times as much."""


class Idle(RuntimeError):
    """Nothing is ready and no timer runs, so nothing will ever happen again."""


class _Selector:
    """Stands where the loop asks the system for events, and moves the clock instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Idle("nothing is left to do")
        if timeout > 0:
            self._loop.jump()
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module's docstring. `errors` are the exceptions that nobody handled, with the broker's life they belong to."""

    def __init__(self, random: Random) -> None:
        self._now = 0.0
        super().__init__()
        self.set_debug(False)
        self._random = random
        self._selector = _Selector(self)
        self.errors: list[tuple[int, str]] = []
        self.set_exception_handler(self._note_error)

    def time(self) -> float:
        return self._now

    def jump(self) -> None:
        """Moves the clock to the next timer."""
        self._now = max(self._now, self._scheduled[0]._when)  # type: ignore[attr-defined]  # typeshed does not list it

    def _process_events(self, event_list: list[Any]) -> None:
        """Does nothing: there are none."""

    def _write_to_self(self) -> None:
        """Does nothing: no thread ever has to wake the loop."""

    def _note_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context.get("message") == _FORGOTTEN:
            return  # it belonged to a life that is over, and has been collected
        handle = context.get("handle")
        life = handle._context.get(LIFE, 0) if handle is not None else LIFE.get()
        self.errors.append((life, f"{context.get('message')}: {context.get('exception')!r}"))

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]  # any executor will do, none is used
        """Runs the job on the loop, a little later."""
        done: asyncio.Future[T] = self.create_future()
        least = self._random.choice(_JOB_SECONDS)
        self.call_later(self._random.uniform(least, 4 * least), _run_job, done, func, args)
        return done


def _run_job(done: asyncio.Future[T], func: Callable[..., T], args: tuple[Any, ...]) -> None:
    if done.cancelled():
        return
    try:
        result = func(*args)
    except BaseException as error:  # noqa: BLE001 - as a thread pool does
        done.set_exception(error)
    else:
        done.set_result(result)


class VirtualClock:
    """The clock of one life of a broker: when that is over, its timers no longer run. `now_ms` is the wall time, which may be set
    (`skew_ms`). `rate` is how fast it goes: 1.01 is a clock that gains a hundredth.
    """

    START_MS: Final = 1_700_000_000_000

    def __init__(self, loop: VirtualLoop, rate: float = 1.0) -> None:
        self._loop = loop
        self.turns = Turns(loop.call_soon)
        self._rate = rate
        self.alive = True
        self.skew_ms = 0

    def now_ms(self) -> int:
        return self.START_MS + round(self.monotonic() * 1000) + self.skew_ms

    def monotonic(self) -> float:
        return self._loop.time() * self._rate

    def ticks_ns(self) -> int:
        return round(self.monotonic() * 1_000_000_000)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds / self._rate, self._run, callback)

    def call_pass(self, name: str, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return self.call_later(seconds, callback)

    def _run(self, callback: Callable[[], object]) -> None:
        if self.alive:
            callback()
