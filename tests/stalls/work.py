"""Counts work instead of measuring time: every call of a function and every return from one is a unit.

The interpreter counts by itself: a profiler asks its timer at each call and return, of functions in Python and in C alike, and
the timer is a counter. So the same code does the same work on every machine, and the broker's clock can be made of work: a turn
ends after so many units, and always at the same place.
"""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import itertools
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, TypeVar

from tests.sim.loop import VirtualClock, VirtualLoop

T = TypeVar("T")

UNITS_A_SECOND: Final = 10_000_000
"""So much work takes a second, about: the interpreter does 4 to 16 million units, depending on what is between them."""


class Work:
    """Counts while it is entered."""

    def __init__(self) -> None:
        counter = itertools.count()
        self._next = counter.__next__
        self._profiler = cProfile.Profile(self._next, 1.0)

    @property
    def units(self) -> int:
        """Returns the work so far, and counts as a unit."""
        return self._next()

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Does not count as long as this is entered."""
        self._profiler.disable()
        yield
        self._profiler.enable()

    def __enter__(self) -> None:
        self._profiler.enable()

    def __exit__(self, *error: object) -> None:
        self._profiler.disable()


class Time(Work):
    """Measures instead, in the same units, which is for people."""

    @property
    def units(self) -> int:
        return time.perf_counter_ns() * UNITS_A_SECOND // 1_000_000_000

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, *error: object) -> None:
        """Does nothing."""


class WorkLoop(VirtualLoop):
    """A virtual loop that knows the most work which it did between two looks at what has come from the network."""

    def __init__(self, work: Work) -> None:
        super().__init__(Random(16))
        self._work = work
        self._looked_at = 0
        self.longest = 0

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]  # as in VirtualLoop
        """Runs the job on the loop, a little later; its work is not counted, because it keeps nobody waiting."""

        def uncounted(*args: Any) -> T:
            with self._work.pause():
                return func(*args)

        return super().run_in_executor(executor, uncounted, *args)

    def forget(self) -> None:
        """Begins anew."""
        self._looked_at = self._work.units
        self.longest = 0

    def _process_events(self, event_list: list[Any]) -> None:
        now = self._work.units
        self.longest = max(self.longest, now - self._looked_at)
        self._looked_at = now


class WorkClock(VirtualClock):
    """Its ticks are work, `scale` times as fast as it takes."""

    def __init__(self, loop: WorkLoop, work: Work, scale: int) -> None:
        super().__init__(loop)
        self._work = work
        self._ns = 1_000_000_000 * scale // UNITS_A_SECOND

    def ticks_ns(self) -> int:
        return self._work.units * self._ns
