"""Produces of one read whose appends are held (log/joined_write.py), until the connection has them written.

Their answers are among those that the connection is going to send. If the bytes cannot be written, the log has none of them, and
each request is served again, alone, so that its answer is the one that it would have got without the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.errors import CloseConnection
from ottla.server.network.holding import PRODUCE
from ottla.wire.integers import int32_at

if TYPE_CHECKING:
    from ottla.log.joined_write import JoinedWrite
    from ottla.server.requests.session import Session
    from ottla.wire.primitives import Buffer

NO_ANSWER: Final = -1
"""The place of an answer that there is not: for acks 0."""
_HEAD: Final = 6
"""The bytes of a frame up to its API key, with its size."""


class HeldAppends:
    """The Produces of one connection whose appends are held; its length is how many."""

    __slots__ = ("_requests", "_serve", "_session")

    def __init__(self, serve: Callable[[Buffer, Session], Any], session: Session) -> None:
        self._serve = serve
        self._session = session
        self._requests: list[tuple[Buffer, int, JoinedWrite]] = []

    def __len__(self) -> int:
        return len(self._requests)

    def note(self, frame: Buffer, place: int) -> None:
        """Takes what the request in `frame` appended from the session, if it is held. The answer's `place` is its index in the
        connection's list, or NO_ANSWER."""
        joined = self._session.joined
        if joined is not None:
            self._requests.append((frame, place, joined))
            self._session.joined = None

    def write(self, answers: list[Any]) -> str | None:
        """Writes what was held; returns why the connection has to end, None if it goes on. `answers` are those of its list."""
        requests, self._requests = self._requests, []
        reason: str | None = None
        for frame, place, joined in requests:
            if joined.write() is not None:
                reason = self._serve_again(frame, place, answers) or reason
        return reason

    def _serve_again(self, frame: Buffer, place: int, answers: list[Any]) -> str | None:
        """Serves a request again; returns why the connection has to end, if it has, and then leaves the answer out."""
        answer, ending = None, None
        try:
            answer = self._serve(frame, self._session)
        except CloseConnection as reason:
            ending = str(reason)
        if place != NO_ANSWER:
            if ending is None and type(answer) is not bytes:
                ending = "its Produce could not be answered at once"
            answers[place] = answer if type(answer) is bytes else b""
        return ending


def begins_with_produce(head: bytes, left: int) -> bool:
    """Returns whether the `left` bytes that `head` is the beginning of begin with a whole frame of Produce."""
    return len(head) == _HEAD and head[4:] == PRODUCE and int32_at(head, 0) <= left - 4
