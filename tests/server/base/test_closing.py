"""Tests of objects that end, as the rooms below see them: a session is one of these, and so is whatever else calls back once with
itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ottla.server.base.closing import Closes
from ottla.server.requests.session import Session


class Lease:
    """The least that a Closes can be."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Lease], object]] = []

    def on_close(self, callback: Callable[[Lease], object]) -> None:
        self.callbacks.append(callback)


def kept_for(closes: Closes, kept: set[Closes]) -> None:
    """Keeps something as those do who are given a Closes: until it ends."""
    kept.add(closes)
    closes.on_close(kept.discard)


def test_what_is_kept_by_a_session_goes_with_it() -> None:
    first, second = Session("PLAINTEXT", "127.0.0.1"), Session("PLAINTEXT", "127.0.0.1")
    kept = set[Closes]()
    for session in (first, second):
        kept_for(session, kept)
    first.close()
    assert kept == {second}


def test_whatever_calls_back_with_itself_will_do() -> None:
    lease, kept = Lease(), set[Closes]()
    kept_for(lease, kept)
    for callback in lease.callbacks:
        callback(lease)
    assert kept == set()


def test_it_asks_for_nothing_but_what_a_session_has() -> None:
    asked = {name: method for name, method in vars(Closes).items() if inspect.isfunction(method) and name[0] != "_"}
    assert asked.keys() == {"on_close"}
    assert inspect.signature(asked["on_close"]).parameters.keys() == inspect.signature(Session.on_close).parameters.keys()
