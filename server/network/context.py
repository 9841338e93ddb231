"""Holds the parts of the network that all listeners of a broker share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.network.client_memory import UNLIMITED, ClientMemory
from ottla.server.network.connection_counts import ConnectionCounts
from ottla.server.network.receive_buffers import ReceiveBuffers

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.base.network import Network
    from ottla.server.partitions.purgatory import Purgatory


class NetworkContext:
    """Holds the parameters of one broker's network. `max_client_bytes` is how many bytes connections may hold for clients,
    `max_request_bytes` the size of the longest request."""

    __slots__ = ("buffers", "clock", "counts", "memory", "network", "purgatory")

    def __init__(
        self,
        clock: Clock,
        purgatory: Purgatory,
        network: Network,
        buffers: ReceiveBuffers | None = None,
        *,
        max_client_bytes: int = UNLIMITED,
        max_request_bytes: int = 0,
    ) -> None:
        self.clock = clock
        self.purgatory = purgatory
        """Requests that wait for records. The ones that an append completes are found before the client that appended is
        answered."""
        self.network = network
        self.buffers = buffers or ReceiveBuffers()
        self.counts = ConnectionCounts()
        self.memory = ClientMemory(clock, self.buffers, max_client_bytes, max_request_bytes)
