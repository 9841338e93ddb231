"""Holds the parts of the network that all listeners of a broker share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.server.network.client_memory import UNLIMITED, ClientMemory
from ottla.server.network.connection_counts import ConnectionCounts
from ottla.server.network.receive_buffers import ReceiveBuffers

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.base.network import Network
    from ottla.server.partitions.purgatory import Purgatory


@dataclass(slots=True)
class NetworkContext:
    """Holds the parameters of one broker's network."""

    clock: Clock
    purgatory: Purgatory
    """Requests that wait for records. The ones that an append completes are found before the client that appended is answered."""
    network: Network
    buffers: ReceiveBuffers = field(default_factory=ReceiveBuffers)
    counts: ConnectionCounts = field(default_factory=ConnectionCounts)
    max_client_bytes: int = UNLIMITED
    """How many bytes connections may hold for clients."""
    max_request_bytes: int = 0
    """The size of the longest request, in bytes."""
    memory: ClientMemory = field(init=False)

    def __post_init__(self) -> None:
        self.memory = ClientMemory(self.clock, self.buffers, self.max_client_bytes, self.max_request_bytes)
