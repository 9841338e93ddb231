"""The bench that the faults of a test work on: the broker that runs now, its connections, the time and the chances."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from random import Random
from typing import TYPE_CHECKING, Final

from ottla.server.testkit.parked import ParkedRequests

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.broker.broker import Broker
    from ottla.server.network.connection import Connection
    from ottla.server.requests.context import BrokerContext
    from ottla.server.requests.request import Request
    from ottla.server.requests.session import Session
    from ottla.server.testkit.lives.lives import Lives
    from ottla.server.testkit.recording.recording import Recorder

    NoteFault = Callable[[Request, str | None], None]

_LINGER_NOT: Final = struct.pack("ii", 1, 0)
"""The value of the socket option by which closing resets the connection."""


class Bench:
    """Holds the broker under test and what happens to it.

    `clock` is that of real time, for what the kit itself waits for, never a clock that the test moves. `random` decides what
    happens by chance; the same seed gives the same chances.
    """

    lives: Lives
    """The lives of the broker, which start it anew and have its clock; whoever makes the kit sets it."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.parked = ParkedRequests(clock)
        self._broker: Broker | None = None
        self.recorder: Recorder | None = None
        """The recorder of requests; None until a test asks for it."""
        self.on_fault: NoteFault | None = None
        """Is told of faults that act, beside the recorder."""

    @property
    def broker(self) -> Broker:
        """Returns the broker that was started last."""
        assert self._broker is not None
        return self._broker

    @property
    def context(self) -> BrokerContext:
        """Returns what the broker that was started last serves requests from."""
        context = self.broker.context
        assert context is not None
        return context

    @property
    def node_ids(self) -> AbstractSet[int]:
        """Returns the ids of the broker: one, or those of all nodes that it simulates."""
        return self.context.replicas.nodes

    def note_fault(self, request: Request, fault_id: str | None) -> None:
        """Notes in the recording, if there is one, which fault acts on a request; None if none does after all."""
        if self.recorder is not None:
            self.recorder.note_fault(request, fault_id)
        if self.on_fault is not None:
            self.on_fault(request, fault_id)

    # Connections

    def soon(self, callback: Callable[[], None]) -> None:
        """Calls back in a later turn of the loop."""
        self.clock.call_later(0, callback)

    def connection_of(self, session: Session) -> Connection | None:
        """Returns the connection of a session, None if it is gone."""
        for listener in self.broker.all_listeners:
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
