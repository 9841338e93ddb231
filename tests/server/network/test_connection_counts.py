"""Connections are counted over all listeners, and by the client's address."""

from __future__ import annotations

from ottla.server.network.connection_counts import ConnectionCounts


def test_connections_are_counted_by_host() -> None:
    counts = ConnectionCounts()
    for host in ("a", "b", "a"):
        counts.add(host)
    assert (counts.connections, counts.from_host) == (3, {"a": 2, "b": 1})
    counts.remove("a")
    counts.remove("b")
    assert (counts.connections, counts.from_host) == (1, {"a": 1})
