"""Answers that are made of others: at once if these are there, and otherwise by a promise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.server.base.answers import chain_answer, combine_answers, has_come, map_answer, recover_answer, wait_for
from ottla.server.base.promise import Promise


def text(value: int) -> str:
    return str(value)


def broken(value: int) -> int:
    return value // 0  # raises ZeroDivisionError


def go_to(then: Promise[str]) -> Callable[[int], str | Promise[str]]:
    return lambda _: then


def test_what_is_there_is_answered_without_a_promise() -> None:
    assert map_answer(1, str) == "1"
    assert combine_answers([1, 2], sum) == 3
    assert combine_answers([], len) == 0


def test_a_coroutine_waits_only_for_what_comes_later() -> None:
    async def turns(answer: int | Promise[int], later: Promise[int]) -> tuple[int, int]:
        waiting, passed = asyncio.ensure_future(wait_for(answer)), 0
        while not waiting.done():
            await asyncio.sleep(0)
            passed += 1
            if passed == 5:
                later.set_result(7)
        return waiting.result(), passed

    later: Promise[int] = Promise()
    assert asyncio.run(turns(3, later)) == (3, 1)
    answer, passed = asyncio.run(turns(later, later))
    assert (answer, passed > 5) == (7, True)


def test_what_failed_or_was_cancelled_has_not_come() -> None:
    async def scenario() -> None:
        makers: list[Any] = [Promise, asyncio.get_running_loop().create_future]
        for make in makers:
            came, failed, cancelled = answers = [make() for _ in range(3)]
            came.set_result(None)
            failed.set_exception(ValueError())
            cancelled.cancel()
            assert [has_come(each) for each in answers] == [True, False, False]

    asyncio.run(scenario())


def test_what_comes_later_is_answered_then() -> None:
    later: Promise[int] = Promise()
    answer = map_answer(later, str)
    assert isinstance(answer, Promise)
    assert not answer.done()
    later.set_result(1)
    assert answer.result() == "1"


def test_a_failure_comes_through_and_so_does_what_is_raised() -> None:
    failing: Promise[int] = Promise()
    answer = map_answer(failing, text)
    failing.set_exception(ValueError("no"))
    assert isinstance(answer, Promise)
    with pytest.raises(ValueError, match="no"):
        answer.result()
    later: Promise[int] = Promise()
    failed = map_answer(later, broken)
    later.set_result(1)
    assert isinstance(failed, Promise)
    with pytest.raises(ZeroDivisionError):
        failed.result()


def test_answers_are_combined_in_their_order_when_the_last_has_come() -> None:
    first, last = Promise[int](), Promise[int]()
    kept: Promise[int] = Promise()
    kept.set_result(3)
    answer = combine_answers([first, 2, kept, last], list)
    assert isinstance(answer, Promise)
    last.set_result(4)
    assert not answer.done()
    first.set_result(1)
    assert answer.result() == [1, 2, 3, 4]


def test_nobody_is_told_who_no_longer_waits() -> None:
    one, two = Promise[int](), Promise[int]()
    mapped = map_answer(one, text)
    combined: list[int] | Promise[list[int]] = combine_answers([one, two], list)
    assert isinstance(mapped, Promise)
    assert isinstance(combined, Promise)
    mapped.cancel()
    combined.cancel()
    one.set_result(1)
    two.set_result(2)
    assert mapped.cancelled()
    assert combined.cancelled()


def test_what_follows_an_answer_may_come_later_too() -> None:
    first, second = Promise[int](), Promise[str]()
    assert chain_answer(1, text) == "1"
    later = chain_answer(first, go_to(second))
    now = chain_answer(first, text)
    failed = chain_answer(first, broken)
    first.set_result(2)
    assert isinstance(later, Promise)
    assert not later.done()
    second.set_result("two")
    assert later.result() == "two"
    assert isinstance(now, Promise)
    assert now.result() == "2"
    assert isinstance(failed, Promise)
    with pytest.raises(ZeroDivisionError):
        failed.result()


def test_a_chain_that_nobody_waits_for_cancels_its_end_or_never_begins_it() -> None:
    first, second = Promise[int](), Promise[str]()
    chained = chain_answer(first, go_to(second))
    given_up = chain_answer(first, broken)
    assert isinstance(given_up, Promise)
    given_up.cancel()
    first.set_result(1)
    assert isinstance(chained, Promise)
    chained.cancel()
    assert second.cancelled()


def test_a_failure_at_the_end_of_a_chain_comes_through() -> None:
    first, second = Promise[int](), Promise[str]()
    chained = chain_answer(first, go_to(second))
    first.set_result(1)
    second.set_exception(ValueError("no"))
    assert isinstance(chained, Promise)
    with pytest.raises(ValueError, match="no"):
        chained.result()


def test_a_failure_becomes_an_answer() -> None:
    assert recover_answer("now", ValueError, str) == "now"
    failing, kept = Promise[str](), Promise[str]()
    recovered: str | Promise[str] = recover_answer(failing, ValueError, str)
    same: str | Promise[str] = recover_answer(kept, ValueError, str)
    failing.set_exception(ValueError("no"))
    kept.set_result("yes")
    assert isinstance(recovered, Promise)
    assert isinstance(same, Promise)
    assert (recovered.result(), same.result()) == ("no", "yes")


def test_another_failure_comes_through_and_so_does_what_is_raised_about_one() -> None:
    def again(error: Exception) -> str:
        raise KeyError(str(error)) from error

    for kinds, expected in ((OSError, ValueError), ((OSError, ValueError), KeyError)):
        failing = Promise[str]()
        recovered: str | Promise[str] = recover_answer(failing, kinds, again)
        failing.set_exception(ValueError("no"))
        assert isinstance(recovered, Promise)
        with pytest.raises(expected, match="no"):
            recovered.result()
