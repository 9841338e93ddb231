"""A client at a listener where it has to log in: the real connection, dispatch and handlers, over a fake transport and clock."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from ottla.log.config_def import Secret
from ottla.server.base.network import OsNetwork
from ottla.server.dispatch.routes import Dispatch
from ottla.server.network.connection import Connection
from ottla.server.network.context import NetworkContext
from ottla.server.network.listener import Listener
from ottla.server.network.receive_buffers import ReceiveBuffers
from ottla.server.network.socket_settings import SocketSettings
from ottla.server.security.failures import Failures
from ottla.server.security.login import Logins, LoginSettings
from ottla.server.security.mechanism import Challenge, Done, Exchange, Failed, Mechanism, Outcome
from ottla.server.security.plain import Plain
from ottla.wire.api import BY_MODULE
from ottla.wire.header import decode_response_header, encode_request_header
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.fakes import FakeTransport, MemoryBroker

ALICE, BOB = b"\0alice\0hunter2", b"\0bob\0hunter3"
DELAY = 0.1
MAX_LOGIN, MAX_REQUEST = 1000, 100_000


class Scripted:
    """A mechanism that says what it is told to, by token."""

    longest_blocking = 0
    refused = False

    def __init__(self, **outcomes: Outcome) -> None:
        self.name = "SCRIPTED"
        self.outcomes = outcomes

    def begin(self) -> Exchange:
        return self

    def step(self, token: bytes) -> Outcome:
        return self.outcomes[token.decode()]


SCRIPTED = Scripted(
    more=Challenge(b"go on"),
    alice=Done("User:alice", b"welcome"),
    bob=Done("User:bob"),
    silent=Failed(None, "only for the log"),
    told=Failed("Only for the client."),
    token=Done("User:owner", by_delegation_token=True),
)


class Client:
    """Sends frames and reads answers; `said` are the lines that tell why its connection was closed."""

    def __init__(self, listener: Listener, host: str) -> None:
        self.connection = Connection(listener)
        self.transport = FakeTransport((host, 4321))
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)
        self.session = self.connection.session
        self._read = 0
        self._sent = 0

    def send(self, *frames: bytes) -> None:
        data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
        while data and not self.transport.closed and self.transport.reading:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            del buffer
            self.connection.buffer_updated(count)
            data = data[count:]

    def frames(self) -> list[bytes]:
        """The frames that have come since the last look."""
        sent, found = self.transport.sent[self._read :], []
        self._read += len(sent)
        while sent:
            end = 4 + int.from_bytes(sent[:4], "big")
            found.append(sent[4:end])
            sent = sent[end:]
        return found

    def request(self, module: str, request: Any, version: int) -> bytes:
        messages = importlib.import_module(f"ottla.wire.messages.{module}")
        self._sent += 1
        parts: list[Any] = [encode_request_header(messages.API_KEY, version, self._sent, "client")]
        messages.ENCODE_REQUEST[version](request, parts)
        return b"".join(parts)

    def ask(self, module: str, request: Any, version: int) -> Any:
        """Returns what comes back at once; None if nothing does."""
        self.send(self.request(module, request, version))
        return self.answer(module, version)

    def answer(self, module: str, version: int) -> Any:
        found = self.frames()
        if not found:
            return None
        (frame,) = found
        messages = importlib.import_module(f"ottla.wire.messages.{module}")
        correlation_id, at = decode_response_header(BY_MODULE[module].key, version, frame, 0)
        assert correlation_id == self._sent
        return messages.DECODE_RESPONSE[version](frame, at)[0]

    def choose(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask("sasl_handshake", SaslHandshakeRequest(mechanism), version)

    def prove(self, token: bytes = ALICE, version: int = 2) -> Any:
        return self.ask("sasl_authenticate", SaslAuthenticateRequest(token), version)

    @property
    def closed(self) -> bool:
        return self.transport.closed

    def leave(self) -> None:
        self.connection.connection_lost(None)


class Door:
    """A listener with SASL."""

    def __init__(
        self,
        max_reauth_ms: int = 0,
        delay_ms: int = round(DELAY * 1000),
        free_failures: int = 0,
        mechanisms: Mapping[str, Mechanism] | None = None,
    ) -> None:
        self.broker = MemoryBroker({"t": 1})
        self.clock = self.broker.clock
        context = self.broker.context
        network = NetworkContext(self.clock, context.purgatory, OsNetwork(), buffers=ReceiveBuffers(5000))
        settings = SocketSettings(max_request_bytes=MAX_REQUEST)
        self.listener = Listener("PLAINTEXT", network, Dispatch(context), settings)
        offered = mechanisms or {
            "PLAIN": Plain({"alice": Secret("hunter2"), "bob": Secret("hunter3")}),
            "SCRIPTED": SCRIPTED,
        }
        self.logins = Logins(
            offered,
            LoginSettings(MAX_LOGIN, MAX_REQUEST, 10_000, dict.fromkeys(offered, max_reauth_ms)),
            self.clock,
            Failures(self.clock, delay_ms, free_failures),
            Dispatch(context).serve,
            self.listener.dispatch.serve,
        )
        self.listener.logins = self.logins

    def connect(self, host: str = "10.0.0.1") -> Client:
        return Client(self.listener, host)
