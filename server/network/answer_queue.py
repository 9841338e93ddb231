"""Answers to Produce in their order: one waits for an fsync, and those behind it, served already, must not overtake it.

A batch whose acknowledgement waits is in the log. So nothing hinders the next Produce of the same connection from being appended,
too, and then all that the connection has in flight shares an fsync. What a client can see is as if one had been served after the
other: answers in the order of the requests, and nothing that is not a Produce is served before the queue is empty.

A queue begins with the first answer that waits and ends with the last one in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.server.base.errors import CloseConnection
from ottla.server.base.promise import Acknowledgement, Promise
from ottla.server.dispatch.routes import Waiting

if TYPE_CHECKING:
    from ottla.server.requests.session import Session

MAX_ANSWERS: Final = 64
"""Answers in one queue; the frames behind them are kept."""
_PRODUCE: Final = b"\0\0"
"""Its key, with which a frame begins."""


class _Entry:
    """An answer in the queue: its bytes, or why the connection ends here, or None while the promise is not kept."""

    __slots__ = ("answer", "promise")

    def __init__(self, answer: bytes | CloseConnection | None, promise: Promise[Any] | None = None) -> None:
        self.answer = answer
        self.promise = promise


class AnswerQueue:
    """The queue of one connection. `ready` is called whenever its first answer has come; `take_ready` takes it out, and more."""

    __slots__ = ("_entries", "_ready", "_serve", "_session")

    def __init__(
        self,
        first: Waiting,
        serve: Callable[[memoryview, Session], Any],
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

    def admits(self, frame: bytes | memoryview) -> bool:
        """Returns whether this request may be served now."""
        entries = self._entries
        return frame[:2] == _PRODUCE and len(entries) < MAX_ANSWERS and not isinstance(entries[-1].answer, CloseConnection)

    def serve(self, frame: memoryview) -> None:
        """Serves a request that is admitted; its answer, if there is one, is the last of the queue."""
        try:
            response = self._serve(frame, self._session)
        except CloseConnection as reason:
            self._entries.append(_Entry(reason))
            return
        if type(response) is Waiting:
            self._enqueue(response)
        elif response is not None:
            assert type(response) is bytes
            self._entries.append(_Entry(response))

    def _enqueue(self, waiting: Waiting) -> None:
        promise = waiting.answer
        assert type(promise) is Acknowledgement
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
        """Takes out the answers that have come, from the first on; returns them, and why the connection ends behind them."""
        entries = self._entries
        answers: list[bytes] = []
        while entries and (answer := entries[0].answer) is not None:
            entries.popleft()
            if isinstance(answer, CloseConnection):
                return answers, answer
            answers.append(answer)
        return answers, None

    def cancel(self) -> None:
        """Gives the answers up, because nobody is left to hear them."""
        entries, self._entries = self._entries, deque()
        for entry in entries:
            if entry.promise is not None:
                entry.promise.cancel()
