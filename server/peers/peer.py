"""`Peer`: another node, a broker or a controller, as this one asks it: requests by one connection, which is opened when needed.

| state | a request | it leaves the state when |
|---|---|---|
| IDLE | opens a connection | asked |
| CONNECTING | waits | the connection is there, or failed |
| NEGOTIATING | waits | the other node's versions are known (handshake.py) and this one has logged in, or the connection ended |
| READY | is sent at once, in the newest version that both nodes have | the connection ended, or the login has to be renewed |
| PAUSED | waits | the time before the next attempt is over: CONNECTING if a request waits, IDLE otherwise |
| CLOSED | fails with Closed | never |

An attempt that fails fails every request that waits for it, so that who asked can turn to another node; the pause grows with the
attempts that failed in a row, and so does the time that a connection may take to be set up, which includes the negotiation. A
request that comes in a pause waits for its end: so no caller that asks again at once makes a loop without rest.

Every request has a time that begins with `call`, whatever it then waits for. If it is over while the request waits, only that
request fails. If it was sent, the connection ends with it, since all later answers would wait for the one that does not come.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.clock import Cancellable, Clock
from ottla.server.base.network import Network
from ottla.server.base.promise import Promise
from ottla.server.peers.backoff import Backoff
from ottla.server.peers.call import Call
from ottla.server.peers.connection import Connection
from ottla.server.peers.handshake import Versions, common_version, negotiate
from ottla.server.peers.outcomes import Closed, Disconnected, PeerError, TimedOut
from ottla.wire.primitives import WireStruct

if TYPE_CHECKING:
    from ottla.server.security.client import ClientSecurity

logger = logging.getLogger("ottla.server.peers")


class State(Enum):
    """The states of a peer; the module's docstring says what each means."""

    IDLE = "idle"
    CONNECTING = "connecting"
    NEGOTIATING = "negotiating"
    READY = "ready"
    PAUSED = "paused"
    CLOSED = "closed"


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.IDLE: frozenset({State.CONNECTING, State.CLOSED}),
    State.CONNECTING: frozenset({State.NEGOTIATING, State.PAUSED, State.CLOSED}),
    State.NEGOTIATING: frozenset({State.READY, State.PAUSED, State.CLOSED}),
    State.READY: frozenset({State.NEGOTIATING, State.PAUSED, State.CLOSED}),
    State.PAUSED: frozenset({State.CONNECTING, State.IDLE, State.CLOSED}),
    State.CLOSED: frozenset(),
}


@dataclass(slots=True, frozen=True)
class PeerSettings:
    """The bounds on how long things may take, and how large they may be. The names are those of Kafka's settings.

    Kafka's brokers have no settings for the pauses between attempts; these are the defaults of its clients.
    """

    connection_setup_timeout_ms: int = 10_000
    connection_setup_timeout_max_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    max_answer_bytes: int = 104_857_600
    """The largest answer that is taken: what Kafka takes as a request by default. A fetch asks for a tenth of it, and is answered
    with more only if a single batch is larger."""

    @classmethod
    def from_broker(cls, values: Mapping[str, Any]) -> PeerSettings:
        """Reads the broker's settings, given by name."""
        return cls(
            connection_setup_timeout_ms=values["socket.connection.setup.timeout.ms"],
            connection_setup_timeout_max_ms=values["socket.connection.setup.timeout.max.ms"],
        )


class Peer:
    """Another node at `host` and `port`; see the module's docstring. It needs a running event loop from the first call on.

    `client_id` is the name by which the other node's logs and quotas know this connection, and `security` how it is encrypted and
    logs in; None is plain text.
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        *,
        network: Network,
        clock: Clock,
        random: Random,
        settings: PeerSettings | None = None,
        security: ClientSecurity | None = None,
    ) -> None:
        self.host, self.port = host, port
        self.state = State.IDLE
        self._client_id = client_id
        self._network = network
        self._security = security
        self._clock = clock
        self._settings = settings = settings or PeerSettings()
        self._pauses = Backoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, random)
        self._setup_times = Backoff(settings.connection_setup_timeout_ms, settings.connection_setup_timeout_max_ms, random)
        self._failures = 0  # of attempts to connect, in a row
        self._waiting: dict[Call, None] = {}  # in the order of their coming
        self._connection: Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._timer: Cancellable | None = None  # of the setup or the pause
        self._versions: Versions = {}

    @property
    def versions(self) -> Versions:
        """The versions that the other node had when it was last connected, by API key; none before the first time."""
        return self._versions

    @property
    def name(self) -> str:
        """The other node's address, for messages."""
        return f"{self.host}:{self.port}"

    def call(self, request: WireStruct, timeout_ms: int, *, min_version: int = 0) -> Promise[Any]:
        """Sends a request; the promise is of its answer, and fails with a PeerError if there is none within `timeout_ms`.

        The request goes in the newest version that both nodes have. `min_version` is the oldest that would do.
        """
        call = Call(request, min_version)
        if self.state is State.CLOSED:
            call.fail(Closed(f"the connection to {self.name} is closed"))
            return call.answer
        call.timer = self._clock.call_later(timeout_ms / 1000, lambda: self._time_out(call, timeout_ms))
        if self.state is State.READY:
            self._send(call)
            return call.answer
        self._waiting[call] = None
        if self.state is State.IDLE:
            self._connect()
        return call.answer

    async def close(self) -> None:
        """Ends everything: requests fail with Closed, and nothing is left that runs or is open when this returns."""
        if self.state is not State.CLOSED:
            self._end(State.CLOSED, "this node closed it", Closed)
        if self._opening is not None:
            await asyncio.wait([self._opening])
        if self._connection is not None:
            await self._connection.wait_until_gone()

    # Connecting

    def _connect(self) -> None:
        self._enter(State.CONNECTING)
        connection = self._connection = Connection(self.name, self._client_id, self._settings.max_answer_bytes, self._lose)
        setup_s = self._setup_times.seconds(self._failures)
        self._timer = self._clock.call_later(setup_s, lambda: self._lose(f"{self.name} did not get ready in {setup_s:.1f} s"))
        self._opening = asyncio.ensure_future(self._open(connection))
        self._opening.add_done_callback(self._opened)

    async def _open(self, connection: Connection) -> None:
        """Connects and negotiates. Whoever ends the attempt meanwhile cancels this."""
        context = self._security.context() if self._security is not None else None
        try:
            await self._network.connect_to(lambda: connection, self.host, self.port, context)
        except (OSError, UnicodeError) as error:
            self._lose(f"cannot connect to {self.name}: {error}")
            return
        self._enter(State.NEGOTIATING)
        try:
            self._versions = await negotiate(connection)
            renewed_after_s = await self._log_in(connection)
        except PeerError as error:
            self._lose(str(error), type(error))
            return
        self._get_ready(renewed_after_s)

    async def _log_in(self, connection: Connection) -> float:
        """Logs in if there is a login; returns when to do it again, 0 for never. Raises PeerError."""
        if self._security is None or self._security.login is None:
            return 0.0
        from ottla.server.peers.login import login_calls

        calls = login_calls(self._security.login, self.name)
        call = next(calls)
        while True:
            connection.send(call, common_version(call, self._versions, self.name))
            answer = await call.answer
            try:
                call = calls.send(answer)
            except StopIteration as end:
                return float(end.value)

    async def _log_in_again(self, connection: Connection) -> None:
        """Renews the login on a connection that is in use. What was asked before is answered first."""
        try:
            renewed_after_s = await self._log_in(connection)
        except PeerError as error:
            self._lose(str(error), type(error))
            return
        logger.debug("renewed a login to %s", self.name)
        self._get_ready(renewed_after_s)

    def _renew(self) -> None:
        """Begins to renew the login."""
        assert self._connection is not None
        self._enter(State.NEGOTIATING)
        setup_s = self._setup_times.seconds(0)
        self._timer = self._clock.call_later(setup_s, lambda: self._lose(f"{self.name} did not renew a login in {setup_s:.1f} s"))
        self._opening = asyncio.ensure_future(self._log_in_again(self._connection))
        self._opening.add_done_callback(self._opened)

    def _get_ready(self, renewed_after_s: float) -> None:
        """Sends what waits; the login, if there is one, is renewed after this time."""
        self._enter(State.READY)
        self._stop_timer()
        self._failures = 0
        if renewed_after_s:
            self._timer = self._clock.call_later(renewed_after_s, self._renew)
        while self._waiting and self.state is State.READY:
            call = next(iter(self._waiting))
            del self._waiting[call]
            self._send(call)

    def _opened(self, opening: asyncio.Task[None]) -> None:
        """Ends an attempt in which something failed that nobody foresaw."""
        if not opening.cancelled() and (error := opening.exception()) is not None:
            logger.error("connecting to %s failed", self.name, exc_info=error)
            self._lose(f"connecting to {self.name} failed: {error!r}")

    # Requests

    def _send(self, call: Call) -> None:
        assert self._connection is not None
        try:
            self._connection.send(call, common_version(call, self._versions, self.name))
        except Exception as error:  # noqa: BLE001 - UnsupportedVersion, or what is wrong with the request: for whoever asks
            call.fail(error)

    def _time_out(self, call: Call, timeout_ms: int) -> None:
        error = TimedOut(f"{self.name} did not answer {call.name} within {timeout_ms} ms")
        if call in self._waiting:
            del self._waiting[call]
            call.fail(error)
            return
        assert self._connection is not None
        self._connection.time_out(call, error)

    # Ending

    def _lose(self, reason: str, kind: type[PeerError] = Disconnected) -> None:
        """Begins the pause after a connection that ended or could not be opened."""
        if self.state in (State.PAUSED, State.CLOSED):
            return  # it is the end of the connection that was ended then
        pause_s = self._pauses.seconds(self._failures)
        if self.state is State.READY:
            logger.info("%s", reason)
        else:  # once is enough for many attempts in a row; whoever asks says what it means
            logger.log(logging.DEBUG if self._failures else logging.WARNING, "%s", reason)
            self._failures += 1
        self._end(State.PAUSED, reason, kind, pause_s)

    def _end(self, state: State, reason: str, kind: type[PeerError], pause_s: float | None = None) -> None:
        """Leaves whatever was there, first of all the state, since those who wait may call again at once."""
        self._enter(state)
        self._stop_timer()
        if pause_s is not None:
            self._timer = self._clock.call_later(pause_s, self._resume)
        if self._opening is not None and self._opening is not asyncio.current_task():
            self._opening.cancel()
        waiting, self._waiting = self._waiting, {}
        if self._connection is not None:
            self._connection.end(reason, kind)
        for call in waiting:
            call.fail(kind(reason))

    def _resume(self) -> None:
        """Ends the pause."""
        if self._waiting:
            self._connect()
        else:
            self._enter(State.IDLE)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _enter(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} to {state}"
        self.state = state
