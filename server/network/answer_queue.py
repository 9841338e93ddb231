"""Keeps the answers to Produce requests in order: those that are ready must not overtake one that waits for an fsync.

A batch whose acknowledgement waits is already in the log, so nothing prevents the next Produce of the same connection from being
appended too; then everything that the connection has in flight shares one fsync. To the client it looks as if the requests had
been served one after the other: the answers come in the order of the requests, and no other request is served before the queue is
empty.

A queue begins with the first answer that waits and ends with the last answer in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Acknowledgement, Promise
from ottla.server.dispatch.route import Waiting
from ottla.server.network.holding import PRODUCE

if TYPE_CHECKING:
    from ottla.server.requests.session import Session
    from ottla.wire.primitives import Buffer

MAX_ANSWERS: Final = 64
"""The most answers in one queue; the connection keeps the frames behind them."""


class _Entry:
    """Holds the bytes of one answer, or why the connection ends here, or None as long as the promise is not kept."""

    __slots__ = ("answer", "promise")

    def __init__(self, answer: bytes | CloseConnection | None, promise: Promise[Any] | None = None) -> None:
        self.answer = answer
        self.promise = promise


class AnswerQueue:
    """Queues answers of one connection. It calls `ready` whenever its first answer has come; `take_ready` takes answers out."""

    __slots__ = ("_entries", "_ready", "_serve", "_session")

    def __init__(
        self,
        first: Waiting,
        serve: Callable[[Buffer, Session], Any],
        session: Session,
        ready: Callable[[], object],
    ) -> None:
        self._serve = serve
        self._session = session
        self._ready = ready
        self._entries: deque[_Entry] = deque()
        self._enqueue(first)

    def __len__(self) -> int:
        return len(self._entries)

    def admits(self, frame: Buffer) -> bool:
        """Returns whether the request in this frame may be served now, so that its answer joins the queue. It may not as long as
        the one before is not appended: then its promise is not an Acknowledgement.
        """
        entries = self._entries
        if frame[:2] != PRODUCE or len(entries) >= MAX_ANSWERS:
            return False
        last = entries[-1]
        if last.answer is None:
            return type(last.promise) is Acknowledgement
        return not isinstance(last.answer, CloseConnection)

    def serve(self, frame: Buffer) -> Promise[Any] | None:
        """Serves a request that the queue admits; its answer, if there is one, is the last of the queue. Returns the promise of
        the answer if the request is not even appended yet.
        """
        try:
            response = self._serve(frame, self._session)
        except CloseConnection as reason:
            self._entries.append(_Entry(reason))
            return None
        if type(response) is Waiting:
            self._enqueue(response)
            promise = cast("Promise[Any]", response.answer)
            return None if type(promise) is Acknowledgement or promise.done() else promise
        if response is not None:
            assert type(response) is bytes
            self._entries.append(_Entry(response))
        return None

    def _enqueue(self, waiting: Waiting) -> None:
        promise = waiting.answer
        assert isinstance(promise, Promise)
        entry = _Entry(None, promise)
        self._entries.append(entry)
        promise.add_done_callback(lambda done: self._resolve(entry, done, waiting))

    def _resolve(self, entry: _Entry, answer: Promise[Any], waiting: Waiting) -> None:
        if answer.cancelled():
            return
        try:
            entry.answer = cast(bytes, waiting.route.finish(answer, waiting))
        except CloseConnection as reason:
            entry.answer = reason
        if self._entries and self._entries[0] is entry:
            self._ready()

    def take_ready(self) -> tuple[list[bytes], CloseConnection | None]:
        """Takes out the answers that have come, from the first on; returns them and, or None, why the connection then ends."""
        entries = self._entries
        answers: list[bytes] = []
        while entries and (answer := entries[0].answer) is not None:
            entries.popleft()
            if isinstance(answer, CloseConnection):
                return answers, answer
            answers.append(answer)
        return answers, None

    def cancel(self) -> None:
        """Gives up the answers, because the client has gone; what is not appended yet is appended all the same."""
        entries, self._entries = self._entries, deque()
        for entry in entries:
            if type(entry.promise) is Acknowledgement:
                entry.promise.cancel()
