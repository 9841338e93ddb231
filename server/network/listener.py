"""A listener: an address that clients connect to, and the connections that it has.

It admits connections (`max.connections`, `max.connections.per.ip`), closes the idle ones (`connections.max.idle.ms`) and ends
all of them at a stop. Idleness is found by a sweep, ten in the idle time: a connection that moved since the last one has its flag
`active` set. A timer a connection, put off with every request, would cost each request more than its decoding does.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.server.metadata.image import BROKER
from ottla.server.network.connection import Connection
from ottla.server.settings.rules import limit_of_address

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable
    from ottla.server.dispatch.routes import Waiting
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.network.connection_rates import ConnectionRates
    from ottla.server.network.shared_buffers import Shared
    from ottla.server.requests.context import BrokerContext
    from ottla.server.requests.session import Session
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.wire.primitives import Buffer, Parts

logger = logging.getLogger("ottla.server.listener")

SWEEPS: Final = 10
"""Sweeps in one connections.max.idle.ms."""


@dataclass(slots=True, frozen=True)
class SocketSettings:
    """The broker settings that sockets depend on. A buffer of -1 bytes leaves its size to the kernel, which goes by
    demand; -1 queued bytes are no bound."""

    max_request_bytes: int = 104_857_600
    max_idle_ms: int = 600_000
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_queued_requests: int = 500
    max_queued_bytes: int = -1
    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1

    @classmethod
    def from_broker(cls, values: Mapping[str, Any]) -> SocketSettings:
        """From the broker's settings by name; a missing one has its default.

        A size that is set keeps the kernel from sizing by demand, so Kafka's default of 100 KiB, which nobody chose, sets none.
        """
        default = cls()

        def number(name: str, otherwise: int) -> int:
            value = values.get(name)
            return value if isinstance(value, int) else otherwise

        def buffer(name: str) -> int:
            size = number(name, -1)
            return -1 if size == KAFKA_BUFFER_BYTES else size

        return cls(
            max_request_bytes=number("socket.request.max.bytes", default.max_request_bytes),
            max_idle_ms=number("connections.max.idle.ms", default.max_idle_ms),
            max_connections=number("max.connections", default.max_connections),
            max_connections_per_ip=number("max.connections.per.ip", default.max_connections_per_ip),
            per_ip_overrides=_overrides(values.get("max.connections.per.ip.overrides")),
            max_queued_requests=number("queued.max.requests", default.max_queued_requests),
            max_queued_bytes=number("queued.max.request.bytes", default.max_queued_bytes),
            backlog=number("socket.listen.backlog.size", default.backlog),
            send_buffer_bytes=buffer("socket.send.buffer.bytes"),
            receive_buffer_bytes=buffer("socket.receive.buffer.bytes"),
        )

    def max_from(self, host: str) -> int:
        return self.per_ip_overrides.get(host, self.max_connections_per_ip)


KAFKA_BUFFER_BYTES: Final = 102_400


def _overrides(text: str | None) -> dict[str, int]:
    """`max.connections.per.ip.overrides`: "address:count,address:count". A part that is none counts as not there: somebody with
    other rules wrote it while their broker ran."""
    return dict(limit for limit in map(limit_of_address, (text or "").split(",")) if limit is not None)


class Serves(Protocol):
    """What answers requests: server.dispatch.Dispatch, which says how."""

    def serve(self, frame: Buffer, session: Session, /) -> bytes | Parts | Waiting | None: ...


class Listener:
    """`name` is the listener's in the setting `listeners`; `port` is known once it is open."""

    def __init__(self, name: str, broker: BrokerContext, dispatch: Serves, settings: SocketSettings, shared: Shared) -> None:
        self.name = name
        self.broker = broker
        self.dispatch = dispatch
        self.settings = settings
        self.shared = shared
        self.port = 0
        self.connections: dict[Connection, int] = {}
        """Open connections, and for how many sweeps nothing moved there."""
        self.rates: ConnectionRates | None = None
        """None where connections may come as fast as they like."""
        self.accepted = 0
        self.refused = 0
        self._turned_away: set[Connection] = set()  # connections that will be closed, unread
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self._sweep_timer: Cancellable | None = None
        self._empty = asyncio.Event()

    # Open and close

    async def open(self, host: str | None, port: int) -> None:
        """Takes the address; clients can connect once `accept` is called. No host is every interface, port 0 a free one. OSError
        where the address is not to be had.
        """
        sock = bound_socket(host, port, self.settings)
        self.port = sock.getsockname()[1]
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), sock=sock, backlog=self.settings.backlog, start_serving=False
        )

    async def accept(self) -> None:
        """Lets clients in. OSError where somebody else has come to listen at the address meanwhile."""
        assert self._server is not None
        await self._server.start_serving()
        if self.settings.max_idle_ms > 0:
            self._schedule_sweep()

    @property
    def accepting(self) -> bool:
        """Clients can connect."""
        return self._server is not None and self._server.is_serving()

    def stop_accepting(self) -> None:
        """The address is free again; connections stay."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    async def close(self, grace_seconds: float) -> None:
        """Ends all connections. Requests in work and answers half sent have the grace, those that wait for records none."""
        self.stop_accepting()
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
        for connection in list(self._turned_away):
            connection.abort()
        for connection in list(self.connections):
            connection.close_quietly()
        if self.connections:
            self._empty.clear()
            try:
                await asyncio.wait_for(self._empty.wait(), grace_seconds)
            except TimeoutError:
                for connection in list(self.connections):
                    connection.abort()

    # What connections say

    def admit(self, connection: Connection) -> str | None:
        """Takes a new connection in; or says why not."""
        settings, host, shared = self.settings, connection.host, self.shared
        if shared.connections >= settings.max_connections:
            self.refused += 1
            return f"max.connections is {settings.max_connections}"
        if shared.from_host.get(host, 0) >= settings.max_from(host):
            self.refused += 1
            return f"max.connections.per.ip is {settings.max_from(host)}"
        if self.rates is not None:
            wait_ms, refused = self.rates.admit(self.name, host)
            if refused:
                self.refused += 1
                self._turned_away.add(connection)
                self.broker.clock.call_later(wait_ms / 1000, connection.abort)
                connection.mute(wait_ms)
                return f"connections come too fast from {host}; it is closed in {wait_ms} ms"
            if wait_ms:
                connection.mute(wait_ms)
        self.accepted += 1
        self.connections[connection] = 0
        shared.connected(host)
        return None

    def forget(self, connection: Connection) -> None:
        """The connection is gone."""
        self._turned_away.discard(connection)
        if self.connections.pop(connection, None) is None:
            return  # it was never let in
        self.shared.disconnected(connection.host)
        if not self.connections:
            self._empty.set()

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Holds a request's task until it is done, also when its connection goes."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Idle connections

    def _schedule_sweep(self) -> None:
        self._sweep_timer = self.broker.clock.call_later(self.settings.max_idle_ms / 1000 / SWEEPS, self._sweep)

    def _sweep(self) -> None:
        for connection, still in list(self.connections.items()):
            if connection.active or connection.waiting:
                connection.active = False
                self.connections[connection] = 0
            elif still + 1 < SWEEPS:
                self.connections[connection] = still + 1
            elif still + 1 == SWEEPS:
                self.connections[connection] = still + 1
                connection.close(f"nothing happened for connections.max.idle.ms ({self.settings.max_idle_ms})")
            else:
                connection.abort()  # it does not take what is still to be sent, either
        self._schedule_sweep()


def limits_new_connections(config: BrokerConfig, image: MetadataImage) -> bool:
    """Whether `max.connection.creation.rate` is set, for the broker or a listener of it, in its file or while it ran."""
    name = "max.connection.creation.rate"
    written = (config.texts, image.config_of(BROKER, ""), image.config_of(BROKER, str(config.node_id)))
    return any(each == name or each.endswith(f".{name}") for texts in written for each in texts)


def bound_socket(host: str | None, port: int, settings: SocketSettings) -> socket.socket:
    """A socket bound to the address, IPv4 where a name has both; for no host, to every interface of both. OSError."""
    if host:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        return _bound(family, address, settings)
    if socket.has_dualstack_ipv6():
        return _bound(socket.AF_INET6, ("::", port), settings)
    return _bound(socket.AF_INET, ("0.0.0.0", port), settings)


def _bound(family: socket.AddressFamily, address: Any, settings: SocketSettings) -> socket.socket:
    """Accepted sockets inherit all that is set here."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6 and address[0] == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if settings.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        if settings.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock
