"""Lines about clients that a listener did not let in: at most LINES in LOG_SPAN_S, and then how many more there were. Strangers
cause them as fast as they can connect, and must not fill the disk."""

from __future__ import annotations

import logging
from typing import Final

from ottla.server.base.clock import Clock

logger = logging.getLogger("ottla.server.listener")

LINES: Final = 20
LOG_SPAN_S: Final = 10.0


class LimitedLog:
    """Writes the lines of the listener of this name."""

    __slots__ = ("_clock", "_count", "_listener")

    def __init__(self, listener: str, clock: Clock) -> None:
        self._listener = listener
        self._clock = clock
        self._count = 0

    def write(self, line: str) -> None:
        """Writes a line, or counts it."""
        if not self._count:
            self._clock.call_later(LOG_SPAN_S, self._end_span)
        self._count += 1
        if self._count <= LINES:
            logger.warning("%s", line)

    def _end_span(self) -> None:
        if self._count > LINES:
            more = self._count - LINES
            logger.warning("%d more clients of listener %s were refused, or failed their handshakes", more, self._listener)
        self._count = 0
