"""A listener whose connections are encrypted: what happens to a client between `accept` and the first request.

1. The limits of connections count from here. A client beyond one is closed, one that comes too fast waits.
2. Nothing is done before the client has sent something. Its first bytes are looked at, not read: a client that speaks plain text
   is closed, with a line in the log that says so, for this is what a wrong `security.protocol` looks like.
3. A certain number of a listener's handshakes are under way; further clients wait in line. A handshake costs memory and half a
   millisecond of the loop, a client that waits one or two kilobytes. Addresses come in turn, and handshakes that take too long
   give way (handshake_turns.py): so no address keeps the others out, with however many connections. If MOST_ARRIVALS clients
   are not served yet, an address that has one of them gets no more. The loop begins one handshake in a turn: if thousands of
   clients have hung up, as many places as there are would be free at once, again and again, and clients that are served would
   wait for all those handshakes together.
4. After HANDSHAKE_S the connection is closed, wherever it is by then.
5. If a handshake fails, the client is sent the reason (an alert of TLS), and has a moment to read it.
6. The client's certificate becomes the principal. If no rule makes a user of its name, the connection ends before any answer.

The connection itself is made when its handshake begins, and its `connection_made` comes when that has succeeded: no byte of a
client is decoded before. `loop.start_tls` would not do, since under uvloop the client's first bytes may reach the old protocol.

Failures are one line each in the log, as long as there are not too many (limited_log.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.security.addresses import source_of
from ottla.security.der import NotDer
from ottla.server.base.clock import sleep
from ottla.server.network.connection import Connection
from ottla.server.network.handshake_turns import PATIENCE_S, HandshakeTurns
from ottla.server.network.listener import Listener
from ottla.server.security.certificate_names import distinguished_name, subject_of
from ottla.server.security.tls import alert_of

if TYPE_CHECKING:
    from ottla.server.base.clock import Cancellable
    from ottla.server.base.network import Socket
    from ottla.server.network.context import NetworkContext
    from ottla.server.network.owner import Serves
    from ottla.server.network.socket_settings import SocketSettings
    from ottla.server.security.tls import TlsContexts

logger = logging.getLogger("ottla.server.listener")

HANDSHAKE_S: Final = 10.0
MOST_ARRIVALS: Final = 20_000
SHUTDOWN_S: Final = 2.0
_HEAD_BYTES: Final = 5
"""A TLS record begins with its type, its version and its length."""
_HANDSHAKE_RECORD: Final = b"\x16\x03"
_UNREAD_BYTES: Final = 64 * 1024
_RETRY_S: Final = 1.0


class _Arrival:
    """A client that has connected and is not served yet."""

    __slots__ = ("deadline_s", "host", "last", "peer", "sock", "source", "task", "timer", "yielded")

    def __init__(self, sock: Socket, host: str, port: int, deadline_s: float) -> None:
        self.sock = sock
        self.host = host
        self.source = source_of(host)
        self.peer = f"{host}:{port}"
        self.deadline_s = deadline_s
        self.yielded = False  # its handshake was given up for another client's
        self.last: Socket | None = None  # the same connection, when its handshake has failed and the client is to read why
        self.timer: Cancellable | None = None
        self.task: asyncio.Task[None] | None = None  # its handshake


class TlsListener(Listener):
    """Listens at one address for clients that speak TLS; `tls` has the context for each new connection."""

    def __init__(self, name: str, context: NetworkContext, dispatch: Serves, settings: SocketSettings, tls: TlsContexts) -> None:
        super().__init__(name, context, dispatch, settings)
        self.tls = tls
        self.handshakes = 0
        """The number of handshakes that have succeeded."""
        self.failed_handshakes = 0
        self._sock: Socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._arrivals: set[_Arrival] = set()
        self._of_source: Counter[str] = Counter()  # arrivals
        self.turns: HandshakeTurns[_Arrival] = HandshakeTurns()  # of those whose first bytes have come
        self._making: dict[Connection, _Arrival] = {}
        self._patience: Cancellable | None = None
        self._beginning: asyncio.Handle | None = None  # the next handshake begins in the loop's next turn

    # Open and close

    async def open(self, host: str | None, port: int) -> None:
        """See Listener."""
        settings = self.settings
        buffers = {"send_buffer_bytes": settings.send_buffer_bytes, "receive_buffer_bytes": settings.receive_buffer_bytes}
        sock = self.context.network.bind(host, port, **buffers)
        sock.setblocking(False)
        self.port = sock.getsockname()[1]
        self._sock = sock

    async def accept(self) -> None:
        """See Listener."""
        assert self._sock is not None
        self._sock.listen(self.settings.backlog)
        self._accepting = asyncio.ensure_future(self._accept_all(self._sock))
        if self.settings.max_idle_ms > 0:
            self._schedule_sweep()

    @property
    def accepting(self) -> bool:
        """See Listener."""
        return self._accepting is not None

    def stop_accepting(self) -> None:
        """See Listener. Clients that are not served yet are closed."""
        super().stop_accepting()
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._beginning is not None:
            self._beginning.cancel()
            self._beginning = None
        self.turns.clear_line()
        for arrival in list(self._arrivals):
            if arrival.last is not None:
                self._drop(arrival)
            elif arrival.task is not None:
                arrival.task.cancel()
            else:
                self.context.network.stop_waiting(arrival.sock)
                self._drop(arrival)

    # From accept to the handshake

    async def _accept_all(self, listening: Socket) -> None:
        """Accepts connections until it is cancelled."""
        while True:
            try:
                sock = await self.context.network.accept(listening)
            except OSError as error:
                if not self.accepting:
                    return
                logger.error("listener %s cannot accept a connection, and tries again in a second: %s", self.name, error)
                await sleep(self.context.clock, _RETRY_S)
                continue
            try:
                self._receive(sock)
            except OSError:  # the client has already gone
                sock.close()

    def _receive(self, sock: Socket) -> None:
        """Admits a new connection, or closes it. Raises OSError if it has ended."""
        host, port = sock.getpeername()[:2]
        host = host.removeprefix("::ffff:")
        sock.setblocking(False)
        clock = self.context.clock
        arrival = _Arrival(sock, host, port, clock.monotonic() + HANDSHAKE_S)
        if len(self._arrivals) >= MOST_ARRIVALS and self._of_source[arrival.source]:
            self.refused += 1
            reached: str | None = f"{MOST_ARRIVALS} others have not finished their handshakes"
        else:
            reached = self._find_limit_reached(host, len(self.connections) + len(self._arrivals))
        wait_ms, refused = 0, False
        if reached is None and self.rates is not None:
            wait_ms, refused = self.rates.admit(self.name, host)
            if refused:
                self.refused += 1
                reached = f"{host} opens connections too fast; this one is closed in {wait_ms} ms"
        if reached is not None:
            self.log_refusal(arrival.peer, reached)
            if refused:
                clock.call_later(wait_ms / 1000, sock.close)
            else:
                sock.close()
            return
        self._arrivals.add(arrival)
        self._of_source[arrival.source] += 1
        self.context.counts.add(host)
        if wait_ms:
            arrival.deadline_s += wait_ms / 1000
            arrival.timer = clock.call_later(wait_ms / 1000, lambda: self._listen_to(arrival))
        else:
            self._listen_to(arrival)

    def _listen_to(self, arrival: _Arrival) -> None:
        """Waits for the client's first bytes, no longer than its handshake may take."""
        clock = self.context.clock
        arrival.timer = clock.call_later(arrival.deadline_s - clock.monotonic(), lambda: self._give_up(arrival))
        try:
            self.context.network.when_readable(arrival.sock, _HEAD_BYTES, lambda: self._look(arrival))
        except OSError:
            self._drop(arrival)

    def _look(self, arrival: _Arrival) -> None:
        """Looks at the client's first bytes, and lets it wait for its handshake if they are those of TLS."""
        self.context.network.stop_waiting(arrival.sock)
        try:
            head = self.context.network.peek(arrival.sock, _HEAD_BYTES)
        except OSError:
            head = b""
        if not head:  # it has gone, as what looks for open ports does
            self._drop(arrival)
        elif head.startswith(_HANDSHAKE_RECORD[: len(head)]):
            self.turns.line_up(arrival.source, arrival)
            self._begin_handshakes()
        else:
            self._fail(arrival, "plain text on a TLS listener; the client needs security.protocol=SSL or SASL_SSL")
            self._drop(arrival)

    def _give_up(self, arrival: _Arrival) -> None:
        """Ends a connection whose time is over before its handshake has begun."""
        self._fail(arrival, f"no TLS handshake within {HANDSHAKE_S:.0f} s")
        if not self.turns.leave(arrival.source, arrival):
            self.context.network.stop_waiting(arrival.sock)
        self._drop(arrival)

    def _begin_handshakes(self) -> None:
        """Lets clients begin their handshakes as long as there are places, one in each turn of the loop."""
        if self._beginning is None and self.turns.waiting:
            self._beginning = asyncio.get_running_loop().call_soon(self._begin_one)

    def _begin_one(self) -> None:
        """Lets the next client begin its handshake if there is a place, and looks again when one has to be given up."""
        self._beginning = None
        now_s = self.context.clock.monotonic()
        arrival = self.turns.begin(now_s)
        if arrival is not None:
            if arrival.timer is not None:
                arrival.timer.cancel()
            arrival.task = asyncio.ensure_future(self._shake_hands(arrival, arrival.deadline_s - now_s))
            arrival.task.add_done_callback(partial(self._end_handshake, arrival))
            self._begin_handshakes()
        left_s = self.turns.look_again_in_s(now_s) if self._patience is None else None
        if left_s is not None:
            self._patience = self.context.clock.call_later(left_s, self._make_room)

    def _make_room(self) -> None:
        """Ends handshakes that have taken too long for others to wait."""
        self._patience = None
        late = self.turns.find_late(self.context.clock.monotonic())
        for arrival in late:
            arrival.yielded = True
            if arrival.task is not None:
                arrival.task.cancel()
        if not late:
            self._begin_handshakes()

    async def _shake_hands(self, arrival: _Arrival, left_s: float) -> None:
        """Carries out one handshake, which may take `left_s`."""

        def make() -> Connection:
            connection = Connection(self)
            self._making[connection] = arrival
            return connection

        second = None
        try:
            second = arrival.sock.dup()  # the loop closes the first one before the client is told anything
            await self.context.network.encrypt(make, arrival.sock, self.tls.context, max(0.001, left_s), SHUTDOWN_S)
        except OSError as error:
            self._fail(arrival, describe(error))
            alert = alert_of(error)
            if second is not None and alert and self.accepting:
                self._tell(arrival, second, alert)
                second = None
        except asyncio.CancelledError:
            if not arrival.yielded:
                raise
            self._fail(arrival, f"its TLS handshake took longer than {PATIENCE_S:.0f} s while others waited")
        finally:
            if second is not None:
                second.close()

    def _tell(self, arrival: _Arrival, sock: Socket, alert: bytes) -> None:
        """Sends the client the reason, and closes the connection after connection.failed.authentication.delay.ms: as in Kafka, so
        that it has time to read that, and whoever tries certificates is slow."""
        with contextlib.suppress(OSError):  # it has gone
            sock.send(alert)
        arrival.last = sock
        arrival.timer = self.context.clock.call_later(self.settings.failure_delay_ms / 1000, lambda: self._drop(arrival))

    def _end_handshake(self, arrival: _Arrival, _: object) -> None:
        """Gives the place of a handshake to the next. This comes also after one that was cancelled before it had begun."""
        self.turns.end(arrival)
        if arrival in self._arrivals:  # it has failed
            for connection in [each for each, of in self._making.items() if of is arrival]:
                del self._making[connection]
            if arrival.last is None:
                self._drop(arrival)
        if self.accepting:
            self._begin_handshakes()

    def _fail(self, arrival: _Arrival, reason: str) -> None:
        self.failed_handshakes += 1
        self._log.write(f"closed the connection of {arrival.peer} to listener {self.name}: {reason}")

    def _drop(self, arrival: _Arrival) -> None:
        """Forgets a client that is not served."""
        if arrival.timer is not None:
            arrival.timer.cancel()
        self._leave(arrival)
        self.context.counts.remove(arrival.host)
        if arrival.last is not None:
            with contextlib.suppress(OSError):
                arrival.last.recv(_UNREAD_BYTES)  # what is unread would have the system withdraw what was sent
            arrival.last.close()
        arrival.sock.close()

    def _leave(self, arrival: _Arrival) -> None:
        """Takes a client off those that have arrived and are not served."""
        self._arrivals.remove(arrival)
        self._of_source[arrival.source] -= 1
        if not self._of_source[arrival.source]:
            del self._of_source[arrival.source]

    # Called by connections

    def admit(self, connection: Connection) -> str | None:
        """Lets in a connection whose handshake has succeeded and returns None, or returns why not."""
        arrival = self._making.pop(connection)
        self._leave(arrival)
        self.handshakes += 1
        self.accepted += 1
        self.connections[connection] = 0  # it has been counted since it was accepted
        if self.logins is not None:
            self.logins.begin(connection, connection.session)
            return None
        certificate: bytes | None = connection.transport.get_extra_info("ssl_object").getpeercert(True)
        if certificate is None:
            return None
        try:
            name = distinguished_name(subject_of(certificate))
        except NotDer as error:
            return f"the name in its certificate cannot be read: {error}"
        user = self.tls.rules.user_of(name)
        if user is None:
            return f"no rule of ssl.principal.mapping.rules matches the name in its certificate, {name}"
        connection.session.principal = f"User:{user}"
        return None


def describe(error: OSError) -> str:
    """Returns one line about a handshake that failed, with OpenSSL's reason where there is one."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate was refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()
        return f"the TLS handshake failed: {reason}"
    if isinstance(error, ConnectionAbortedError | TimeoutError):
        return f"no TLS handshake within {HANDSHAKE_S:.0f} s"
    return f"the connection ended during the TLS handshake: {error.strerror or error}"
