"""Produces of one read whose appends are held (log/joined_write.py), until the connection has them written.

Their answers are among those that the connection is going to send. If the bytes cannot be written, the log has none of them, and
each request is served again, alone, so that its answer is the one that it would have got without the others. That happens before
any later request appends to that log: what succeeds is in the log in the order in which it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.errors import CloseConnection
from ottla.server.network.holding import PRODUCE
from ottla.wire.integers import int32_at

if TYPE_CHECKING:
    from ottla.log.joined_write import JoinedWrite
    from ottla.server.network.owner import Serves
    from ottla.server.requests.session import Session
    from ottla.wire.primitives import Buffer

NO_ANSWER: Final = -1
"""The place of an answer that there is not: for acks 0."""
OUT_OF_REACH: Final = -2
"""The place of an answer that is not in the list and says that all is well: it comes later, or the connection is closed in its
place."""
_HEAD: Final = 6
"""The bytes of a frame up to its API key, with its size."""


class HeldAppends:
    """The Produces of one connection whose appends are held; its length is how many."""

    __slots__ = ("_dispatch", "_requests", "_session")

    def __init__(self, dispatch: Serves, session: Session) -> None:
        self._dispatch = dispatch
        self._session = session
        self._requests: list[tuple[Buffer, int, JoinedWrite]] = []

    def __len__(self) -> int:
        return len(self._requests)

    def note(self, frame: Buffer, place: int) -> bool:
        """Takes what the request in `frame` appended from the session, if it is held. The answer's `place` is its index in the
        connection's list, NO_ANSWER or OUT_OF_REACH. Returns whether `write` has to be called before the next request, because
        this one, which is not held, tried to have others written, and that failed."""
        joined = self._session.joined
        if joined is None:
            return any(earlier.error is not None for _, _, earlier in self._requests)
        self._requests.append((frame, place, joined))
        self._session.joined = None
        return False

    def write(self, answers: list[Any]) -> str | None:
        """Writes what was held; returns why the connection has to end, None if it goes on. `answers` is its list. Where an answer
        has to be left out, so are those behind it, which the client would take for others."""
        requests, self._requests = self._requests, []
        ending: str | None = None
        for frame, place, joined in requests:
            if joined.write() is None or place >= len(answers):
                continue
            if place == OUT_OF_REACH:
                ending = "its Produce could not be written, and it is too late to say so"
                continue
            try:
                answer: Any = self._dispatch.serve_again(frame, self._session)
            except CloseConnection as reason:
                answer, ending = None, str(reason)
            if place == NO_ANSWER:
                continue
            if type(answer) is bytes:
                answers[place] = answer
            else:
                ending = ending or "its Produce could not be answered at once"
                del answers[place:]
        return ending


def begins_with_produce(head: bytes, left: int) -> bool:
    """Returns whether the `left` bytes that `head` is the beginning of begin with a whole frame of Produce."""
    return len(head) == _HEAD and head[4:] == PRODUCE and int32_at(head, 0) <= left - 4
