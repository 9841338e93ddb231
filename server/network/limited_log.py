"""Lines about clients that a listener did not let in, or whose connections it closed: at most LINES in LOG_SPAN_S, and then how
many more there were. Strangers cause them as fast as they can connect, and must not fill the disk."""

from __future__ import annotations

import logging
from typing import Final

from ottla.server.base.clock import Clock

logger = logging.getLogger("ottla.server.listener")

LINES: Final = 20
LOG_SPAN_S: Final = 10.0


class LimitedLog:
    """Writes the lines of one kind of the listener of this name; `what` is what happened to the clients that are only counted."""

    __slots__ = ("_clock", "_count", "_listener", "_what")

    def __init__(self, listener: str, clock: Clock, what: str) -> None:
        self._listener = listener
        self._what = what
        self._clock = clock
        self._count = 0

    def write(self, line: str, level: int = logging.WARNING) -> None:
        """Writes a line, or counts it."""
        if not self._count:
            self._clock.call_later(LOG_SPAN_S, self._end_span)
        self._count += 1
        if self._count <= LINES:
            logger.log(level, "%s", line)

    def _end_span(self) -> None:
        if self._count > LINES:
            more = self._count - LINES
            logger.warning("%d more clients of listener %s %s", more, self._listener, self._what)
        self._count = 0
