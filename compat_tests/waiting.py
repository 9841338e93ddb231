"""Waiting for what clients and brokers do in their own time: always for a condition, with a deadline that is a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

TIMEOUT_S = 60

Answer = TypeVar("Answer")


class NoEndError(Exception):
    """A call was not back in time, and was left alone."""


def wait_for(condition: Callable[[], Any], what: str | Callable[[], str], timeout_s: float = TIMEOUT_S) -> None:
    """Asks until the answer is true. Fails with `what` when the time is over; a function of it can say how things stand then."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s} s: {what if isinstance(what, str) else what()}")
        pause.wait(0.05)


def collect(poll: Callable[[], list[Any]], count: int, timeout_s: float = TIMEOUT_S) -> list[Any]:
    """Polls until `count` records have come; more than that in the end is a failure as well."""
    records: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records within {timeout_s} s"
        records += poll()
    assert len(records) == count, f"{len(records)} records instead of {count}"
    return records


def in_time(ask: Callable[[], Answer], longest_s: float) -> Answer:
    """Returns what it answers, and raises what it raises. Raises NoEndError if it is not back in time: it goes on in a thread of
    its own, and what it works with must not be used again."""
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            answers.append(ask())
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            errors.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(longest_s)
    if errors:
        raise errors[0]
    if not answers:
        raise NoEndError(f"no end in {longest_s:g} s")
    return answers[0]
