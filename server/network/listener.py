"""A listener: an address that clients connect to, and the connections that it has.

It admits connections (`max.connections`, `max.connections.per.ip`), closes the idle ones (`connections.max.idle.ms`) and ends
all of them at a stop. Idleness is found by a sweep, ten in the idle time: a connection that moved since the last one has its flag
`active` set. A timer a connection, put off with every request, would cost each request more than its decoding does.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from ottla.server.network.connection import Connection
from ottla.server.network.context import NetworkContext
from ottla.server.network.owner import Serves
from ottla.server.network.socket_settings import SocketSettings

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable
    from ottla.server.network.connection_rates import ConnectionRates

logger = logging.getLogger("ottla.server.listener")

SWEEPS: Final = 10
"""Sweeps in one connections.max.idle.ms."""


class Listener:
    """One address. `name` is the listener's in the setting `listeners`; `port` is known once it is open."""

    def __init__(self, name: str, context: NetworkContext, dispatch: Serves, settings: SocketSettings) -> None:
        self.name = name
        self.context = context
        self.dispatch = dispatch
        self.settings = settings
        self.port = 0
        self.connections: dict[Connection, int] = {}
        """Open connections, and for how many sweeps nothing moved there."""
        self.rates: ConnectionRates | None = None
        """How fast connections may come; None where nothing limits that."""
        self.accepted = 0
        self.refused = 0
        self._turned_away: set[Connection] = set()  # connections that will be closed, unread
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self._sweep_timer: Cancellable | None = None
        self._empty = asyncio.Event()

    # Open and close

    async def open(self, host: str | None, port: int) -> None:
        """Takes the address; clients can connect once `accept` is called. No host is every interface, port 0 a free one.

        Raises OSError where the address is not to be had.
        """
        context, settings = self.context, self.settings
        sock = context.bind(host, port, settings)
        self.port = sock.getsockname()[1]
        self._server = await context.serve_socket(lambda: Connection(self), sock, settings.backlog)

    async def accept(self) -> None:
        """Lets clients in. Raises OSError where somebody else has come to listen at the address meanwhile."""
        assert self._server is not None
        await self._server.start_serving()
        if self.settings.max_idle_ms > 0:
            self._schedule_sweep()

    @property
    def accepting(self) -> bool:
        """Whether clients can connect."""
        return self._server is not None and self._server.is_serving()

    def stop_accepting(self) -> None:
        """Gives the address up; connections stay."""
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
        """Lets a new connection in and returns None, or returns why not."""
        settings, host, counts = self.settings, connection.host, self.context.counts
        if counts.connections >= settings.max_connections:
            self.refused += 1
            return f"max.connections is {settings.max_connections}"
        if counts.from_host.get(host, 0) >= settings.max_from(host):
            self.refused += 1
            return f"max.connections.per.ip is {settings.max_from(host)}"
        if self.rates is not None:
            wait_ms, refused = self.rates.admit(self.name, host)
            if refused:
                self.refused += 1
                self._turned_away.add(connection)
                self.context.clock.call_later(wait_ms / 1000, connection.abort)
                connection.mute(wait_ms)
                return f"connections come too fast from {host}; it is closed in {wait_ms} ms"
            if wait_ms:
                connection.mute(wait_ms)
        self.accepted += 1
        self.connections[connection] = 0
        counts.add(host)
        return None

    def forget(self, connection: Connection) -> None:
        """Takes note that the connection is gone."""
        self._turned_away.discard(connection)
        if self.connections.pop(connection, None) is None:
            return  # it was never let in
        self.context.counts.remove(connection.host)
        if not self.connections:
            self._empty.set()

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Holds a request's task until it is done, also when its connection goes."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Idle connections

    def _schedule_sweep(self) -> None:
        self._sweep_timer = self.context.clock.call_later(self.settings.max_idle_ms / 1000 / SWEEPS, self._sweep)

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
