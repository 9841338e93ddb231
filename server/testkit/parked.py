"""The request of each connection that waits for its answer: a fetch for records, a join for the other members, a held one.

A connection knows only that one waits. So the last request of each session whose answer did not come at once is noted here;
whether it still waits, the connection says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.requests.request import Request
    from ottla.server.requests.session import Session


class Parked(NamedTuple):
    """A request that had to wait, and since when, in seconds of the monotonic time."""

    request: Request
    since_s: float


class ParkedRequests:
    """The last such request of each open session. `clock` is that of real time."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._by_session: dict[Session, Parked] = {}

    def note(self, request: Request) -> None:
        """Notes a request whose answer comes later."""
        session = request.session
        if session not in self._by_session:
            if session.is_closed:
                return
            session.on_close(self._forget)
        self._by_session[session] = Parked(request, self._monotonic())

    def get(self, session: Session) -> Parked | None:
        """Returns the last request of a session that had to wait; None if none had."""
        return self._by_session.get(session)

    def _forget(self, session: Session) -> None:
        self._by_session.pop(session, None)
