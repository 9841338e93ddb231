"""A clock that a test moves: forward by days at once, or not at all.

    clock = SteeredClock(LoopClock())
    await clock.advance(8 * 86_400)

It goes on with the clock that it is made of until it is told something else. Wall time and monotonic time are moved together, and
neither ever goes back.

What is armed by `call_later` for a time that is jumped over runs at its own moment: the clock stands at that moment while it runs
and for a few turns of the event loop, so that what it arms in turn has its own moment as well. What is armed by `call_pass` runs
once, at the end, for a pass looks at everything that is there. A week has 1.9 million times at which some pass would be due.

Work that is put off to the next turn of the loop (`call_later(0, ...)`) and what takes long in threads does not wait for this
clock, and ticks go on as always: nobody has the event loop for longer because the time stands still.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from ottla.server.base.clock import Cancellable, Clock

TURNS: Final = 3
"""The number of turns of the event loop that a timer gets before the clock moves on. In the first it does its work; what it put
off to the next turn, and whose future it kept, comes in the second, and what those write to the network in the third."""
EARLY_SECONDS: Final = 0.0005
"""The time by which a timer may ring too early: a loop that counts in milliseconds rounds."""
FEW: Final = 64
"""So many cancelled timers may wait for their time, whatever the number of others."""

Pass = Callable[[], Awaitable[object] | None]


class UnknownPass(LookupError):
    """No pass of this name is planned."""


class Moment(NamedTuple):
    """The time of a steered clock, for another one to go on from there."""

    ahead_s: float = 0.0
    """The seconds by which its monotonic time is ahead of that of the clock it is made of."""
    ahead_ms: int = 0
    """The same of the wall time."""
    standing: tuple[float, int] | None = None
    """The monotonic time, in seconds, and the wall time, in ms since 1970, at which it is frozen; None if it is not."""


class Jump(NamedTuple):
    """The timers and passes that have run because the clock was advanced."""

    timers: int
    passes: list[str]


class _Timer:
    """A function that is to run at some time, once. `name` is a pass's."""

    __slots__ = ("_callback", "_clock", "_handle", "name", "queued")

    def __init__(self, clock: SteeredClock, callback: Callable[[], object], name: str | None) -> None:
        self._clock = clock
        self._callback: Callable[[], object] | None = callback
        self._handle: Cancellable | None = None
        self.name = name
        self.queued = True  # it waits for its time

    @property
    def is_void(self) -> bool:
        return self._callback is None

    def cancel(self) -> None:
        was_void, self._callback = self.is_void, None
        if self.queued and not was_void:
            self._clock.note_cancelled()
        if self._handle is not None:
            self._handle.cancel()

    def run(self) -> Awaitable[object] | None:
        """Runs it unless it was cancelled; returns what to wait for if it is a pass that goes on."""
        callback, self._callback = self._callback, None
        result = None if callback is None else callback()
        return result if isinstance(result, Awaitable) else None

    def run_soon(self, clock: Clock) -> None:
        """Runs it in the next turn of the event loop."""
        self._handle = clock.call_later(0, self._begin)

    def _begin(self) -> None:
        result = self.run()
        self._clock.note_run()
        if result is not None and self.name is not None:
            self._clock.note_under_way(self.name, result)


class SteeredClock:
    """A Clock that a test moves; see the module's docstring. `moment` is where it begins."""

    def __init__(self, clock: Clock, moment: Moment = Moment()) -> None:  # noqa: B008 - it never changes
        self.turns = clock.turns
        self.ticks_ns = clock.ticks_ns
        self._clock = clock
        self._ahead_s, self._ahead_ms, self._standing = moment
        self._frozen = self._standing is not None
        self.on_run: Callable[[], object] | None = None
        """Is called after everything that this clock runs; None if nobody wants to know."""
        self._ended = False
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _Timer]] = []  # a heap
        self._cancelled = 0  # so many of them will not run
        self._alarm: tuple[float, Cancellable] | None = None  # the one timer of the clock below, and when it rings
        self._moving = asyncio.Lock()
        self._advancing = False
        self._under_way: dict[str, asyncio.Future[object]] = {}  # the passes that have begun and not ended

    # The Clock

    def now_ms(self) -> int:
        """See Clock."""
        return self._clock.now_ms() + self._ahead_ms if self._standing is None else self._standing[1]

    def monotonic(self) -> float:
        """See Clock."""
        return self._clock.monotonic() + self._ahead_s if self._standing is None else self._standing[0]

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Cancellable:
        """See Clock. What is not to be later at all runs in the loop's next turn, also if this clock stands."""
        if seconds > 0:
            return self._plan(seconds, callback, None)
        return self._clock.call_later(0, callback if self.on_run is None else partial(self._run_and_tell, callback))

    def call_pass(self, name: str, seconds: float, callback: Pass) -> Cancellable:
        """See Clock."""
        return self._plan(seconds, callback, name)

    def _run_and_tell(self, callback: Callable[[], object]) -> None:
        callback()
        self.note_run()

    def note_run(self) -> None:
        """Notes that something has run."""
        if self.on_run is not None:
            self.on_run()

    def _plan(self, seconds: float, callback: Callable[[], object], name: str | None) -> _Timer:
        due = self.monotonic() + seconds
        timer = _Timer(self, callback, name)
        if self._ended:
            timer.queued = False
            timer.cancel()
        else:
            heapq.heappush(self._timers, (due, next(self._order), timer))
            if self._alarm is None or due < self._alarm[0]:
                self._set_alarm()
        return timer

    def note_cancelled(self) -> None:
        """Notes that one more of those that wait will not run, and forgets these when they are the majority. A parked fetch
        leaves one, and if the clock is frozen none of them is ever due."""
        self._cancelled += 1
        if self._cancelled > max(FEW, len(self._timers) // 2):
            self._timers = [entry for entry in self._timers if not entry[2].is_void]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def note_under_way(self, name: str, result: Awaitable[object]) -> None:
        """Notes a pass that goes on in the background."""
        future = asyncio.ensure_future(result)
        self._under_way[name] = future
        future.add_done_callback(lambda _: self._end_pass(name))

    def _end_pass(self, name: str) -> None:
        self._under_way.pop(name, None)
        self.note_run()

    def _set_alarm(self) -> None:
        """Has the earliest timer ring, unless the clock stands."""
        if self._alarm is not None:
            self._alarm[1].cancel()
            self._alarm = None
        if self._timers and self._standing is None:
            due = self._timers[0][0]
            self._alarm = due, self._clock.call_later(max(due - self.monotonic(), 0), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        until = self.monotonic() + EARLY_SECONDS
        while self._timers and self._timers[0][0] <= until:
            timer = self._pop()
            if not timer.is_void:
                timer.run_soon(self._clock)
        self._set_alarm()

    def _pop(self) -> _Timer:
        timer = heapq.heappop(self._timers)[2]
        timer.queued = False
        self._cancelled -= timer.is_void
        return timer

    # What a test tells it

    @property
    def frozen(self) -> bool:
        """Returns whether it was told to stand still."""
        return self._frozen

    @property
    def offset_ms(self) -> int:
        """Returns how many ms its wall time is ahead of the real one; negative after it stood still."""
        return self._ahead_ms if self._standing is None else self._standing[1] - self._clock.now_ms()

    @property
    def moment(self) -> Moment:
        """The time at which it stands now."""
        return Moment(self._ahead_s, self._ahead_ms, self._standing)

    @property
    def passes(self) -> list[str]:
        """The names of the passes that are planned or under way, sorted."""
        planned = {timer.name for _, _, timer in self._timers if timer.name is not None and not timer.is_void}
        return sorted(planned | self._under_way.keys())

    def freeze(self) -> None:
        """Lets it stand still: nothing is due until it is advanced or goes on."""
        self._frozen = True
        self._stand(self.monotonic(), self.now_ms())

    def resume(self) -> None:
        """Lets it go on from where it stands."""
        self._frozen = False
        if not self._advancing:
            self._go_on()

    def end(self) -> None:
        """Forgets everything that was to run, because the broker that it was for is gone."""
        self._ended = True
        self._timers, self._cancelled = [], 0
        self._set_alarm()

    async def advance(self, seconds: float) -> Jump:
        """Moves it forward, as the module's docstring says, and returns what has run. Two advances come one after the other."""
        async with self._moving:
            self._advancing = True
            self._stand(self.monotonic(), self.now_ms())  # or the real time could go past the end while it is moved
            until_s, until_ms = self.monotonic() + seconds, self.now_ms() + round(seconds * 1000)
            timers, passes = 0, list[_Timer]()
            try:
                while self._timers and self._timers[0][0] <= until_s:
                    due = max(self._timers[0][0], self.monotonic())
                    timer = self._pop()
                    if timer.is_void:
                        continue
                    if timer.name is not None:
                        passes.append(timer)
                        continue
                    self._stand(due, until_ms - round((until_s - due) * 1000))
                    timer.run_soon(self._clock)
                    timers += 1
                    await _take_turns()
                self._stand(until_s, until_ms)
            finally:
                self._advancing = False
                if not self._frozen:
                    self._go_on()
                names = [timer.name for timer in passes if timer.name is not None and not timer.is_void]
                for timer in passes:
                    if not timer.is_void:
                        timer.run_soon(self._clock)
            await _take_turns()
            await self._settle(names)
        return Jump(timers, names)

    async def run_pass(self, name: str) -> None:
        """Runs a pass now and returns when it has ended. Raises UnknownPass."""
        async with self._moving:
            await self._settle([name])
            planned = (entry for entry in self._timers if entry[2].name == name and not entry[2].is_void)
            entry = next(planned, None)
            if entry is None:
                raise UnknownPass(name)
            self._timers.remove(entry)
            heapq.heapify(self._timers)
            entry[2].queued = False
            entry[2].run_soon(self._clock)
            await _take_turns()
            await self._settle([name])

    async def _settle(self, names: list[str]) -> None:
        """Waits until these passes have ended."""
        under_way = [self._under_way[name] for name in names if name in self._under_way]
        if under_way:
            await asyncio.wait(under_way)
            await _take_turns()

    def _stand(self, monotonic_s: float, now_ms: int) -> None:
        self._standing = monotonic_s, now_ms
        self._set_alarm()

    def _go_on(self) -> None:
        if self._standing is not None:
            self._ahead_s = self._standing[0] - self._clock.monotonic()
            self._ahead_ms = self._standing[1] - self._clock.now_ms()
            self._standing = None
        self._set_alarm()


async def _take_turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)
