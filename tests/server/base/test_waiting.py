"""Tests of waiting for what others wait for, too."""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.base.turns import take_steps
from ottla.server.base.waiting import wait_with_others
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
