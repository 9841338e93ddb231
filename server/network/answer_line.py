"""Answers to Produce that stand in line: one waits for an fsync, and those behind it, served already, must not overtake it.

A batch whose acknowledgement waits is in the log. So nothing hinders the next Produce of the same connection from being appended,
too, and then all that the connection has in flight shares an fsync. What a client can see is as if one had been served after the
other: answers in the order of the requests, and nothing that is not a Produce is served before the line is gone.

A line begins with the first answer that waits and ends with the last one in it.
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

MAX_LINE: Final = 64
"""Answers in one line; the frames behind them are kept."""
_PRODUCE: Final = b"\0\0"
"""Its key, with which a frame begins."""


class _Place:
    """An answer's place: its bytes, or why the connection ends here, or None while the promise is not kept."""

    __slots__ = ("answer", "promise")

    def __init__(self, answer: bytes | CloseConnection | None, promise: Promise[Any] | None = None) -> None:
        self.answer = answer
        self.promise = promise


class Line:
    """The line of one connection. `moved` is called whenever its first answer is there, to take it, and more, by `leave`."""

    __slots__ = ("_moved", "_places", "_serve", "_session")

    def __init__(
        self,
        first: Waiting,
        serve: Callable[[memoryview, Session], Any],
        session: Session,
        moved: Callable[[], object],
    ) -> None:
        self._serve = serve
        self._session = session
        self._moved = moved
        self._places: deque[_Place] = deque()
        self._join(first)

    def __len__(self) -> int:
        return len(self._places)

    def admits(self, frame: bytes | memoryview) -> bool:
        """Whether this request may be served now."""
        places = self._places
        return frame[:2] == _PRODUCE and len(places) < MAX_LINE and not isinstance(places[-1].answer, CloseConnection)

    def serve(self, frame: memoryview) -> None:
        """Serves a request that is admitted; its answer, if there is one, is the last of the line."""
        try:
            response = self._serve(frame, self._session)
        except CloseConnection as reason:
            self._places.append(_Place(reason))
            return
        if type(response) is Waiting:
            self._join(response)
        elif response is not None:
            assert type(response) is bytes
            self._places.append(_Place(response))

    def _join(self, waiting: Waiting) -> None:
        promise = waiting.answer
        assert type(promise) is Acknowledgement
        place = _Place(None, promise)
        self._places.append(place)
        promise.add_done_callback(lambda done: self._kept(place, done, waiting))

    def _kept(self, place: _Place, answer: Promise[Any], waiting: Waiting) -> None:
        if answer.cancelled():
            return
        try:
            place.answer = cast(bytes, waiting.route.finish(answer, waiting))
        except CloseConnection as reason:
            place.answer = reason
        if self._places and self._places[0] is place:
            self._moved()

    def leave(self) -> tuple[list[bytes], CloseConnection | None]:
        """Takes out the answers that are there, from the first on; with them, why the connection ends behind them, if it does."""
        places = self._places
        answers: list[bytes] = []
        while places and (answer := places[0].answer) is not None:
            places.popleft()
            if isinstance(answer, CloseConnection):
                return answers, answer
            answers.append(answer)
        return answers, None

    def cancel(self) -> None:
        """Nobody is left to hear the answers."""
        places, self._places = self._places, deque()
        for place in places:
            if place.promise is not None:
                place.promise.cancel()
