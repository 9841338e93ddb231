"""A job that goes on ends by SIGINT or SIGTERM, and what handled them before does so again."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from ottla.pipeline.signals import SIGNALS, told_to_stop


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_sets_the_event_and_the_handlers_come_back(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    with told_to_stop() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        assert stop.wait(10)
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_another_thread_leaves_signals_alone() -> None:
    seen: list[bool] = []
    before = [signal.getsignal(each) for each in SIGNALS]

    def work() -> None:
        with told_to_stop() as stop:
            seen.append(stop.is_set() or [signal.getsignal(each) for each in SIGNALS] != before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
