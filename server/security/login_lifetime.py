"""The life of a login that ends: by `connections.max.reauth.ms`, or with the credentials that the client presented (KIP-368).

The client is told how long it may stay, and logs in again before that, on the same connection, by the same mechanism and as the
same user. It may do so at any time, also late: what closes the connection is another request after the end. Clients that are too
old to be told are closed then as well. A login that follows the last one within a second is no renewal but a mistake, and
answered as one.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, NamedTuple, Protocol

from ottla.server.base.clock import Clock
from ottla.server.base.errors import CloseConnection
from ottla.wire.primitives import Buffer

SASL_HANDSHAKE: Final = 17
SHORTEST_SECONDS: Final = 1.0
"""The time from the beginning of a renewal to the next one that is allowed."""
_KEY: Final = Struct(">h")


class Previous(NamedTuple):
    """A login that is done: its mechanism and principal, and when it began if it renewed another, in seconds of the clock; else
    -1."""

    mechanism: str
    principal: str
    began: float


class Serves(Protocol):
    """Declares what serves the frames of one connection."""

    def serve(self, frame: Buffer, session: Any, /) -> Any: ...


class Renews(Protocol):
    """Declares the logins of a listener as one that ends sees them."""

    clock: Clock
    expired: int

    def begin(self, connection: Any, session: Any, previous: Previous | None, /) -> Serves:
        """Has the client of a connection log in."""
        ...

    def after(self, frame: Buffer, session: Any, /) -> Any:
        """Serves a frame of a client that has logged in."""
        ...


class Lifetime:
    """Serves a connection whose login ends after `lifetime_ms`. `login` says by whom and when it was last renewed."""

    __slots__ = ("_connection", "_login", "_logins", "_until")

    def __init__(self, logins: Renews, connection: Any, lifetime_ms: int, login: Previous) -> None:
        self._logins = logins
        self._connection = connection
        self._login = login
        self._until = logins.clock.monotonic() + lifetime_ms / 1000

    def serve(self, frame: Buffer, session: Any) -> Any:
        """Serves one frame, as `Dispatch.serve` does. Raises CloseConnection."""
        now = self._logins.clock.monotonic()
        if len(frame) >= _KEY.size and _KEY.unpack_from(frame)[0] == SASL_HANDSHAKE and self._may_renew(now):
            renewal = self._logins.begin(self._connection, session, self._login._replace(began=now))
            return renewal.serve(frame, session)
        if now >= self._until:
            self._logins.expired += 1
            raise CloseConnection(f"the login of {self._login.principal!r} has ended, and it did not log in again")
        return self._logins.after(frame, session)

    def _may_renew(self, now: float) -> bool:
        return self._login.began < 0 or now - self._login.began >= SHORTEST_SECONDS
