"""Connections: whose they are, which request waits, and until when nothing is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.wire.api import APIS

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.broker.broker import Broker
    from ottla.server.network.connection import Connection
    from ottla.server.requests.request import Request


def connections(broker: Broker) -> Iterator[Connection]:
    """Yields the connections of all listeners, in the order in which they were opened at each."""
    for listener in broker.all_listeners:
        yield from listener.connections


def describe_connection(connection: Connection, clock: Clock, parked: dict[str, Any] | None) -> dict[str, Any]:
    """Returns all about a connection. `client_id` is that of its last request, `clock` the broker's, and `parked` the request
    that waits for its answer, as `describe_waiting` has it, as far as somebody notes which one that is."""
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
        "parked": parked,
        "muted_for_ms": _muted_for_ms(connection, clock),
    }


def describe_waiting(request: Request, for_s: float) -> dict[str, Any]:
    """Returns a request that waits for its answer, and for how long it has waited."""
    return {
        "api": APIS[request.api_key].name,
        "version": request.api_version,
        "correlation_id": request.correlation_id,
        "for_ms": round(for_s * 1000),
    }


def _muted_for_ms(connection: Connection, clock: Clock) -> int | None:
    """Returns for how long nothing more is read, by the broker's clock; None if something is."""
    left_s = connection.muted_until - clock.monotonic()
    return round(left_s * 1000) if left_s > 0 else None
