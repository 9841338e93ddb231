"""Handles Ctrl-C and SIGTERM for a job of streaming queries, and stops these queries.

pyspark's own handler of SIGINT calls the JVM from within whatever call is in progress, which breaks that connection: the job
would end with an error of Py4J. So a job that waits handles both signals itself, until its queries have ended. The first signal
asks the job to stop and restores the system's handlers, so that a second one ends the process, whatever it waits for.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Query(Protocol):
    """The part of Spark's streaming query that is needed here."""

    def stop(self) -> None: ...


class Stop:
    """Says whether the job was asked to stop. It is not an Event, because setting one in a signal handler may wait for its own
    lock."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        """The signal that asked for it, None if none did."""
        self._came: queue.SimpleQueue[None] = queue.SimpleQueue()  # its put() may interrupt its get()

    def is_set(self) -> bool:
        return self.signal is not None

    def wait(self, timeout_s: float) -> bool:
        """Waits until a signal comes or the time is over; returns what `is_set` returns then."""
        if self.signal is None:
            try:
                self._came.get(timeout=timeout_s)
            except queue.Empty:
                return self.is_set()
        return True

    def set(self, number: int) -> None:
        self.signal = signal.Signals(number)
        self._came.put(None)


@contextmanager
def told_to_stop(queries: Callable[[], Iterable[Query]]) -> Iterator[Stop]:
    """Yields a Stop that signals set during the block. At the end of the block `queries` is called, and each query is stopped.

    The first error is raised: the block's, or else that of a query that did not stop. Outside the main thread no signal can come.
    """
    stop = Stop()
    with _handled(stop):
        try:
            yield stop
        except BaseException as error:
            for other in _stop_all(queries()):
                error.add_note(f"and then a query did not stop: {other}")
            raise
        if errors := _stop_all(queries()):
            raise errors[0]


def _stop_all(queries: Iterable[Query]) -> list[Exception]:
    """Stops each query, even if stopping another fails; returns the errors."""
    errors: list[Exception] = []
    for query in queries:
        try:
            query.stop()
        except Exception as error:  # noqa: BLE001 - of Spark, of Py4J, of a socket; all of them are told
            errors.append(error)
    return errors


@contextmanager
def _handled(stop: Stop) -> Iterator[None]:
    """Makes the signals set `stop`. A signal whose handler is not Python code is left alone, because that could not be
    restored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: handler for number in SIGNALS if (handler := signal.getsignal(number)) is not None}

    def on_signal(number: int, _: Any) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        stop.set(number)

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
