"""A session is one client's connection as handlers, quotas, share groups and telemetry see it.

It begins when the connection is accepted and ends with it. Code that keeps something for the life of a connection keeps it by the
session and subscribes to the session's end; so the network layer need not know any of that code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.server.security.principals import ANONYMOUS

if TYPE_CHECKING:
    from ottla.log.joined_write import JoinedWrite
    from ottla.server.security.login import Login

UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")


class Connected(Protocol):
    """Declares what a session needs of its connection."""

    def hold(self, size: int, expire_early: Callable[[], object] | None = None) -> None:
        """Counts so many bytes in the account of what clients hold, until the request that is being answered has its answer.
        `expire_early` has it answered soon; it is called if there is no room.
        """
        ...

    def mute(self, throttle_time_ms: int) -> None:
        """Reads and serves no more requests for so many milliseconds."""
        ...


class Session:
    """Represents one client's connection. Sessions are compared by identity only.

    `listener` is the name of the listener that the client connected to.
    """

    __slots__ = (
        "_connection",
        "_on_close",
        "by_delegation_token",
        "client_host",
        "client_id",
        "client_port",
        "client_software",
        "is_closed",
        "is_repeated",
        "joined",
        "joins",
        "listener",
        "login",
        "principal",
    )

    def __init__(
        self,
        listener: str,
        client_host: str,
        client_port: int = 0,
        connection: Connected | None = None,
        principal: str = ANONYMOUS,
    ) -> None:
        self.listener = listener
        self.client_host = client_host
        self.client_port = client_port
        self.client_id: str | None = None
        """The client id of the latest request, for log lines. Each request has its own."""
        self.client_software: tuple[str, str] = UNKNOWN_SOFTWARE
        """The name and version of the client's library, as its ApiVersions gave them (KIP-511)."""
        self.principal = principal
        self.by_delegation_token = False
        """True if the client logged in with a delegation token: such a client gets no others."""
        self.login: Login | None = None
        """The login that the client has begun and not finished; None on a listener without logins."""
        self.is_closed = False
        self.joins = False
        """True if the connection serves several Produces before it answers any, so that their appends may be written together."""
        self.joined: JoinedWrite | None = None
        """The appends of the latest request that are not written yet, for the connection to take."""
        self.is_repeated = False
        """True while a request is served for the second time, because what it had appended could not be written."""
        self._connection = connection
        self._on_close: list[Callable[[Session], object]] = []

    def mute(self, throttle_time_ms: int) -> None:
        """Stops reading from this client and serving it for so many ms, because it is over a quota, unless it has gone."""
        if self._connection is not None:
            self._connection.mute(throttle_time_ms)

    def hold(self, size: int, expire_early: Callable[[], object]) -> None:
        """Counts so many bytes that the request which is being answered takes while it waits, unless the client has gone.
        `expire_early` is called if it has to be answered soon, because there is no room.
        """
        if self._connection is not None:
            self._connection.hold(size, expire_early)

    def on_close(self, callback: Callable[[Session], object]) -> None:
        """Calls back with this session once its connection is gone; at once if it already is."""
        if self.is_closed:
            callback(self)
        else:
            self._on_close.append(callback)

    def close(self) -> None:
        """Calls everybody who subscribed to the end of the connection, in the order of their subscriptions.

        Session and connection refer to each other, a cycle that only the garbage collector would find, so it is broken here.
        """
        self.is_closed = True
        self._connection = None
        if self.login is not None:
            self.login.close()
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback(self)
