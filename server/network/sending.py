"""Sends the answers of one connection.

All answers of a turn go out in one write. Answers on other connections that the turn's appends complete follow in the same turn.
A region of a log file is sent by `os.sendfile` straight to the transport's own descriptor, which is right as long as nothing
waits inside the transport. If the socket is full, one piece is read and given to the transport, whose `resume_writing` says when
there is room for more: a slow consumer of 50 MB costs the memory of one piece. Over TLS everything goes that way, for the kernel
cannot encrypt what it sends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.log.disk.files import FileSlice
from ottla.log.errors import StorageError
from ottla.server.network.file_regions import send_some
from ottla.server.network.holding import Holding

if TYPE_CHECKING:
    from ottla.server.network.context import NetworkContext

logger = logging.getLogger("ottla.server.connection")

JOINED_BYTES: Final = 8 * 1024
"""Regions of up to so many bytes together are read and sent with the bytes around them: one call and one packet, not three."""
REGIONS_A_TURN: Final = 256
"""So many regions, or pieces of them, are sent before all other connections come first: about 3 ms."""


class Sending(Holding):
    """The base class of a connection that sends what it has collected."""

    __slots__ = (
        "_clock",
        "_closing",
        "_fd",
        "_out",
        "_out_bytes",
        "_paused",
        "_regions",
        "_resting",
        "_sending",
        "_sends_later",
        "peer",
        "transport",
    )

    transport: asyncio.Transport
    peer: str
    """The client's address, for log lines."""
    _fd: int
    """The transport's descriptor, -1 if answers must not go past the transport."""

    def __init__(self, context: NetworkContext) -> None:
        Holding.__init__(self, context)
        self._clock = context.clock
        self._out_bytes = 0  # bytes of answers in this turn
        self._out: list[Any] = []  # parts of answers that the transport does not have yet, with regions among them if `_regions`
        self._regions = False
        self._sending: deque[bytes | FileSlice] = deque()  # what the transport has no room for now
        self._sends_later = False  # the rest of `_sending` goes out in the loop's next round
        self._paused = False  # the transport is full
        self._resting = False  # the turn is over and the next is scheduled, or the client is muted
        self._closing = False

    def _begin_turn(self, until: int = 0) -> None:
        raise NotImplementedError

    def _send_out(self) -> None:
        """Hands the answers collected so far to the transport, in one write."""
        out, self._out = self._out, []
        self._out_bytes = 0
        if not self._regions and not self._sending:
            self.transport.write(b"".join(out))
            return
        self._regions = False
        waiting: list[Any] = []
        joined = JOINED_BYTES
        for part in out:
            if type(part) is FileSlice:
                if part.length <= joined:
                    try:
                        waiting.append(part.read())
                    except (OSError, StorageError) as error:
                        self._fail_sending(error)
                        return
                    joined -= part.length
                    continue
                self._sending.append(b"".join(waiting))
                self._sending.append(part)
                waiting = []
            else:
                waiting.append(part)
        self._sending.append(b"".join(waiting))
        self._pump()

    def _pump(self) -> None:
        """Sends until everything is sent, the transport is full, or others come first: an answer may have very many regions."""
        sending, transport = self._sending, self.transport
        left = 0 if self._sends_later else REGIONS_A_TURN
        while sending and not self._paused and not self._closing:
            part = sending[0]
            if type(part) is FileSlice:
                if left == 0:
                    self._pump_later()
                    return
                left -= 1
                try:
                    send_some(part, self._fd, transport)
                except (OSError, StorageError) as error:
                    self._fail_sending(error)
                    return
                if part.length == 0:
                    sending.popleft()
            else:
                transport.write(cast(bytes, part))
                sending.popleft()

    def _pump_later(self) -> None:
        """Goes on with sending in one of the loop's next rounds, and serves nothing before that."""
        if not self._sends_later:
            self._sends_later = self._resting = True
            self._clock.turns.queue(self._clock, self._pump_on)

    def _pump_on(self, until: int) -> None:
        self._sends_later = False
        self._pump()
        if not self._sends_later:
            self._begin_turn(until)

    def _fail_sending(self, error: Exception) -> None:
        """Closes at once, because part of an answer has been sent and the rest cannot be."""
        if not isinstance(error, ConnectionError):
            logger.error("closed the connection of %s in the middle of a response: %s", self.peer, error)
        self._closing = True
        self._sending.clear()
        self.transport.abort()
