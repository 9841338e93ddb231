"""The clock of the event loop, and waiting by a clock, whichever that is."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from ottla.server.base.clock import (
    FIRST_TURN_NS,
    SPENT_TURN_NS,
    TURN_NS,
    Bell,
    Clock,
    LoopClock,
    sleep,
    stop_thread,
    wait_at_most,
)
from tests.fakes import ManualClock


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_the_loop_s_clock_goes_on_and_shows_the_time() -> None:
    async def scenario() -> None:
        clock: Clock = LoopClock()
        seconds, ticks = clock.monotonic(), clock.ticks_ns()
        rang = asyncio.Event()
        clock.call_later(3600, rang.set).cancel()
        clock.call_later(0.001, rang.set)
        await rang.wait()
        assert clock.monotonic() > seconds
        assert clock.ticks_ns() > ticks
        assert abs(clock.now_ms() - time.time() * 1000) < 60_000

    run(scenario)


def test_a_wait_ends_when_everything_is_done() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
        waiting = asyncio.ensure_future(wait_at_most(clock, 5, (first, second)))
        await asyncio.sleep(0)
        assert clock.waiting == 1
        first.set_result(None)
        second.set_exception(OSError("for a test"))
        assert await waiting
        assert clock.waiting == 0
        assert isinstance(second.exception(), OSError)

    run(scenario)


def test_a_wait_ends_when_the_clock_says_so_and_cancels_nothing() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        done, never = (asyncio.get_running_loop().create_future() for _ in range(2))
        waiting = asyncio.ensure_future(wait_at_most(clock, 5, (done, never)))
        await asyncio.sleep(0)
        done.set_result(None)
        clock.advance(4.9)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        clock.advance(0.1)
        assert not await waiting
        assert not never.done()

    run(scenario)


def test_what_is_done_as_the_time_is_over_counts() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        done = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(wait_at_most(clock, 5, (done,)))
        await asyncio.sleep(0)
        clock.advance(5)
        done.set_result(None)
        assert await waiting

    run(scenario)


def test_for_what_is_done_nobody_waits() -> None:
    async def scenario() -> None:
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        for futures in ((), (done,)):
            with pytest.raises(StopIteration) as ended:
                wait_at_most(ManualClock(), 5, futures).send(None)
            assert ended.value.value is True

    run(scenario)


def test_a_wait_that_is_cancelled_leaves_no_timer() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        never = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(wait_at_most(clock, 5, (never,)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert waiting.cancelled()
        assert clock.waiting == 0
        assert not never.done()

    run(scenario)


def test_sleeping_by_a_clock() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        sleeping = asyncio.ensure_future(sleep(clock, 5))
        await asyncio.sleep(0)
        clock.advance(4.9)
        await asyncio.sleep(0)
        assert not sleeping.done()
        clock.advance(0.1)
        await sleeping
        cancelled = asyncio.ensure_future(sleep(clock, 5))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert clock.waiting == 0

    run(scenario)


def test_a_bell_wakes_a_thread_that_rests_and_one_that_is_about_to() -> None:
    for ring_first in (True, False):
        bell = Bell()
        if ring_first:
            bell.ring()
        thread = threading.Thread(target=bell.rest, args=(3600,))
        thread.start()
        bell.ring()
        thread.join(30)
        assert not thread.is_alive()
    bell = Bell()
    bell.rest(0)
    bell.ring()
    bell.rest(3600)


def test_the_first_turns_of_a_round_have_at_most_twice_the_time_of_one() -> None:
    clock = ManualClock()
    turns = clock.turns

    def is_spent() -> bool:
        return turns.is_spent(clock.ticks_ns())

    clock.advance(1)
    assert not is_spent()
    clock.advance()  # the round ends in the middle of its time
    clock.spend(TURN_NS / 2 / 1e9)
    begun = clock.ticks_ns()
    while not is_spent() and clock.ticks_ns() < begun + 9 * TURN_NS:
        clock.spend(0.0001)
    assert TURN_NS <= clock.ticks_ns() - begun <= 2 * TURN_NS
    clock.spend(1)
    assert is_spent(), "as long as the round lasts"
    clock.advance()
    assert not is_spent()
    assert clock.waiting == 0


def test_what_a_round_brings_has_its_own_time_however_long_the_round_before_took() -> None:
    """A timer ends no round in time: it runs behind what the next round brings, and every other request of a client whose
    requests take longer than a turn would be put off although there is nobody else."""

    async def run() -> None:
        clock, ready, other = LoopClock(), *socket.socketpair()
        spent: list[bool] = []
        all_read = asyncio.Event()

        def read() -> None:
            ready.recv(1)
            spent.append(clock.turns.is_spent(clock.ticks_ns()))
            stop_thread(2 * TURN_NS / 1e9)
            other.send(b"x")
            if len(spent) == 4:
                all_read.set()

        with ready, other:
            asyncio.get_running_loop().add_reader(ready, read)
            other.send(b"x")
            await all_read.wait()
            asyncio.get_running_loop().remove_reader(ready)
        assert spent == [False] * 4

    asyncio.run(run())


def test_first_turns_are_short_if_others_wait_and_shorter_if_the_round_is_spent() -> None:
    clock = ManualClock()
    clock.advance(1)

    def length() -> int:
        return clock.turns.first_until(clock.ticks_ns()) - clock.ticks_ns()

    assert length() == TURN_NS
    clock.turns.queue(clock, lambda until: None)
    assert length() == FIRST_TURN_NS
    clock.spend(TURN_NS / 1e9)
    assert length() == SPENT_TURN_NS
    clock.advance()
    assert length() == TURN_NS
