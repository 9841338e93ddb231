"""Passes run at their times, one of a kind at a time, and go on after a failure."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.clock import SLICE_SECONDS, Turns
from ottla.server.base.scheduler import Scheduler, flush_in_threads
from tests.fakes import MemoryBroker
from tests.log.support import batch


class Handle:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class StandingClock:
    """A scheduler that runs what is due only when the test asks for it."""

    def __init__(self) -> None:
        self.time = 0.0
        self.turns = Turns(partial(self.call_later, 0))
        self.due: list[tuple[float, Handle, Callable[[], object]]] = []

    def now_ms(self) -> int:
        return int(self.time * 1000)

    def monotonic(self) -> float:
        return self.time

    def ticks_ns(self) -> int:
        return round(self.monotonic() * 1_000_000_000)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Handle:
        handle = Handle()
        self.due.append((self.time + seconds, handle, callback))
        return handle

    def call_pass(self, name: str, seconds: float, callback: Callable[[], object]) -> Handle:
        return self.call_later(seconds, callback)

    def advance(self, seconds: float) -> None:
        self.time += seconds
        ready = [entry for entry in self.due if entry[0] <= self.time]
        self.due = [entry for entry in self.due if entry[0] > self.time]
        for _, handle, callback in ready:
            if not handle.cancelled:
                callback()


def test_a_pass_runs_every_interval() -> None:
    clock, ran = StandingClock(), []
    Scheduler(clock).every("retention", 300, lambda: ran.append(clock.now_ms()))
    clock.advance(0.299)
    assert ran == []
    clock.advance(0.001)
    clock.advance(0.3)
    assert ran == [300, 600]


def test_a_long_pass_gives_the_loop_a_turn_after_each_slice() -> None:
    clock, done = StandingClock(), []

    def steps() -> Iterator[None]:
        for number in range(7):
            clock.time += SLICE_SECONDS * 0.4
            done.append(number)
            yield

    async def turns() -> list[int]:
        scheduler = Scheduler(clock)
        scheduler.every("delete", 100, lambda: scheduler.in_slices(steps()))
        clock.advance(0.1)
        seen = [len(done)]
        while len(clock.due) == 0:
            await asyncio.sleep(0)
            if len(done) > seen[-1]:
                seen.append(len(done))
        return seen

    assert asyncio.run(turns()) == [3, 6, 7]


def test_a_short_pass_needs_no_task_and_a_stop_ends_a_long_one() -> None:
    clock, done = StandingClock(), []

    def steps(count: int) -> Iterator[None]:
        for number in range(count):
            clock.time += SLICE_SECONDS * 0.6
            done.append(number)
            yield

    async def stopped() -> None:
        scheduler = Scheduler(clock)
        assert scheduler.in_slices(steps(1)) is None
        scheduler.every("delete", 100, lambda: scheduler.in_slices(steps(9)))
        clock.advance(0.1)
        await scheduler.stop()

    asyncio.run(stopped())
    assert done == [0, 0, 1]


def test_what_a_pass_leaves_to_a_thread_is_done_before_its_next_step_and_before_a_stop_is_over() -> None:
    clock, done = StandingClock(), list[str]()
    loop_thread = threading.get_ident()

    def job() -> None:
        assert threading.get_ident() != loop_thread
        done.append("job")

    def steps() -> Iterator[Callable[[], None] | None]:
        yield job
        done.append("after it")
        clock.time += SLICE_SECONDS
        yield None
        done.append("after the stop")

    async def stopped() -> None:
        scheduler = Scheduler(clock)
        scheduler.every("checkpoint", 100, lambda: scheduler.in_slices(steps()))
        clock.advance(0.1)
        assert done == []
        await scheduler.stop()

    asyncio.run(stopped())
    assert done == ["job", "after it"]


def test_a_pass_that_fails_is_logged_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    clock, ran = StandingClock(), []

    def fail() -> None:
        ran.append(1)
        raise ZeroDivisionError

    Scheduler(clock).every("retention", 100, fail)
    with caplog.at_level(logging.ERROR):
        clock.advance(0.1)
        clock.advance(0.1)
    assert len(ran) == 2
    assert "the retention pass failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_what_the_disk_did_needs_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    clock = StandingClock()

    def fail() -> None:
        raise StorageError("no room")

    Scheduler(clock).every("retention", 100, fail)
    clock.advance(0.1)
    assert "no room" in caplog.text
    assert "Traceback" not in caplog.text


def test_an_async_pass_is_not_started_again_while_it_runs_and_is_waited_for_at_the_stop() -> None:
    async def scenario() -> None:
        clock, started, ended = StandingClock(), [], []
        gate = asyncio.Event()

        async def slow() -> None:
            started.append(1)
            await gate.wait()
            ended.append(1)

        scheduler = Scheduler(clock)
        scheduler.every("flush", 100, slow)
        clock.advance(0.1)
        await asyncio.sleep(0)
        clock.advance(0.1)
        await asyncio.sleep(0)
        assert len(started) == 1
        gate.set()
        await scheduler.stop()
        assert len(ended) == 1
        clock.advance(1)
        assert len(started) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "no descriptors"), ZeroDivisionError("a bug")])
def test_a_flush_that_fails_is_not_the_logs_last(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        broker = MemoryBroker({"safe": 1}, {"log.flush.interval.ms": "1"})
        log = broker.logs.logs["safe", 0]
        log.append_as_leader(batch(), leader_epoch=0)
        now_ms = broker.clock.now_ms() + 1000

        def fail(path: str) -> None:
            raise error

        monkeypatch.setattr(broker.disk, "sync_dir", fail)
        if isinstance(error, OSError):
            assert await flush_in_threads(Scheduler(StandingClock()), broker.logs, now_ms) == 0
        else:
            with pytest.raises(ZeroDivisionError):
                await flush_in_threads(Scheduler(StandingClock()), broker.logs, now_ms)
        assert log.unflushed == 1
        monkeypatch.undo()
        assert await flush_in_threads(Scheduler(StandingClock()), broker.logs, now_ms) == 1
        assert log.unflushed == 0

    asyncio.run(scenario())
