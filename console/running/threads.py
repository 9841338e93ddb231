"""Threads for calls that cannot be interrupted: so many at most, and the process ends without waiting for them.

Those of concurrent.futures are joined when the interpreter ends, which would then last as long as a cluster does not answer.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class Threads:
    """At most `most` threads, each begun when there is more to do than threads that wait. `submit` is for one thread only."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._begun = 0
        self._idle = threading.Semaphore(0)
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Returns the future of the function's result; as long as it has not begun, it can be cancelled."""
        future: Future[T] = Future()
        self._work.put((future, function))
        if not self._idle.acquire(blocking=False) and self._begun < self._most:
            self._begun += 1
            threading.Thread(target=self._run, name=f"{self._name}-{self._begun}", daemon=True).start()
        return future

    def _run(self) -> None:
        while (one := self._work.get()) is not None:
            future, function = one
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:  # noqa: BLE001 - whoever waits for the future is told
                    future.set_exception(error)
            del one, future, function  # or the last result would be kept until the next
            self._idle.release()

    def close(self) -> None:
        """Ends the threads after the calls that they are in; what has not begun is cancelled."""
        while True:
            try:
                one = self._work.get_nowait()
            except Empty:
                break
            if one is not None:
                one[0].cancel()
        for _ in range(self._begun):
            self._work.put(None)


def leave(code: int) -> NoReturn:
    """Ends the process at once, for one that has threads in calls. Python would end such a thread when its call comes back, by
    unwinding its stack; where there are C++ frames in that (a search by RE2), the process would abort."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
