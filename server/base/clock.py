"""Time as a parameter: the interface of a clock, and its implementation by asyncio.

Nothing else in the server reads the time, sleeps, or gives asyncio a timeout: it gets a Clock as a parameter, and `wait_at_most`
for its waits. Tests pass a clock that stands still until the test advances it (tests/fakes.py), so that a session timeout of half
an hour is tested in no time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

SLICE_SECONDS: Final = 0.005
"""The time for which work that is done in slices may keep the event loop, not counting the rest of the step that it is in."""
TURN_NS: Final = int(SLICE_SECONDS * 1e9)
"""The same for one client, in ticks of the clock: a connection ends its turn then, and so does a request about many things
(turns.py). Nothing is interrupted, so what takes longer by itself belongs in a thread."""
FIRST_TURN_NS: Final = TURN_NS // 16
"""The length of a request's first turn while others wait for their next one, and of a turn if these are many."""
SPENT_TURN_NS: Final = FIRST_TURN_NS // 4
"""The length of a request's first turn in a round whose time is spent."""


class Cancellable(Protocol):
    """A scheduled callback that can be cancelled."""

    def cancel(self) -> None:
        """Cancels the callback. This does nothing if it has run already."""


class Turns:
    """Holds the works that wait for their next turn. All of them together have TURN_NS in one round of the event loop, one after
    the other, so that a hundred long requests keep everybody else waiting for no longer than one does. They share it, so that
    what is short is not behind a whole turn of each that is long.

    Nor may the first turns of what many clients send at the same time come all in one round: they have one or two times TURN_NS
    (`is_spent`), and what comes after that in the same round has little time, or waits for its first turn.

    What `call_soon` is given is called when the next round begins, before what that brings."""

    __slots__ = ("_call_soon", "_is_over", "_waiting", "first_turns_until")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[Callable[[int], None]] = deque()
        self.first_turns_until = 0
        """The time until which first turns need not ask whether the round's time is spent, in ticks of the clock."""
        self._is_over = True
        """True if the loop has ended the round in which that time began."""

    def is_spent(self, now_ns: int) -> bool:
        """Returns whether the first turns have had their time of this round."""
        if now_ns < self.first_turns_until:
            return False
        if not self._is_over:
            return True
        self.first_turns_until = now_ns + TURN_NS
        self._is_over = False
        self._call_soon(self._end_round)  # no timer: those run behind what the next round brings, which would count as this one's
        return False

    def _end_round(self) -> None:
        self._is_over = True

    def first_until(self, now_ns: int) -> int:
        """Returns when the first turn of a work ends that begins now, in ticks of the clock."""
        if self.is_spent(now_ns):
            return now_ns + SPENT_TURN_NS
        return now_ns + (FIRST_TURN_NS if self._waiting else TURN_NS)

    def queue(self, clock: Clock, go_on: Callable[[int], None]) -> None:
        """Calls `go_on` in one of the next rounds, with the time at which its turn ends, in ticks of the clock."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            clock.call_later(0, lambda: self._run(clock))

    def _run(self, clock: Clock) -> None:
        """Lets works go on until the round's time is over."""
        waiting, ticks = self._waiting, clock.ticks_ns
        now = ticks()
        until, share = now + TURN_NS, max(FIRST_TURN_NS, TURN_NS // len(waiting))
        try:
            for _ in range(len(waiting)):
                try:
                    waiting[0](min(until, now + share))
                finally:
                    waiting.popleft()  # only now, so that `queue` sees that a round is under way
                now = ticks()
                if now >= until:
                    break
        finally:
            if waiting:
                clock.call_later(0, lambda: self._run(clock))


class Clock(Protocol):
    """Gives the wall time, for what is stored, and monotonic time, for waiting."""

    turns: Turns
    """The line of those who wait for the next turn on the loop of this clock."""

    def now_ms(self) -> int:
        """Returns the wall time in milliseconds since 1970, as in records and checkpoints."""
        ...

    def monotonic(self) -> float:
        """Returns a time in seconds that never goes back."""
        ...

    def ticks_ns(self) -> int:
        """Returns nanoseconds that never go back, for how long something took."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Cancellable:
        """Runs `callback` on the event loop after `seconds`."""
        ...

    def call_pass(self, name: str, seconds: float, callback: Callable[[], Awaitable[object] | None]) -> Cancellable:
        """Runs a pass on the event loop after `seconds`: work over everything that is there, which asks for its next time by
        itself whenever it has ended. `callback` returns what to wait for if the pass goes on after it. `name` says what it does.

        A clock that is moved by days runs a pass once, and not at every time that it has jumped over (testkit/lives/steered.py).
        """
        ...


class LoopClock:
    """The clock of the running event loop, which must be running when this is made."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.turns = Turns(loop.call_soon)
        self.monotonic: Callable[[], float] = loop.time
        self._call_later = loop.call_later

    ticks_ns = staticmethod(time.perf_counter_ns)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Cancellable:
        return self._call_later(seconds, callback)

    def call_pass(self, name: str, seconds: float, callback: Callable[[], Awaitable[object] | None]) -> Cancellable:
        return self._call_later(seconds, callback)


class Bell:
    """Wakes a thread from its rest. A thread has no event loop whose clock it could wait by."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def rest(self, seconds: float) -> None:
        """Returns after `seconds`, or as soon as somebody rings, at once if somebody did since the last rest."""
        self._rung.wait(seconds)
        self._rung.clear()

    def ring(self) -> None:
        """Ends the rest. Any thread may call this."""
        self._rung.set()


async def sleep(clock: Clock, seconds: float) -> None:
    """Returns after `seconds` by the clock."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_later(seconds, lambda: None if over.done() else over.set_result(None))
    try:
        await over
    finally:
        timer.cancel()


async def wait_at_most(clock: Clock, seconds: float, futures: Iterable[asyncio.Future[Any]]) -> bool:
    """Waits until all `futures` are done, or until `seconds` have passed by the clock; returns whether all of them are done.

    It neither cancels a future nor raises its error. If all are done already, it returns without giving the loop a turn.
    """
    watched = tuple(future for future in futures if not future.done())
    if not watched:
        return True
    pending = set(watched)
    over = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    def note(future: asyncio.Future[Any]) -> None:
        pending.discard(future)
        if not pending:
            end()

    for future in watched:
        future.add_done_callback(note)
    timer = clock.call_later(seconds, end)
    try:
        await over
    finally:
        timer.cancel()
        for future in watched:
            future.remove_done_callback(note)
    return all(future.done() for future in watched)


def stop_thread(seconds: float) -> None:
    """Has the calling thread wait, and with it whatever runs there, as if for a slow disk. The broker itself never waits so."""
    time.sleep(seconds)
