"""Ctrl-C and SIGTERM for a job of streaming queries, and the end of these queries.

pyspark's own handler of SIGINT calls the JVM from within whatever call is being made, which breaks that connection: the job would
end in an error of Py4J. So a job that waits takes both signals itself, until its queries have ended. The first signal is a word
to the job; with it both go back to the system, so that a second one ends the process, whatever it waits for.
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
    """What a streaming query of Spark has for us."""

    def stop(self) -> None: ...


class Stop:
    """Whether the job has been told to end. Not an Event: to set one in a signal's handler may wait for its own lock."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        """What told it."""
        self._came: queue.SimpleQueue[None] = queue.SimpleQueue()  # its put() may come in the midst of its get()

    def is_set(self) -> bool:
        return self.signal is not None

    def wait(self, timeout_s: float) -> bool:
        """Until it is told, or until the time is over; `is_set` then."""
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
    """Set by a signal for as long as the block lasts, at whose end the queries are asked for, and stopped, each of them.

    The first error counts: the block's, else that of a query which did not stop. In another thread than the main one no signal
    can come.
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
    """Stops each, whatever becomes of the others, and tells what went wrong."""
    errors: list[Exception] = []
    for query in queries:
        try:
            query.stop()
        except Exception as error:  # noqa: BLE001 - of Spark, of Py4J, of a socket; all of them are told
            errors.append(error)
    return errors


@contextmanager
def _handled(stop: Stop) -> Iterator[None]:
    """The signals set `stop`. One that is handled by no Python code is left alone, for such a handler could not be put back."""
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
