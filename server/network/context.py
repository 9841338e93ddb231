"""What all listeners of a broker have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.server.network.connection_counts import ConnectionCounts
from ottla.server.network.receive_buffers import ReceiveBuffers
from ottla.server.network.sockets import Bind, ServeSocket, bound_socket, loop_server

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.partitions.purgatory import Purgatory


@dataclass(slots=True)
class NetworkContext:
    """The parameters of one broker's network. `bind` and `serve_socket` are the operating system's and the event loop's part."""

    clock: Clock
    purgatory: Purgatory
    """What appends complete of waiting requests is looked for before the client that appended hears of it."""
    bind: Bind = bound_socket
    serve_socket: ServeSocket = loop_server
    buffers: ReceiveBuffers = field(default_factory=ReceiveBuffers)
    counts: ConnectionCounts = field(default_factory=ConnectionCounts)
