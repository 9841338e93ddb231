"""The broker's end of the socket over which its console asks.

Lines of JSON in both directions; what is asked and answered is in server/inspect/questions.py, which is loaded with the first
question. Between the answers go news, `{"news": "kit_over", "number": 7}`: what was begun by a question is over. The other end is
a process of ours, yet what it sends is bounded: who looks at pages must not cost a broker its memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from ottla.server.inspect.subject import Subject

MAX_QUESTION_BYTES: Final = 64 << 10
MAX_UNREAD_BYTES: Final = 8 << 20
"""So many bytes of answers may wait for the console to read them: two of the longest."""

_log: Final = logging.getLogger("ottla.server.console")


class Channel(asyncio.Protocol):
    """Answers the questions of one console process."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._transport: asyncio.Transport | None = None
        self._begun = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._subject.hearers.add(self.tell)

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        assert transport is not None
        from ottla.server.inspect.questions import answer_line  # loaded with the first question

        *lines, self._begun = (self._begun + data).split(b"\n")
        try:
            for line in lines:
                if transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
                    break
                transport.write(answer_line(self._subject, line))
        except ValueError as error:
            _log.warning("the console sent a line that is not a question, so its connection is closed: %s", error)
            transport.abort()
            return
        if len(self._begun) > MAX_QUESTION_BYTES or transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            _log.warning("the console sent too long a line or does not read its answers, so its connection is closed")
            transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._subject.hearers.discard(self.tell)

    def tell(self, news: str, number: int) -> None:
        """Writes news; a console that does not read its answers misses them."""
        if self._transport is not None and self._transport.get_write_buffer_size() <= MAX_UNREAD_BYTES:
            self._transport.write(json.dumps({"news": news, "number": number}).encode() + b"\n")

    def close(self) -> None:
        """Closes this end, by which the process knows that it is to end."""
        if self._transport is not None:
            self._transport.abort()
