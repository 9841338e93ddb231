"""Keeps answers in their encoded form for as long as they are right.

Clients that subscribe to a pattern of topics, and tools that list topics, ask for the metadata of all topics again and again.
Between two changes of the metadata the answer is the same, and making it costs 2 us a partition on the event loop, where Kafka
has many threads for it. So the handler keeps the bytes that go out.

A long answer is made in turns. Whoever asks the same meanwhile waits for it instead of making it as well: after a change, all
such clients ask at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ottla.server.base.promise import Promise
from ottla.wire.primitives import WireStruct

MAX_ANSWERS: Final = 8
MAX_BYTES: Final = 8 * 1024 * 1024
"""The limit of all kept answers together."""


class Encoded(WireStruct):
    """Holds an answer encoded in the version of its request: `parts` are everything after the header, with regions of files among
    them where the API's answers have those. Its errors are not counted."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    @property
    def body(self) -> bytes:
        """Returns the bytes of an answer without regions."""
        return b"".join(self.parts)


class KeptAnswers:
    """Stores the kept answers of one broker.

    `changes` is the metadata image's count of changes when an answer was made; a different count empties the store.
    """

    __slots__ = ("_answers", "_bytes", "_changes", "_waiting")

    def __init__(self) -> None:
        self._changes = -1
        self._waiting: dict[Hashable, list[Promise[None]]] = {}
        """The promises to those who wait for an answer that somebody else is making, by the question."""
        self._answers: dict[Hashable, Encoded] = {}
        self._bytes = 0

    def get(self, changes: int, question: Hashable) -> Encoded | None:
        return self._answers.get(question) if changes == self._changes else None

    def keep(self, changes: int, question: Hashable, body: bytes) -> Encoded:
        """Returns the answer, and keeps it if there is room."""
        if changes != self._changes:
            self._changes, self._bytes = changes, 0
            self._answers.clear()
        answer = Encoded(body)
        if len(self._answers) < MAX_ANSWERS and self._bytes + len(body) <= MAX_BYTES:
            self._answers[question] = answer
            self._bytes += len(body)
        return answer

    @contextmanager
    def making(self, question: Hashable) -> Iterator[None]:
        """Lets others wait until the answer is made or given up."""
        self._waiting[question] = []
        try:
            yield
        finally:
            for promise in self._waiting.pop(question):
                if not promise.done():  # else its client has gone
                    promise.set_result(None)

    def promise_of(self, question: Hashable) -> Promise[None] | None:
        """Returns a promise that is kept when the answer that somebody is making is there, or is given up; None if nobody makes
        it."""
        waiting = self._waiting.get(question)
        if waiting is None:
            return None
        promise: Promise[None] = Promise()
        waiting.append(promise)
        return promise
