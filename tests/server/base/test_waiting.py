"""Tests of waiting for what others wait for, too."""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.base.waiting import take_to_the_end, wait_with_others
from tests.fakes import ManualClock


def test_nothing_is_not_waited_for() -> None:
    assert take_steps(wait_with_others(None), ManualClock()) is None


def test_it_ends_with_the_promise_however_that_ends() -> None:
    clock = ManualClock()
    promises: list[Promise[int]] = [Promise(), Promise(), Promise()]
    waiting = [take_steps(wait_with_others(promise), clock) for promise in promises]
    promises[0].set_result(1)
    promises[1].set_exception(ValueError())
    promises[2].cancel()
    clock.advance()
    assert [isinstance(each, Promise) and each.result() for each in waiting] == [None, None, None]


def test_who_gives_up_cancels_it_for_nobody_else() -> None:
    promise: Promise[int] = Promise()
    waiting = take_steps(wait_with_others(promise), ManualClock())
    assert isinstance(waiting, Promise)
    waiting.cancel()
    assert not promise.done()
    promise.set_result(1)


def test_what_is_begun_is_done_although_nobody_wants_the_answer_any_more() -> None:
    clock, later, done = ManualClock(), Promise[int](), list[str]()

    def steps() -> Steps[int]:
        yield later
        done.append("the rest")
        return later.result() + 1

    answers = [take_to_the_end(steps(), clock) for _ in range(2)]
    assert all(isinstance(each, Promise) for each in answers)
    answers[0].cancel()  # type: ignore[union-attr]  # it is a promise
    later.set_result(1)
    clock.advance()
    assert done == ["the rest"] * 2
    assert answers[1].result() == 2  # type: ignore[union-attr]  # likewise
