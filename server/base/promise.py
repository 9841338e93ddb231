"""Promises: answers that come later and reach those who wait for them within the call that sets them.

An asyncio future runs its callbacks in the event loop's next turn. A `Promise` runs them at once, so that a record reaches the
consumer that waits for it two turns of the loop earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Promise(Generic[T]):
    """An answer that comes later. Its callbacks run inside the call that sets or cancels it. It can be awaited, too."""

    __slots__ = ("_answer", "_callbacks", "_cancelled", "_done", "_error")

    def __init__(self) -> None:
        self._answer: T | None = None
        self._error: Exception | None = None
        self._done = self._cancelled = False
        self._callbacks: list[Callable[[Promise[T]], object]] = []

    def done(self) -> bool:
        return self._done

    def cancelled(self) -> bool:
        return self._cancelled

    @property
    def answer(self) -> T | None:
        """The answer; None if it has not come yet, or never will because the promise failed or was cancelled."""
        return self._answer

    @property
    def failed(self) -> bool:
        """Returns whether the promise is done and failed with an error."""
        return self._error is not None

    def result(self) -> T:
        """Returns the answer, or raises the error with which the promise failed. It must be done and not cancelled."""
        assert self._done
        assert not self._cancelled
        if self._error is not None:
            raise self._error
        return self._answer  # type: ignore[return-value]  # None, too, may be an answer

    def set_result(self, answer: T) -> None:
        self._answer = answer
        self._finish()

    def set_exception(self, error: Exception) -> None:
        self._error = error
        self._finish()

    def cancel(self) -> None:
        if not self._done:
            self._cancelled = True
            self._finish()

    def add_done_callback(self, callback: Callable[[Promise[T]], object]) -> None:
        """Calls `callback` with this promise once it is done, which may be now."""
        if self._done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def _finish(self) -> None:
        assert not self._done
        self._done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            done = asyncio.get_running_loop().create_future()

            def wake(_: Promise[T]) -> None:
                if not done.done():
                    done.set_result(None)

            self.add_done_callback(wake)
            yield from done
        return self.result()


class InTurns(Promise[T]):
    """An answer that takes longer than one turn to make (turns.py), and may be long for that reason."""

    __slots__ = ()


class Acknowledgement(Promise[T]):
    """The answer to a Produce whose batches are appended but may not be acknowledged yet.

    The next Produce of its connection does not wait for it; only its answer does.
    """

    __slots__ = ()
