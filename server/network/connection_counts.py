"""The counts that the limits of a broker's sockets are about, over all of its listeners."""

from __future__ import annotations


class ConnectionCounts:
    """Open connections, and what they have sent that waits."""

    __slots__ = ("connections", "from_host", "queued_bytes", "queued_requests")

    def __init__(self) -> None:
        self.connections = 0
        """Open connections of all listeners, for `max.connections`."""
        self.from_host: dict[str, int] = {}
        """The same by the client's address, for `max.connections.per.ip`."""
        self.queued_requests = 0
        """Whole requests that wait, in a copy, for the answer before theirs, for `queued.max.requests`."""
        self.queued_bytes = 0
        """The bytes of these requests, for `queued.max.request.bytes`."""

    def add(self, host: str) -> None:
        """Counts a connection from this address."""
        self.connections += 1
        self.from_host[host] = self.from_host.get(host, 0) + 1

    def remove(self, host: str) -> None:
        """Counts it no longer."""
        self.connections -= 1
        left = self.from_host[host] - 1
        if left:
            self.from_host[host] = left
        else:
            del self.from_host[host]
