"""Declares what a connection knows about the listener that it belongs to, and about the dispatch that serves its requests.

Because of these protocols connections are below listeners in the order of imports, and a test can use a connection without a
listener.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ottla.server.dispatch.route import Waiting
    from ottla.server.network.context import NetworkContext
    from ottla.server.network.socket_settings import SocketSettings
    from ottla.server.requests.session import Session
    from ottla.wire.primitives import Buffer, Parts


class Serves(Protocol):
    """Declares what serves the requests of a session: the methods of these names of server.dispatch.routes.Dispatch."""

    def serve(self, frame: Buffer, session: Session, /) -> bytes | Parts | Waiting | None: ...

    def serve_again(self, frame: Buffer, session: Session, /) -> bytes | Parts | Waiting | None: ...


class Owner(Protocol):
    """Declares a listener as its connections see it."""

    name: str
    """The listener's name in the setting `listeners`."""
    context: NetworkContext
    dispatch: Serves
    settings: SocketSettings

    def admit(self, connection: Any) -> str | None:
        """Lets a new connection in and returns None, or returns why not."""
        ...

    def log_refusal(self, peer: str, why: str) -> None:
        """Logs that a connection was not let in."""

    def log_closing(self, level: int, peer: str, why: str) -> None:
        """Logs at this level that the broker closed a connection of a client, which `peer` names."""

    def forget(self, connection: Any) -> None:
        """Forgets a connection that has ended."""

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Refers to a request's task until it is done, even if its connection ends."""
