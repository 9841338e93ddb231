"""Threads that the process does not wait for."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from ottla.console.running.threads import Threads


def test_so_many_run_at_once_and_the_others_wait() -> None:
    threads, go, met = Threads(2, "test"), threading.Event(), threading.Barrier(3)

    def meet() -> str:
        met.wait(30)
        go.wait(30)
        return threading.current_thread().name

    first, second = threads.submit(meet), threads.submit(meet)
    third = threads.submit(lambda: 3)
    met.wait(30)
    assert not third.done()
    go.set()
    assert {first.result(30), second.result(30)} == {"test-1", "test-2"}
    assert third.result(30) == 3
    threads.close()


def test_what_is_raised_is_the_futures_and_the_thread_goes_on() -> None:
    threads = Threads(1, "test")
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 // 0).result(30)
    assert threads.submit(lambda: 1).result(30) == 1
    threads.close()


def test_what_has_not_begun_is_cancelled_at_the_end() -> None:
    threads, go, begun = Threads(1, "test"), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go.wait(30)

    running, waiting = threads.submit(wait), threads.submit(lambda: None)
    begun.wait(30)
    threads.close()
    assert waiting.cancelled()
    go.set()
    running.result(30)


def test_the_process_ends_while_a_thread_is_in_a_call() -> None:
    program = """
import threading
from ottla.console.running.threads import Threads
begun = threading.Event()
Threads(1, "test").submit(lambda: (begun.set(), threading.Event().wait()))
begun.wait()
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


def test_a_process_ends_well_while_a_thread_searches() -> None:
    """Without `leave`, the interpreter's end unwinds the thread through RE2's C++ frames, and the process aborts."""
    program = """
import re2, threading
from ottla.console.running.threads import Threads, leave

kept = [[] for _ in range(1_000_000)]  # which the interpreter's end takes a while to free
begun, expression = threading.Event(), re2.compile("(a{1,50}){1,20}b")

def search():
    begun.set()
    while True:
        expression.search("a" * 1_000)

threads = Threads(1, "test")
threads.submit(search)
begun.wait()
threads.close()
print("done")
leave(3)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "done\n", "")
