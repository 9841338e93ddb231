"""Fetches a document by HTTP for a thread that waits: one GET, bounded in time and in bytes.

Nothing is followed or guessed: no redirect, which would lead to an address that nobody allowed, no proxy and no cookie.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import h11

from ottla.server.base.clock import Clock
from ottla.server.base.network import BlockingSocket
from ottla.server.security.jwks import FetchFailed

MAX_SECONDS: Final = 10.0
"""The time that all of a fetch may take once the connection is open; opening it may take as long, for each address of the
host."""
MAX_BYTES: Final = 1024 * 1024
_PIECE: Final = 16 * 1024
_PORTS: Final = {"http": 80, "https": 443}

Dial = Callable[[str, int, float], BlockingSocket]


class Fetcher:
    """Fetches what is at `url`, whose scheme is http or https; `trust` says for https which certificates count. Raises ValueError
    if the URL names no host."""

    def __init__(self, url: str, trust: ssl.SSLContext | None, dial: Dial, clock: Clock) -> None:
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError("it names no host")
        self._host = parts.hostname
        self._port = parts.port or _PORTS[parts.scheme]
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self._name = shown if parts.port is None else f"{shown}:{parts.port}"
        self._trust = trust
        self._dial = dial
        self._clock = clock
        self._socket: BlockingSocket | None = None
        self._aborted = False

    def abort(self) -> None:
        """Has a fetch fail that is under way in another thread, once it has a connection, and every later one."""
        self._aborted = True
        held = self._socket
        if held is None:
            return
        with suppress(OSError):
            if isinstance(held, ssl.SSLSocket):  # its own shutdown would take TLS away from under the thread
                socket.socket.shutdown(held, socket.SHUT_RDWR)
            else:
                held.shutdown(socket.SHUT_RDWR)

    def fetch(self) -> bytes:
        """Returns the document. Raises FetchFailed."""
        try:
            connection: Any = self._dial(self._host, self._port, MAX_SECONDS)
            until = self._clock.monotonic() + MAX_SECONDS
            try:
                self._hold(connection)
                if self._trust is not None:
                    connection.settimeout(self._left(until))
                    connection = self._trust.wrap_socket(connection, server_hostname=self._host, do_handshake_on_connect=False)
                    self._hold(connection)
                    connection.do_handshake()
                return self._get(connection, until)
            finally:
                self._socket = None
                connection.close()
        except TimeoutError:
            raise FetchFailed(f"it took longer than {MAX_SECONDS:.0f} s") from None
        except ssl.SSLCertVerificationError as error:
            raise FetchFailed(f"its certificate is not trusted: {error.verify_message}") from None
        except (OSError, UnicodeError) as error:
            raise FetchFailed(str(getattr(error, "strerror", None) or error)) from None
        except h11.ProtocolError as error:
            raise FetchFailed(f"its answer is not HTTP: {error}") from None

    def _hold(self, connection: BlockingSocket) -> None:
        """Has `abort` reach a connection. Raises FetchFailed if it was called before."""
        self._socket = connection
        if self._aborted:
            raise FetchFailed("the broker stops")

    def _left(self, until: float) -> float:
        """Returns how many seconds are left. Raises TimeoutError."""
        left = until - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _get(self, connection: BlockingSocket, until: float) -> bytes:
        http = h11.Connection(h11.CLIENT)
        headers = [("Host", self._name), ("Accept", "application/json"), ("Connection", "close")]
        connection.settimeout(self._left(until))
        connection.sendall(http.send(h11.Request(method="GET", target=self._target, headers=headers)) or b"")
        connection.sendall(http.send(h11.EndOfMessage()) or b"")
        body = bytearray()
        while True:
            event: Any = http.next_event()
            if event is h11.NEED_DATA:
                connection.settimeout(self._left(until))
                http.receive_data(connection.recv(_PIECE))
            elif isinstance(event, h11.Response):
                if event.status_code != 200:
                    raise FetchFailed(f"it was answered with status {event.status_code}")
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MAX_BYTES:
                    raise FetchFailed(f"it is longer than {MAX_BYTES} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return bytes(body)
            elif isinstance(event, h11.ConnectionClosed):
                raise FetchFailed("the connection was closed without an answer")
