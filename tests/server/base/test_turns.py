"""Turns: long requests are answered item by item with others between, and long items in threads, few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest

from ottla.server.base.clock import FIRST_TURN_NS, TURN_NS, LoopClock
from ottla.server.base.promise import InTurns, Promise
from ottla.server.base.turns import (
    FEW,
    MAX_THREADS,
    Steps,
    Workers,
    answer_in_turns,
    answer_once,
    at_once,
    call_in_thread,
    in_threads,
    one_kept,
    promise_if_long,
    take_in_background,
    take_steps,
)
from tests.fakes import ManualClock, Threads
from tests.noted import noted

HALF_A_TURN = TURN_NS / 2 / 1e9


class Slow:
    """Answers an item with its square, which takes half a turn."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.answered: list[int] = []
        self.pauses = 0

    def answer(self, item: int) -> int | Promise[int]:
        self.answered.append(item)
        self.clock.spend(HALF_A_TURN)
        return item * item

    def pause(self) -> None:
        self.pauses += 1


def test_what_fits_into_a_turn_is_answered_at_once() -> None:
    slow = Slow()
    assert answer_in_turns([1, 2], slow.answer, slow.clock, slow.pause) == [1, 4]
    assert answer_in_turns([], slow.answer, slow.clock, slow.pause) == []
    assert (slow.pauses, slow.clock.waiting) == (0, 0)


def test_few_steps_need_no_pause() -> None:
    def steps() -> Steps[int]:
        yield None
        yield None
        return 3

    def waiting() -> Steps[None]:
        yield Promise()

    assert at_once(steps()) == 3
    with pytest.raises(AssertionError):
        at_once(waiting())


def test_the_rest_is_answered_in_later_turns() -> None:
    slow = Slow()
    promise = answer_in_turns([1, 2, 3, 4, 5, 6, 7], slow.answer, slow.clock, slow.pause)
    assert isinstance(promise, Promise)
    assert (slow.answered, slow.pauses, slow.clock.waiting) == ([1, 2, 3], 1, 1)
    slow.clock.advance()
    assert (slow.answered, promise.done()) == ([1, 2, 3, 4, 5, 6], False)
    slow.clock.advance()
    assert promise.result() == [1, 4, 9, 16, 25, 36, 49]
    assert (slow.pauses, slow.clock.waiting) == (1, 0)


def test_the_next_item_waits_for_a_promised_answer() -> None:
    slow = Slow()
    later: Promise[int] = Promise()
    done: Promise[int] = Promise()
    done.set_result(5)
    promise = answer_in_turns([0, 1, 2], [done, later, 7].__getitem__, slow.clock, slow.pause)
    assert isinstance(promise, Promise)
    assert slow.pauses == 1
    later.set_result(6)
    assert not promise.done()  # not within the call that kept the promise
    slow.clock.advance()
    assert promise.result() == [5, 6, 7]


def test_an_error_in_the_first_turn_is_raised_and_a_later_one_fails_the_promise() -> None:
    slow = Slow()

    def answer(item: int) -> int | Promise[int]:
        return slow.answer(1 // item)

    with pytest.raises(ZeroDivisionError):
        answer_in_turns([1, 0], answer, slow.clock)
    promise = answer_in_turns([1, 1, 1, 0, 1], answer, slow.clock)
    assert isinstance(promise, Promise)
    slow.clock.advance()
    assert promise.failed
    assert slow.clock.waiting == 0


def test_a_promised_answer_that_fails_fails_the_promise() -> None:
    slow = Slow()
    later: Promise[int] = Promise()
    promise = answer_in_turns([later, slow.answer(1)], lambda item: item, slow.clock)
    assert isinstance(promise, Promise)
    later.set_exception(ZeroDivisionError())
    slow.clock.advance()
    with pytest.raises(ZeroDivisionError):
        promise.result()


def test_what_nobody_waits_for_any_more_is_not_answered() -> None:
    slow = Slow()
    promise = answer_in_turns([1, 2, 3, 4], slow.answer, slow.clock)
    assert isinstance(promise, Promise)
    promise.cancel()
    slow.clock.advance()
    assert slow.answered == [1, 2, 3]
    later: Promise[int] = Promise()
    waiting = answer_in_turns([later, 1], lambda item: item, slow.clock)
    assert isinstance(waiting, Promise)
    waiting.cancel()
    assert later.cancelled()
    assert slow.clock.waiting == 0


def test_a_promise_that_somebody_else_cancels_fails_the_work_instead_of_leaving_it_for_ever() -> None:
    slow = Slow()
    later: Promise[int] = Promise()
    promise = answer_in_turns([later, 1], lambda item: item, slow.clock)
    assert isinstance(promise, Promise)
    later.cancel()
    slow.clock.advance()
    assert promise.failed


# Other steps


def test_steps_are_taken_as_items_are() -> None:
    slow = Slow()

    def steps(last: int) -> Steps[int]:
        for at in range(last):
            slow.answer(at)
            yield None
        return last

    assert take_steps(steps(2), slow.clock, slow.pause) == 2
    slow.clock.advance()
    promise = take_steps(steps(4), slow.clock, slow.pause)
    assert isinstance(promise, Promise)
    assert (slow.answered, slow.pauses) == ([0, 1, 0, 1, 2], 1)
    slow.clock.advance()
    assert promise.result() == 4


def test_steps_whose_client_has_gone_let_go_of_what_they_hold() -> None:
    slow = Slow()
    ended = []

    def steps() -> Steps[None]:
        try:
            for at in range(5):
                slow.answer(at)
                yield None
        finally:
            ended.append(True)

    promise = take_steps(steps(), slow.clock)
    assert isinstance(promise, Promise)
    promise.cancel()
    assert ended == [True]
    slow.clock.advance()
    assert slow.answered == [0, 1, 2]


def test_what_is_named_again_is_made_once() -> None:
    made: list[str] = []
    answers = take_steps(answer_once(["a", "b", "a", ""], noted(made, lambda name: [name])), ManualClock())
    assert isinstance(answers, list)
    assert (answers, made) == ([["a"], ["b"], ["a"], [""]], ["a", "b", ""])
    assert answers[0] is answers[2]


def test_what_has_the_same_key_is_made_once_and_what_has_none_each_time() -> None:
    made: list[int] = []
    answers = take_steps(answer_once([1, 3, 2, 5, 4], noted(made, int), lambda number: number % 2 or None), ManualClock())
    assert (answers, made) == ([1, 1, 2, 1, 4], [1, 2, 4])


def test_what_is_promised_for_several_items_is_waited_for_at_the_end() -> None:
    clock, made = ManualClock(), list[str]()
    later: Promise[str] = Promise()

    def answer(name: str) -> str | Promise[str]:
        made.append(name)
        return later if name == "late" else name

    promise = take_steps(answer_once(["a", "late", "late", "b"], answer), clock)
    assert isinstance(promise, Promise)
    assert made == ["a", "late", "b"]
    later.set_result("c")
    clock.advance()
    assert promise.result() == ["a", "c", "c", "b"]


def test_long_steps_are_done_in_threads() -> None:
    threads, slow = Threads(), Slow()
    workers = Workers(threads.run)
    done: list[int] = []

    def search() -> Generator[Callable[[], object] | None, None, str]:
        yield None
        yield partial(done.append, 1)
        assert done == [1]
        yield partial(done.append, 2)
        return "found"

    promise = take_steps(in_threads(search(), lambda: workers), slow.clock)
    assert isinstance(promise, Promise)
    for at in (1, 2):
        assert (len(done), len(threads.jobs), promise.done()) == (at - 1, 1, False)
        threads.end_first()
        slow.clock.advance()
    assert promise.result() == "found"
    assert take_steps(in_threads((None for _ in range(2)), lambda: workers), slow.clock) is None


def test_a_long_step_that_raises_ends_the_work() -> None:
    threads, slow = Threads(), Slow()
    workers = Workers(threads.run)

    def search() -> Generator[Callable[[], object] | None, None, str]:
        yield lambda: 1 // 0
        return "not done"

    promise = take_steps(in_threads(search(), lambda: workers), slow.clock)
    assert isinstance(promise, Promise)
    threads.end_first()
    slow.clock.advance()
    with pytest.raises(ZeroDivisionError):
        promise.result()


# Threads


def test_few_jobs_run_at_a_time_and_in_order() -> None:
    threads = Threads()
    workers = Workers(threads.run)
    promises = [workers.run(lambda at=at: at) for at in range(MAX_THREADS + 2)]  # type: ignore[misc]  # a lambda's default
    assert len(threads.jobs) == MAX_THREADS
    for at in range(MAX_THREADS + 2):
        assert [promise.done() for promise in promises] == [before < at for before in range(MAX_THREADS + 2)]
        threads.end_first()
    assert [promise.result() for promise in promises] == list(range(MAX_THREADS + 2))
    assert not threads.jobs


def test_a_job_that_raises_fails_its_promise_and_frees_its_thread() -> None:
    threads = Threads()
    workers = Workers(threads.run)
    promises = [workers.run(lambda: 1 // 0) for _ in range(MAX_THREADS + 1)]
    for _ in promises:
        threads.end_first()
    assert all(promise.failed for promise in promises)


def test_a_thread_that_the_system_does_not_give_fails_the_job_and_is_asked_for_again() -> None:
    threads = Threads()
    refusals = list(range(MAX_THREADS + 1))

    def run(job: Callable[[], object], done: Callable[[asyncio.Future[Any]], object]) -> None:
        if refusals:
            refusals.pop()
            raise RuntimeError("can't start new thread")
        threads.run(job, done)

    workers = Workers(run)
    assert all(workers.run(int).failed for _ in range(MAX_THREADS + 1))
    promise = workers.run(lambda: 7)
    threads.end_first()
    assert promise.result() == 7


def test_a_job_that_no_thread_takes_is_done_here() -> None:
    def refuse(job: object, done: object) -> None:
        raise RuntimeError("can't start new thread")

    assert take_steps(call_in_thread(lambda: 7, lambda: Workers(refuse)), ManualClock()) == 7
    threads = Threads()
    promise = take_steps(call_in_thread(lambda: 7 // 0, lambda: Workers(threads.run)), clock := ManualClock())
    assert isinstance(promise, Promise)
    threads.end_first()
    clock.advance()
    with pytest.raises(ZeroDivisionError):
        promise.result()


def test_a_job_that_nobody_waits_for_is_not_begun() -> None:
    threads = Threads()
    workers = Workers(threads.run)
    begun: list[int] = []
    promises = [workers.run(lambda at=at: begun.append(at)) for at in range(MAX_THREADS + 2)]  # type: ignore[misc]  # a lambda's default
    promises[0].cancel()
    promises[MAX_THREADS].cancel()
    for _ in range(MAX_THREADS + 1):
        threads.end_first()
    assert begun == [at for at in range(MAX_THREADS + 2) if at != MAX_THREADS]
    assert promises[-1].done()


def test_a_job_in_a_real_thread() -> None:
    async def run() -> None:
        assert await Workers().run(lambda: 6 * 7) == 42
        with pytest.raises(ZeroDivisionError):
            await Workers().run(lambda: 1 // 0)

    asyncio.run(run())


def test_all_works_that_wait_share_one_turn_in_a_round() -> None:
    """Otherwise a hundred long requests would keep everybody else waiting for a hundred turns."""
    slow = Slow()
    promises = [answer_in_turns(range(7), slow.answer, slow.clock) for _ in range(4)]
    assert slow.answered == [0, 1, 2, 0, 0, 0]  # while one waits, the first turns of others are short
    while not all(isinstance(promise, Promise) and promise.done() for promise in promises):
        before = len(slow.answered)
        slow.clock.advance()
        assert len(slow.answered) - before <= 3
    assert [promise.result() for promise in promises if isinstance(promise, Promise)] == [[each * each for each in range(7)]] * 4
    assert slow.clock.waiting == 0
    assert isinstance(answer_in_turns([1, 2], slow.answer, slow.clock), list)


def test_works_take_turns_one_after_the_other() -> None:
    slow = Slow()
    for first in (10, 20):
        answer_in_turns(range(first, first + 9), slow.answer, slow.clock)
    slow.answered.clear()
    for _ in range(4):
        slow.clock.advance()
    assert slow.answered[:6] == [13, 14, 21, 22, 15, 16]


def test_what_is_short_is_not_behind_whole_turns_of_what_is_long() -> None:
    """Otherwise each piece of a large answer that is being sent would wait half a second behind a hundred long requests."""
    clock = ManualClock()
    until: list[int] = []

    def work(given: int) -> None:
        until.append(given - clock.ticks_ns())
        clock.spend((given - clock.ticks_ns()) / 1e9)

    for _ in range(20):
        clock.turns.queue(clock, work)
    clock.run_round()
    assert until == [FIRST_TURN_NS] * 16
    clock.run_round()
    assert until[16:] == [TURN_NS // 4] * 4
    clock.turns.queue(clock, work)
    clock.run_round()
    assert until[20:] == [TURN_NS]


def test_a_callback_that_raises_does_not_keep_the_others_from_their_turns() -> None:
    clock = ManualClock()
    called: list[int] = []

    def fail(until: int) -> None:
        raise KeyboardInterrupt

    clock.turns.queue(clock, fail)
    clock.turns.queue(clock, called.append)
    with pytest.raises(KeyboardInterrupt):
        clock.advance()
    clock.advance()
    assert called == [clock.ticks_ns() + TURN_NS]


@pytest.mark.parametrize(("length", "is_promised"), [(0, False), (FEW, False), (FEW + 1, True)])
def test_an_answer_about_many_things_is_promised(length: int, is_promised: bool) -> None:
    """So a thread encodes it; one about few is left as it is."""

    async def answer() -> str:
        return "all of them"

    async def scenario() -> None:
        answering = answer()
        given: Any = promise_if_long(answering, length, LoopClock())
        assert (given is answering, type(given) is InTurns) == (not is_promised, is_promised)
        assert await given == "all of them"

    asyncio.run(scenario())


def test_one_answer_is_waited_for_only_if_it_is_promised() -> None:
    later: Promise[int] = Promise()
    assert at_once(one_kept(1)) == 1

    def answer() -> int | Promise[int]:
        return later

    waiting = take_steps(one_kept(answer()), clock := ManualClock())
    later.set_result(2)
    clock.advance()
    assert isinstance(waiting, Promise)
    assert waiting.result() == 2


def test_an_error_in_the_background_is_raised_for_the_loop() -> None:
    later: Promise[None] = Promise()

    def steps() -> Steps[None]:
        yield later
        raise ZeroDivisionError

    take_in_background(steps(), clock := ManualClock())
    later.set_result(None)
    with pytest.raises(ZeroDivisionError):
        clock.advance()
