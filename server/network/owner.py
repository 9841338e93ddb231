"""What a connection knows of the listener that it belongs to, and of what serves its requests.

So connections stand below listeners, and a test can own one without a listener.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ottla.server.dispatch.routes import Waiting
    from ottla.server.network.context import NetworkContext
    from ottla.server.network.socket_settings import SocketSettings
    from ottla.server.requests.session import Session
    from ottla.wire.primitives import Buffer, Parts


class Serves(Protocol):
    """What answers the requests of a session: server.dispatch.routes.Dispatch, which says how."""

    def serve(self, frame: Buffer, session: Session, /) -> bytes | Parts | Waiting | None: ...


class Owner(Protocol):
    """A listener, as its connections see it."""

    name: str
    """The listener's name in the setting `listeners`."""
    context: NetworkContext
    dispatch: Serves
    settings: SocketSettings

    def admit(self, connection: Any) -> str | None:
        """Lets a new connection in and returns None, or returns why not."""
        ...

    def forget(self, connection: Any) -> None:
        """Takes note that the connection is gone."""

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Holds a request's task until it is done, also when its connection goes."""
