"""Connections as a test sees them: whose they are, which request waits, and until when nothing is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.wire.api import APIS

if TYPE_CHECKING:
    from ottla.server.broker.broker import Broker
    from ottla.server.network.connection import Connection
    from ottla.server.testkit.bench import Bench


def connections(broker: Broker) -> Iterator[Connection]:
    """Yields the connections of all listeners, in the order in which they were opened at each."""
    for listener in broker.all_listeners:
        yield from listener.connections


def describe_connection(bench: Bench, connection: Connection) -> dict[str, Any]:
    """Returns all about a connection. `client_id` is that of its last request."""
    session = connection.session
    software, version = session.client_software
    return {
        "client_id": session.client_id,
        "software": software,
        "software_version": version,
        "host": session.client_host,
        "port": session.client_port,
        "listener": session.listener,
        "principal": session.principal,
        "parked": _parked(bench, connection),
        "muted_for_ms": _muted_for_ms(bench, connection),
    }


def _parked(bench: Bench, connection: Connection) -> dict[str, Any] | None:
    """Returns the request that waits for its answer, and for how long it has waited, in real time."""
    found = bench.parked.get(connection.session) if connection.waiting else None
    if found is None:
        return None
    request = found.request
    return {
        "api": APIS[request.api_key].name,
        "version": request.api_version,
        "correlation_id": request.correlation_id,
        "for_ms": round((bench.clock.monotonic() - found.since_s) * 1000),
    }


def _muted_for_ms(bench: Bench, connection: Connection) -> int | None:
    """Returns for how long nothing more is read, by the broker's clock; None if something is."""
    left_s = connection.muted_until - bench.context.clock.monotonic()
    return round(left_s * 1000) if left_s > 0 else None
