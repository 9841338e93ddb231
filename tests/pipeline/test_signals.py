"""A job of streaming queries ends by SIGINT or SIGTERM; what handled them before does so again when the queries have ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from ottla.pipeline.signals import SIGNALS, Query, told_to_stop

WAIT_S: Final = 10

pytestmark = pytest.mark.timeout(60)  # what is not told waits for ever


class Ended:
    """A query, which may refuse to end; and what handled the signals when it was to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[list[Any]] = []

    def stop(self) -> None:
        self.asked.append(handlers())
        if self.error is not None:
            raise self.error


def handlers() -> list[Any]:
    return [signal.getsignal(each) for each in SIGNALS]


def no_queries() -> list[Query]:
    return []


@contextmanager
def handled_by(handler: Any) -> Iterator[None]:
    before = [signal.signal(each, handler) for each in SIGNALS]
    yield
    for each, old in zip(SIGNALS, before, strict=True):
        signal.signal(each, old)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_reported_and_the_handlers_are_restored_when_the_queries_have_ended(number: signal.Signals) -> None:
    query = Ended()

    def pyspark(*_: object) -> None:
        raise AssertionError("the job's own handler is not there")

    with handled_by(pyspark):
        with told_to_stop(lambda: [query]) as stop:
            assert not stop.is_set()
            assert stop.wait(0) is False
            os.kill(os.getpid(), number)
            assert stop.wait(1000)
            assert stop.is_set()
        assert stop.signal is number
        assert handlers() == [pyspark, pyspark]
    assert query.asked == [[signal.SIG_DFL, signal.SIG_DFL]]  # so the next signal ends the process


def test_without_a_signal_the_handlers_are_held_until_the_queries_have_ended() -> None:
    query, before = Ended(), handlers()
    with told_to_stop(lambda: [query]) as stop:
        held = handlers()
    assert query.asked == [held]
    assert held != before
    assert handlers() == before
    assert stop.signal is None


STUBBORN = """
import sys, threading
from ottla.pipeline.signals import told_to_stop

class Query:
    def stop(self):
        print("stopping", flush=True)
        threading.Event().wait()

with told_to_stop(lambda: [Query()]) as stop:
    print("there", flush=True)
    stop.wait(1000)
"""


@pytest.mark.parametrize("second", SIGNALS)
def test_a_second_signal_ends_the_process_though_a_query_does_not_end(second: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "there\n"
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "stopping\n"
            process.send_signal(second)
            assert process.wait(WAIT_S) == -second
        finally:
            process.kill()


def test_every_query_is_stopped_and_the_first_error_counts() -> None:
    def three() -> list[Ended]:
        return [Ended(OSError("one")), Ended(), Ended(OSError("two"))]

    queries, before = three(), handlers()
    with pytest.raises(OSError, match="one"), told_to_stop(lambda: queries):
        pass
    assert [len(query.asked) for query in queries] == [1, 1, 1]
    assert handlers() == before

    queries = three()
    with pytest.raises(ValueError, match="the job's") as raised, told_to_stop(lambda: queries):
        raise ValueError("the job's own")
    assert [len(query.asked) for query in queries] == [1, 1, 1]
    assert raised.value.__notes__ == ["and then a query did not stop: one", "and then a query did not stop: two"]
    assert handlers() == before


def test_a_handler_that_is_not_pythons_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGINT else signal.SIG_DFL)
    taken: list[int] = []
    real = signal.signal

    def take(number: signal.Signals, handler: Any) -> Any:
        taken.append(number)
        return real(number, handler)

    monkeypatch.setattr(signal, "signal", take)
    with told_to_stop(no_queries):
        pass
    assert taken == [signal.SIGTERM, signal.SIGTERM]
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_leaves_signals_alone_and_stops_its_queries() -> None:
    seen: list[bool] = []
    before, query = handlers(), Ended()

    def work() -> None:
        with told_to_stop(lambda: [query]) as stop:
            seen.append(stop.is_set() or handlers() != before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
    assert query.asked == [before]
