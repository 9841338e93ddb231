"""The kit of one test: what it controls, over all starts of its broker.

Of the two layers that it puts around requests, the outer one (frames.py) is there from the broker's start, and does nothing as
long as no fault changes bytes; the inner one (faults.py) comes and goes with the faults.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, Final

from ottla.server.testkit.frames import Frames, Rewrites

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.broker.broker import Broker
    from ottla.server.dispatch.routes import Dispatch
    from ottla.server.network.connection import Connection
    from ottla.server.network.owner import Serves
    from ottla.server.requests.session import Session
    from ottla.server.testkit.faults import Faults

_LINGER_NOT: Final = struct.pack("ii", 1, 0)
"""The socket option by which closing resets the connection."""


class Kit:
    """Holds what a test controls. `around` is handed to each broker that is started for the test (`Broker(around=)`).

    `clock` is that of real time, for what the kit itself waits for, never a clock that the test moves. `random` decides what
    happens by chance; the same seed gives the same chances.
    """

    def __init__(self, clock: Clock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.rewrites = Rewrites()
        self._broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        """Returns the broker that was started last."""
        assert self._broker is not None
        return self._broker

    @cached_property
    def faults(self) -> Faults:
        """Returns the faults; their code is loaded with the first."""
        from ottla.server.testkit.faults import Faults

        return Faults(self)

    def around(self, broker: Broker, dispatch: Dispatch) -> Serves:
        """Returns what serves the requests of the broker's listeners in place of `dispatch`. The broker calls this in its start,
        before any client can connect, once for each dispatch."""
        if broker is not self._broker:
            self._broker = broker
            if "faults" in vars(self):
                self.faults.refresh()
        return Frames(dispatch, self)

    def describe(self) -> dict[str, Any]:
        """Returns what `state` answers."""
        broker = self.broker
        return {"bootstrap": broker.bootstrap, "cluster_id": broker.cluster_id, "node_id": broker.config.node_id}

    # Connections

    def soon(self, callback: Callable[[], None]) -> None:
        """Calls back in a later turn of the loop."""
        self.clock.call_later(0, callback)

    def connection_of(self, session: Session) -> Connection | None:
        """Returns the connection of a session, None if it is gone."""
        broker = self.broker
        for listener in (*broker.listeners, *broker.controller_listeners):
            for connection in listener.connections:
                if connection.session is session:
                    return connection
        return None

    def write(self, session: Session, data: bytes) -> None:
        """Sends bytes to a client, past all answers that wait."""
        connection = self.connection_of(session)
        if connection is not None:
            connection.active = True
            connection.transport.write(data)

    def reset_connection(self, session: Session) -> None:
        """Ends a connection with a reset, so that the client sees an error and no end."""
        connection = self.connection_of(session)
        if connection is None:
            return
        transport_socket = connection.transport.get_extra_info("socket")
        if transport_socket is not None:
            transport_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        connection.abort()
