"""These tests cover delayed operations: they are woken when a partition grows, end when their time is up, and are dropped when
the answer is no longer wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ottla.server.base.clock import TURN_NS
from ottla.server.base.promise import Promise
from ottla.server.partitions.purgatory import FEW_PARTITIONS, DelayedOperation, Purgatory, Watch
from tests.fakes import ManualClock


class Partition:
    def __init__(self) -> None:
        self.watchers: dict[object, Callable[[], None]] = {}

    def grow(self) -> None:
        watchers, self.watchers = self.watchers, {}
        for wake in watchers.values():
            wake()


class Request:
    """A request that is answered once `enough` partitions have grown."""

    def __init__(self, enough: int = 1) -> None:
        self.enough = enough
        self.found = 0
        self.looks: list[bool] = []

    def attempt(self, last: bool) -> str | None:
        self.looks.append(last)
        return f"{self.found}" if last or self.found >= self.enough else None


async def scenario(enough: int = 1, partitions: int = 2) -> tuple[ManualClock, list[Partition], Request, Promise[str]]:
    clock, request = ManualClock(), Request(enough)
    watched = [Partition() for _ in range(partitions)]
    return clock, watched, request, Purgatory(clock).watch(watched, 500, request.attempt)


async def settle() -> None:
    """Waits for the done callbacks of futures, which run in the loop's next turn."""
    await asyncio.sleep(0)


def test_growth_wakes_in_the_next_turn_and_once_for_many_appends() -> None:
    async def run() -> None:
        clock, partitions, request, answer = await scenario()
        request.found = 7
        partitions[0].grow()
        partitions[1].grow()
        assert request.looks == []  # not inside the append
        clock.advance()
        await settle()
        assert answer.result() == "7"
        assert request.looks == [False]
        assert not any(partition.watchers for partition in partitions)
        assert clock.waiting == 0

    asyncio.run(run())


def test_too_little_watches_again_and_time_ends_it() -> None:
    async def run() -> None:
        clock, partitions, request, answer = await scenario(enough=3)
        for found in (1, 2):
            request.found = found
            partitions[0].grow()
            clock.advance(0.1)
            assert not answer.done()
            assert all(len(partition.watchers) == 1 for partition in partitions)
        clock.advance(0.299)
        assert not answer.done()
        clock.advance(0.002)
        assert answer.result() == "2"
        assert request.looks == [False, False, True]
        await settle()
        assert not any(partition.watchers for partition in partitions)

    asyncio.run(run())


def test_who_gives_up_is_forgotten() -> None:
    async def run() -> None:
        clock, partitions, request, answer = await scenario()
        partitions[1].grow()
        answer.cancel()
        await settle()
        assert not any(partition.watchers for partition in partitions)
        clock.advance(10)
        assert request.looks == []

    asyncio.run(run())


def test_a_failing_attempt_fails_the_request_alone() -> None:
    async def run() -> None:
        clock, partition = ManualClock(), Partition()
        failing = Purgatory(clock).watch([partition], 500, lambda last: 1 // 0)
        fine = Purgatory(clock).watch([partition], 500, lambda last: 42)
        partition.grow()
        clock.advance()
        assert fine.result() == 42
        with pytest.raises(ZeroDivisionError):
            failing.result()

    asyncio.run(run())


def test_a_check_comes_before_the_next_turn_where_somebody_runs_them() -> None:
    async def run() -> None:
        clock, partition, request = ManualClock(), Partition(), Request()
        purgatory = Purgatory(clock)
        answer = purgatory.watch([partition], 500, request.attempt)
        told: list[str] = []
        answer.add_done_callback(lambda done: told.append(done.result()))
        request.found = 3
        partition.grow()
        purgatory.run_checks()
        assert told == ["3"]
        purgatory.run_checks()
        clock.advance()  # what was asked for with the wake finds nothing left to do
        assert (told, request.looks) == (["3"], [False])

    asyncio.run(run())


def test_what_is_woken_by_a_check_waits_for_the_next_run() -> None:
    clock = ManualClock()
    purgatory, looks = Purgatory(clock), list[int]()

    def look() -> None:
        looks.append(len(looks))
        if len(looks) < 3:
            purgatory.schedule(look)

    purgatory.schedule(look)
    purgatory.run_checks()
    assert looks == [0]
    purgatory.run_checks()
    assert looks == [0, 1]
    clock.advance()
    assert looks == [0, 1, 2]


def test_a_check_may_end_in_another_run() -> None:
    purgatory, looks = Purgatory(ManualClock()), list[str]()

    def first() -> None:
        looks.append("first")
        purgatory.run_checks()

    purgatory.schedule(first)
    purgatory.schedule(lambda: looks.append("second"))
    purgatory.run_checks()
    assert looks == ["first", "second"]


class Woken:
    """Fetches that one partition wakes, of which each looks for a third of a turn, and notes its name."""

    def __init__(self) -> None:
        self.clock, self.partition, self.looks = ManualClock(), Partition(), list[str]()
        self.purgatory = Purgatory(self.clock)

    def look(self, name: str, last: bool) -> str | None:
        self.looks.append(name)
        self.clock.spend(TURN_NS / 3 / 1e9)
        return name if last else None

    def wait(self, length: int, *names: str) -> list[Promise[str]]:
        return [self.purgatory.watch([self.partition], 500, partial(self.look, name), length) for name in names]

    def seen(self) -> str:
        seen, self.looks = "".join(self.looks), []
        return seen

    def rounds(self) -> list[str]:
        """Lets the loop go on until all have looked; returns who did in each round."""
        rounds = list[str]()
        while not rounds or rounds[-1]:
            self.clock.run_round()
            rounds.append(self.seen())
        return rounds[:-1]


@pytest.mark.parametrize("length", [1, FEW_PARTITIONS + 1])
def test_many_that_are_woken_at_once_take_turns(length: int) -> None:
    woken = Woken()
    woken.wait(length, *"abcdefghi")
    woken.partition.grow()
    woken.purgatory.run_checks()
    assert woken.seen() == "abcd"
    woken.purgatory.run_checks()  # another client's, who keeps nobody waiting for a whole turn
    assert woken.seen() == ("e" if length == 1 else "")
    assert woken.rounds() == (["fghi"] if length == 1 else ["efgh", "i"])
    assert len(woken.partition.watchers) == 9
    assert woken.clock.waiting == 9, "the deadlines"


def test_long_ones_keep_no_short_one_waiting_and_come_to_their_turns() -> None:
    woken = Woken()
    woken.wait(FEW_PARTITIONS + 1, *"ABCDEF")
    woken.wait(FEW_PARTITIONS, *"ab")
    woken.partition.grow()
    woken.purgatory.run_checks()
    assert woken.seen() == "abAB"
    woken.wait(1, *"cdefg")
    woken.partition.grow()
    assert woken.rounds() == ["abcdefCg", "DEFA", "B"], "short ones have a look of their own, and both kinds have their turns"


def test_a_short_one_does_not_wait_for_the_turn_of_long_ones() -> None:
    woken = Woken()
    woken.wait(FEW_PARTITIONS + 1, *"ABCDEFGHI")
    woken.partition.grow()
    woken.purgatory.run_checks()
    assert woken.seen() == "ABCD"
    other = Partition()
    woken.purgatory.watch([other], 500, partial(woken.look, "a"), 1)
    timers = woken.clock.waiting
    other.grow()
    assert woken.clock.waiting == timers + 1, "a look in the next round, whenever the turn comes"


def test_those_of_many_partitions_with_the_same_deadline_take_turns() -> None:
    woken = Woken()
    answers = woken.wait(FEW_PARTITIONS + 1, *"abcdefghi")
    woken.clock.spend(0.5)
    woken.clock.run_round()
    assert woken.looks == [], "which timer is the last of them is not known"
    assert woken.rounds() == ["abcd", "efgh", "i"]
    assert [answer.result() for answer in answers] == list("abcdefghi")
    assert (woken.partition.watchers, woken.clock.waiting) == ({}, 0)


def test_one_check_needs_no_clock() -> None:
    woken = Woken()
    woken.wait(1, "a")
    woken.partition.grow()
    clock: Any = woken.clock
    clock.ticks_ns = lambda: 1 // 0
    woken.purgatory.run_checks()
    assert woken.seen() == "a"


def test_a_check_that_raises_keeps_no_other_from_its_turn() -> None:
    woken = Woken()
    fail: Any = lambda: 1 // 0  # noqa: E731
    woken.purgatory.schedule(fail)
    woken.wait(1, "a")
    woken.partition.grow()
    with pytest.raises(ZeroDivisionError):
        woken.purgatory.run_checks()
    assert woken.rounds() == ["a"]


def test_a_watch_says_that_something_has_changed_since_it_was_last_asked() -> None:
    clock, partition = ManualClock(), Partition()
    watch = Watch(clock, 500)
    watch.add(partition)
    first = watch.change()
    assert not first.done()
    partition.grow()
    assert first.done()
    partition.grow()  # it is not watched now
    assert not watch.change().done()
    watch.renew(partition)
    watch.renew(partition)
    partition.grow()
    watch.renew(partition)
    partition.grow()  # twice, before somebody asks
    assert watch.change().done()
    assert not watch.change().done()


def test_a_watch_ends_when_the_time_is_over_or_it_is_stopped() -> None:
    clock, partition = ManualClock(), Partition()
    watch = Watch(clock, 500)
    watch.add(partition)
    change = watch.change()
    clock.advance(0.499)
    assert (watch.expired, change.done()) == (False, False)
    clock.advance(0.001)
    assert (watch.expired, change.done()) == (True, True)
    assert partition.watchers
    watch.stop()
    assert not partition.watchers
    watch = Watch(clock, 500)
    watch.change().cancel()
    watch.stop()
    assert clock.waiting == 0


def test_a_watch_of_a_client_that_has_gone_wakes_nobody() -> None:
    partition = Partition()
    watch = Watch(ManualClock(), 500)
    watch.add(partition)
    watch.change().cancel()
    partition.grow()


@pytest.mark.parametrize("partitions", [2, FEW_PARTITIONS + 1])
def test_a_request_that_is_to_be_answered_early_is_so_in_the_next_turn(partitions: int) -> None:
    async def run() -> None:
        clock, request = ManualClock(), Request(3)
        watched = [Partition() for _ in range(partitions)]
        waiting = DelayedOperation(Purgatory(clock), watched, 500, request.attempt, partitions)
        waiting.expire_early()
        waiting.expire_early()
        assert request.looks == []
        clock.advance()
        assert waiting.promise.result() == "0"
        assert request.looks == [True]
        assert not any(partition.watchers for partition in watched)
        assert clock.waiting == 0

    asyncio.run(run())


def test_a_watch_may_end_early() -> None:
    clock = ManualClock()
    watch = Watch(clock, 500)
    change = watch.change()
    watch.expire_early()
    assert (change.done(), watch.expired, clock.waiting) == (True, True, 0)


class Pops:
    """A partition whose watchers count how many of all partitions were removed, and take time for it."""

    def __init__(self, clock: ManualClock, removed: list[object]) -> None:
        self.watchers: dict[object, Callable[[], None]] = SlowWatchers(clock, removed)


class SlowWatchers(dict[object, Callable[[], None]]):
    def __init__(self, clock: ManualClock, removed: list[object]) -> None:
        self._clock, self._removed = clock, removed

    def pop(self, key: object, *default: Any) -> Any:
        self._clock.spend(TURN_NS / 1e9 / FEW_PARTITIONS)
        self._removed.append(key)
        return super().pop(key, *default)


@pytest.mark.parametrize("in_turns", [False, True])
def test_many_that_go_at_the_same_time_stop_watching_in_turns(in_turns: bool) -> None:
    """Each of hundreds of clients that close their connections may watch a thousand partitions."""
    clock, removed = ManualClock(), list[object]()
    clock.advance(1)
    watched = [Pops(clock, removed) for _ in range(3 * FEW_PARTITIONS)]
    purgatory = Purgatory(clock)

    def wait() -> Callable[[], None]:
        if not in_turns:
            return purgatory.watch(watched, 500, Request(9).attempt).cancel
        watch = Watch(clock, 500)
        for partition in watched:
            watch.add(partition)
        return watch.stop

    for stop in [wait() for _ in range(10)]:
        before = len(removed)
        stop()
        assert len(removed) - before <= 2 * FEW_PARTITIONS
    woken = list(watched[-1].watchers.values())
    assert woken
    for wake in woken:
        wake()
    for _ in range(100):
        clock.run_round()
    assert len(removed) == 10 * len(watched)
    assert not any(partition.watchers for partition in watched)
