"""Questions to the broker that runs the console, and what becomes of answers that are late, wrong, or never come."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.commands.output import Failure
from ottla.console.inside import SocketInside
from ottla.console.missing import Missing

Ends = tuple[SocketInside, socket.socket, threading.Event]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    gone = threading.Event()
    with ours, theirs:
        yield SocketInside(ours, gone.set, 5), theirs, gone
        theirs.close()
        assert gone.wait(30)


def answer(theirs: socket.socket, *said: dict[str, Any]) -> threading.Thread:
    """Answers the next question with these lines, in a thread."""

    def run() -> None:
        line = theirs.makefile("rb").readline()
        number = json.loads(line)["id"]
        for each in said:
            theirs.sendall(json.dumps({"id": number, **each}).encode() + b"\n")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_an_answer_and_its_kinds(ends: Ends) -> None:
    inside, theirs, _ = ends
    thread = answer(theirs, {"answer": [1, {"a": None}]})
    assert inside.ask("who", limit=3) == [1, {"a": None}]
    thread.join()
    thread = answer(theirs, {"missing": "There is no x."})
    with pytest.raises(Missing, match="There is no x"):
        inside.ask("x")
    thread.join()
    thread = answer(theirs, {"refused": "Not now."})
    with pytest.raises(Failure, match="Not now"):
        inside.ask("x")
    thread.join()


def test_an_answer_that_was_too_late_is_nobody_s(ends: Ends) -> None:
    inside, theirs, _ = ends
    thread = answer(theirs, {"id": 0, "answer": "old"}, {"answer": "new"})
    assert inside.ask("x") == "new"
    thread.join()
    inside._within_s = 0.01
    with pytest.raises(Failure, match=r"did not answer x within 0\.01 s"):
        inside.ask("x")


def test_a_broker_that_is_gone_is_said_at_once_and_always(ends: Ends) -> None:
    inside, theirs, gone = ends
    theirs.close()
    assert gone.wait(30)
    for _ in range(2):
        with pytest.raises(Failure, match="inside is gone"):
            inside.ask("who")
