"""A listener is an address that clients connect to, together with its connections.

It admits connections (`max.connections`, `max.connections.per.ip`), closes idle ones (`connections.max.idle.ms`), and ends all of
them when the broker stops. A sweep, which runs ten times in the idle time, finds idle connections: a connection that was used
since the last sweep has its flag `active` set. A timer for each connection, postponed with every request, would cost each request
more than decoding it does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.clock import wait_at_most
from ottla.server.network.connection import Connection
from ottla.server.network.context import NetworkContext
from ottla.server.network.limited_log import LimitedLog
from ottla.server.network.owner import Serves
from ottla.server.network.socket_settings import UNLIMITED, SocketSettings

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable
    from ottla.server.network.connection_rates import ConnectionRates
    from ottla.server.security.login import Logins


SWEEPS: Final = 10
"""The number of sweeps in one connections.max.idle.ms."""


class Listener:
    """Listens at one address. `name` is its name in the setting `listeners`; `port` is known once it is open."""

    def __init__(self, name: str, context: NetworkContext, dispatch: Serves, settings: SocketSettings) -> None:
        self.name = name
        self.context = context
        self.dispatch = dispatch
        self.settings = settings
        self.port = 0
        self.connections: dict[Connection, int] = {}
        """The open connections, each with the number of sweeps for which it has been idle."""
        context.memory.connections.append(self.connections)
        self.max_own_connections = UNLIMITED
        """The most connections to this listener (`listener.name.<name>.max.connections`)."""
        self.rates: ConnectionRates | None = None
        """Limits how fast connections may come; None if nothing does."""
        self.logins: Logins | None = None
        """Has clients log in before anything else; None where they need not."""
        self.accepted = 0
        self.refused = 0
        self._log = LimitedLog(name, context.clock, "were refused, or failed their handshakes")
        self._closings = LimitedLog(name, context.clock, "had their connections closed")
        self._turned_away: set[Connection] = set()  # connections that will be closed, unread
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self._sweep_timer: Cancellable | None = None
        self._empty: asyncio.Future[None] | None = None  # done once a closing listener has no connection any more

    # Open and close

    async def open(self, host: str | None, port: int) -> None:
        """Binds the address; clients can connect once `accept` is called. No host means every interface, port 0 a free port.

        Raises OSError if the address cannot be bound.
        """
        context, settings = self.context, self.settings
        buffers = {"send_buffer_bytes": settings.send_buffer_bytes, "receive_buffer_bytes": settings.receive_buffer_bytes}
        sock = context.network.bind(host, port, **buffers)
        self.port = sock.getsockname()[1]
        self._server = await context.network.serve(lambda: Connection(self), sock, settings.backlog)

    async def accept(self) -> None:
        """Lets clients connect. Raises OSError if another process has begun to listen at the address meanwhile."""
        assert self._server is not None
        await self._server.start_serving()
        if self.settings.max_idle_ms > 0:
            self._schedule_sweep()

    @property
    def accepting(self) -> bool:
        """True if clients can connect."""
        return self._server is not None and self._server.is_serving()

    def stop_accepting(self) -> None:
        """Gives up the address; connections stay open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    async def close(self, grace_seconds: float) -> None:
        """Ends all connections. Running requests and half-sent answers get the grace period; requests that wait for records do
        not.
        """
        self.stop_accepting()
        clock = self.context.clock
        await wait_at_most(clock, grace_seconds, self._tasks)
        for connection in list(self._turned_away):
            connection.abort()
        for connection in list(self.connections):
            connection.close_quietly()
        if self.connections:
            self._empty = asyncio.get_running_loop().create_future()
            if not await wait_at_most(clock, grace_seconds, (self._empty,)):
                for connection in list(self.connections):
                    connection.abort()

    def drop(self) -> None:
        """Gives up the address and ends all connections at once, whatever they are doing."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.abort()

    # Called by connections

    def admit(self, connection: Connection) -> str | None:
        """Lets a new connection in and returns None, or returns why not."""
        host = connection.host
        reached = self._find_limit_reached(host, len(self.connections))
        if reached is not None:
            return reached
        if self.rates is not None:
            wait_ms, refused = self.rates.admit(self.name, host)
            if refused:
                self.refused += 1
                self._turned_away.add(connection)
                self.context.clock.call_later(wait_ms / 1000, connection.abort)
                connection.mute(wait_ms)
                return f"{host} opens connections too fast; this one is closed in {wait_ms} ms"
            if wait_ms:
                connection.mute(wait_ms)
        self.accepted += 1
        self.connections[connection] = 0
        self.context.counts.add(host)
        if self.logins is not None:
            self.logins.begin(connection, connection.session)
        return None

    def _find_limit_reached(self, host: str, own: int) -> str | None:
        """Returns why a connection from this address is one too many, and counts it as refused; None if it is not. `own` are the
        connections that this listener has."""
        settings, counts = self.settings, self.context.counts
        if counts.connections >= settings.max_connections:
            reached = f"max.connections ({settings.max_connections}) is reached"
        elif counts.from_host.get(host, 0) >= settings.max_from(host):
            reached = f"max.connections.per.ip ({settings.max_from(host)}) is reached"
        elif own >= self.max_own_connections:
            reached = f"listener.name.{self.name.lower()}.max.connections ({self.max_own_connections}) is reached"
        else:
            return None
        self.refused += 1
        return reached

    def log_refusal(self, peer: str, why: str) -> None:
        """Logs that a client was not let in, unless there are too many such lines."""
        self._log.write(f"refused the connection of {peer}: {why}")

    def log_closing(self, level: int, peer: str, why: str) -> None:
        """Logs that the broker closed a connection, unless there are too many such lines."""
        self._closings.write(f"closed the connection of {peer}: {why}", level)

    def forget(self, connection: Connection) -> None:
        """Forgets a connection that has ended."""
        self._turned_away.discard(connection)
        if self.connections.pop(connection, None) is None:
            return  # it was never admitted
        self.context.counts.remove(connection.host)
        if not self.connections and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Refers to a request's task until it is done, even if its connection ends."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Idle connections

    def _schedule_sweep(self) -> None:
        seconds = self.settings.max_idle_ms / 1000 / SWEEPS
        self._sweep_timer = self.context.clock.call_pass(f"idle connections of {self.name}", seconds, self._sweep)

    def _sweep(self) -> None:
        for connection, still in list(self.connections.items()):
            if connection.active or connection.waiting:
                connection.active = False
                self.connections[connection] = 0
            elif still + 1 < SWEEPS:
                self.connections[connection] = still + 1
            elif still + 1 == SWEEPS:
                self.connections[connection] = still + 1
                connection.close(f"it was idle for connections.max.idle.ms ({self.settings.max_idle_ms})")
            else:
                connection.abort()  # the client does not even read what is still to be sent
        self._schedule_sweep()
