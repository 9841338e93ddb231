"""Promises: they run their callbacks at once, can be awaited, fail and are cancelled."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.base.promise import Acknowledgement, Promise


def test_callbacks_run_within_the_call_that_sets_the_answer() -> None:
    promise: Promise[int] = Promise()
    told: list[int] = []
    promise.add_done_callback(lambda done: told.append(done.result()))
    assert (promise.done(), promise.answer, told) == (False, None, [])
    promise.set_result(7)
    assert (promise.done(), promise.answer, told) == (True, 7, [7])


def test_a_promise_that_is_done_calls_back_at_once() -> None:
    promise: Promise[int] = Promise()
    promise.set_result(7)
    told: list[int] = []
    promise.add_done_callback(lambda done: told.append(done.result()))
    assert told == [7]


def test_a_failed_promise_raises_its_error_and_has_no_answer() -> None:
    promise: Acknowledgement[int] = Acknowledgement()
    promise.set_exception(ValueError("no"))
    assert (promise.done(), promise.cancelled(), promise.answer) == (True, False, None)
    with pytest.raises(ValueError, match="no"):
        promise.result()


def test_a_promise_can_be_awaited_before_and_after() -> None:
    async def run() -> None:
        promise: Promise[int] = Promise()
        waiting = asyncio.ensure_future(promise)
        await asyncio.sleep(0)
        assert not promise.done()
        promise.set_result(7)
        assert (await waiting, await promise) == (7, 7)
        failed: Promise[int] = Promise()
        failed.set_exception(ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            await failed

    asyncio.run(run())


def test_a_cancelled_promise_calls_back_once() -> None:
    promise: Promise[int] = Promise()
    told: list[bool] = []
    promise.add_done_callback(lambda done: told.append(done.cancelled()))
    promise.cancel()
    promise.cancel()
    assert told == [True]
