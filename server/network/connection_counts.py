"""Counts what the limits of a broker's sockets apply to, over all of its listeners."""

from __future__ import annotations


class ConnectionCounts:
    """Counts open connections, and the requests that they have sent and that wait."""

    __slots__ = ("connections", "from_host", "queued_bytes", "queued_requests")

    def __init__(self) -> None:
        self.connections = 0
        """Open connections of all listeners, for `max.connections`."""
        self.from_host: dict[str, int] = {}
        """Open connections by the client's address, for `max.connections.per.ip`."""
        self.queued_requests = 0
        """Copies of whole requests that wait for the answer to an earlier one, for `queued.max.requests`."""
        self.queued_bytes = 0
        """The bytes of these requests, for `queued.max.request.bytes`."""

    def add(self, host: str) -> None:
        """Counts a connection from this address."""
        self.connections += 1
        self.from_host[host] = self.from_host.get(host, 0) + 1

    def remove(self, host: str) -> None:
        """Stops counting a connection from this address."""
        self.connections -= 1
        left = self.from_host[host] - 1
        if left:
            self.from_host[host] = left
        else:
            del self.from_host[host]
