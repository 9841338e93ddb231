"""Pages run in threads: so many, so long."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.console.running import calls as module
from ottla.console.running.calls import Busy, Calls, Ending, TooSlow


def test_a_page_is_made_in_a_thread_and_its_error_is_raised() -> None:
    calls = Calls(30)
    assert asyncio.run(calls.run(lambda: threading.current_thread() is not threading.main_thread()))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(calls.run(lambda: 1 // 0))

    def late() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(calls.run(late))
    calls.close()


def test_too_many_are_refused_and_one_that_takes_too_long_is_given_up() -> None:
    calls, go = Calls(0.05, at_once=1, waiting=1), threading.Event()

    async def three() -> list[BaseException | bool]:
        return await asyncio.gather(*(calls.run(lambda: go.wait(30)) for _ in range(3)), return_exceptions=True)

    async def then() -> tuple[list[BaseException | bool], bool]:
        found = await three()
        go.set()
        while True:  # until the threads that were given up have come back
            try:
                return found, await calls.run(lambda: True)
            except (Busy, TooSlow):
                await asyncio.sleep(0)

    found, after = asyncio.run(then())
    assert [type(one) for one in found] == [TooSlow, TooSlow, Busy]
    assert after
    calls.close()


def test_a_page_that_was_given_up_before_its_turn_never_begins() -> None:
    calls, go, begun = Calls(0.05, at_once=1, waiting=8), threading.Event(), threading.Event()

    def begin() -> bool:
        begun.set()
        return True

    async def many() -> list[BaseException | bool]:
        first = asyncio.create_task(calls.run(lambda: go.wait(30)))
        later = [calls.run(begin) for _ in range(4)]
        return await asyncio.gather(first, *later, return_exceptions=True)

    async def then() -> bool:
        found = await many()
        assert [type(one) for one in found] == [TooSlow] * 5
        go.set()
        return await Calls(30).run(lambda: True)

    assert asyncio.run(then())
    calls.close()
    assert not begun.is_set()


def test_at_the_end_pages_are_given_up_soon_and_what_still_runs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_S", 0.01)
    calls, go, begun = Calls(30), threading.Event(), threading.Event()

    def page() -> bool:
        begun.set()
        return go.wait(30)

    async def ended() -> tuple[BaseException | bool, BaseException | bool]:
        before = asyncio.create_task(calls.run(page))
        await asyncio.to_thread(begun.wait, 30)
        calls.end()
        return await asyncio.gather(before, calls.run(lambda: go.wait(30)), return_exceptions=True)

    assert [type(one) for one in asyncio.run(ended())] == [Ending, Ending]
    assert calls.close()
    go.set()


def test_at_the_end_nothing_runs_if_no_page_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_S", 30)
    calls = Calls(30)

    async def ended() -> bool:
        calls.end()
        return await calls.run(lambda: True)

    assert asyncio.run(ended())
    assert not calls.close()
