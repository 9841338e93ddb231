"""Questions to the broker that runs the console, and what becomes of answers that are late, wrong, or never come."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.commands.output import Failure
from ottla.console.broker.inside import MAX_QUESTION_BYTES, SocketInside
from ottla.console.errors import Missing

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
    inside.within_s = 0.01
    with pytest.raises(Failure, match=r"did not answer x within 0\.01 s"):
        inside.ask("x")


def test_a_broker_that_does_not_read_is_asked_once_and_goes_on(ends: Ends) -> None:
    inside, theirs, _ = ends
    inside.within_s = 0.01
    for _ in range(20):  # more than fit into the socket
        with pytest.raises(Failure, match=r"did not answer x within 0\.01 s"):
            inside.ask("x", of="." * 60_000)
    inside.within_s = 30
    with theirs.makefile("rb") as lines:
        first = lines.readline()

        def go_on() -> None:
            theirs.sendall(json.dumps({"id": json.loads(first)["id"], "answer": "late"}).encode() + b"\n")
            theirs.sendall(json.dumps({"id": json.loads(lines.readline())["id"], "answer": "now"}).encode() + b"\n")

        thread = threading.Thread(target=go_on)
        thread.start()
        assert inside.ask("y") == "now"
        thread.join()


def test_who_comes_while_another_question_is_under_way_is_told_in_time_too(ends: Ends) -> None:
    inside, theirs, _ = ends
    said: list[object] = []
    asking = threading.Thread(target=lambda: said.append(inside.ask("x")))
    inside.within_s = 30
    asking.start()
    with theirs.makefile("rb") as lines:
        number = json.loads(lines.readline())["id"]
    inside.within_s = 0.01
    with pytest.raises(Failure, match=r"did not answer y within 0\.01 s"):
        inside.ask("y")
    theirs.sendall(json.dumps({"id": number, "answer": 1}).encode() + b"\n")
    asking.join()
    assert said == [1]


def test_a_question_that_is_too_long_is_not_sent(ends: Ends) -> None:
    inside, theirs, _ = ends
    with pytest.raises(Failure, match="too long: the question may have 65,536 bytes"):
        inside.ask("watch_requests", client_id="x" * MAX_QUESTION_BYTES)
    thread = answer(theirs, {"answer": 1})
    assert inside.ask("x") == 1
    thread.join()


def test_a_broker_that_is_gone_is_said_at_once_and_always(ends: Ends) -> None:
    inside, theirs, gone = ends
    theirs.close()
    assert gone.wait(30)
    for _ in range(2):
        with pytest.raises(Failure, match="inside is gone"):
            inside.ask("who")


def tell(theirs: socket.socket, number: int) -> None:
    theirs.sendall(json.dumps({"news": "over", "number": number}).encode() + b"\n")


def test_news_are_waited_for_while_others_ask(ends: Ends) -> None:
    inside, theirs, _ = ends
    heard: list[str] = []

    def wait() -> None:
        inside.wait_for("over", 7, 30)
        heard.append("over")

    waiting = threading.Thread(target=wait)
    waiting.start()
    tell(theirs, 6)
    thread = answer(theirs, {"answer": 1})
    assert inside.ask("x") == 1  # and by then the news before it have been read
    thread.join()
    assert heard == []
    tell(theirs, 7)
    waiting.join(30)
    assert heard == ["over"]
    inside.wait_for("over", 5, 30)  # which came before


def test_who_waits_for_news_goes_on_after_its_time_or_with_the_end_of_the_broker(ends: Ends) -> None:
    inside, theirs, gone = ends
    inside.wait_for("over", 1, 0.01)
    waiting = threading.Thread(target=lambda: inside.wait_for("over", 1, 60))
    waiting.start()
    theirs.close()
    assert gone.wait(30)
    waiting.join(30)
    assert not waiting.is_alive()
