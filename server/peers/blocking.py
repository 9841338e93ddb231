"""One connection to another node for a thread of its own: a request goes out, and the thread waits for its answer.

The event loop has connection.py. This is for what must not depend on the loop, the heartbeat: its thread works while the loop is
busy. The versions that the other node has are asked for in version 0 of ApiVersions, which every node answers.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.server.peers.call import Call, next_correlation_id
from ottla.server.peers.handshake import SOFTWARE, Versions, common_version, read_versions
from ottla.server.peers.outcomes import Disconnected, PeerError, TimedOut
from ottla.wire.frame import MALFORMED
from ottla.wire.messages import api_versions
from ottla.wire.primitives import WireStruct

if TYPE_CHECKING:
    from ottla.server.base.network import BlockingSocket
    from ottla.server.security.client import SaslLogin

_SIZE_BYTES: Final = 4
MAX_ANSWER_BYTES: Final = 1 << 20
"""The largest answer that is taken. That to ApiVersions has a kilobyte, the others a few bytes."""


class BlockingConnection:
    """A connection over `sock`, which is connected. `name` is the other node's, for messages, and `login` how to log in there,
    None if one need not. Only `close` may be called by another thread.
    """

    def __init__(
        self,
        sock: BlockingSocket,
        name: str,
        client_id: str,
        monotonic: Callable[[], float],
        login: SaslLogin | None = None,
    ) -> None:
        self.name = name
        self._sock = sock
        self._client_id = client_id
        self._monotonic = monotonic
        self._correlation_id = -1
        self._versions: Versions | None = None
        self._login = login
        self._renew_at: float | None = None

    def ask(self, request: WireStruct, timeout_s: float, *, min_version: int = 0) -> Any:
        """Returns the answer. Raises PeerError; then the connection is of no more use."""
        deadline = self._monotonic() + timeout_s
        if self._versions is None:
            call = Call(api_versions.ApiVersionsRequest(*SOFTWARE))
            self._versions = read_versions(self._exchange(call, 0, deadline), self.name)
            self._log_in(self._versions, deadline)
        elif self._renew_at is not None and self._monotonic() >= self._renew_at:
            self._log_in(self._versions, deadline)
        call = Call(request, min_version)
        return self._exchange(call, common_version(call, self._versions, self.name), deadline)

    def _log_in(self, versions: Versions, deadline: float) -> None:
        if self._login is None:
            return
        from ottla.server.peers.login import login_calls

        calls = login_calls(self._login, self.name)
        call = next(calls)
        while True:
            answer = self._exchange(call, common_version(call, versions, self.name), deadline)
            try:
                call = calls.send(answer)
            except StopIteration as end:
                self._renew_at = self._monotonic() + end.value if end.value else None
                return

    def close(self) -> None:
        """Closes the connection. A thread that waits for an answer gets Disconnected."""
        with contextlib.suppress(OSError):  # the other side may have closed it
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _exchange(self, call: Call, version: int, deadline: float) -> Any:
        self._correlation_id = next_correlation_id(self._correlation_id)
        try:
            self._limit(deadline, call)
            self._sock.sendall(call.encode(version, self._correlation_id, self._client_id))
            size = int.from_bytes(self._receive(_SIZE_BYTES, deadline, call), "big", signed=True)
            if not 0 <= size <= MAX_ANSWER_BYTES:
                raise Disconnected(f"{self.name} announces an answer of {size} bytes")
            frame = self._receive(size, deadline, call)
        except TimeoutError as error:
            raise self._late(call) from error
        except OSError as error:
            raise Disconnected(f"the connection to {self.name} broke: {error}") from error
        try:
            return call.decode_answer(frame)
        except MALFORMED as error:
            raise Disconnected(f"{self.name} sent something that is no answer to {call.name}: {error}") from error

    def _receive(self, size: int, deadline: float, call: Call) -> bytes:
        received = bytearray()
        while len(received) < size:
            self._limit(deadline, call)
            piece = self._sock.recv(size - len(received))
            if not piece:
                raise Disconnected(f"{self.name} closed the connection")
            received += piece
        return bytes(received)

    def _limit(self, deadline: float, call: Call) -> None:
        """Lets the next step take no longer than until the deadline."""
        left = deadline - self._monotonic()
        if left <= 0:
            raise self._late(call)
        self._sock.settimeout(left)

    def _late(self, call: Call) -> PeerError:
        return TimedOut(f"{self.name} did not answer {call.name} in time")
