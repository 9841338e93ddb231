"""Says in the log, once in a while, that no controller answers. A node goes on trying for as long as it runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.peers.outcomes import PeerError

FIRST_SECONDS: Final = 5.0
"""The time without an answer after which the log says so: an election takes less."""
REMIND_SECONDS: Final = 30.0
"""The time after which the log says it again."""

logger = logging.getLogger("ottla.server.quorum")


class ControllerOutage:
    """The time since a controller last answered, or since the start."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answered_at = clock.monotonic()
        self._remind_at = self._answered_at + FIRST_SECONDS
        self._is_said = False

    def end(self) -> None:
        """Notes that a controller has answered."""
        self._answered_at = self._clock.monotonic()
        self._remind_at = self._answered_at + FIRST_SECONDS
        if self._is_said:
            self._is_said = False
            logger.info("a controller answers again")

    def go_on(self, error: PeerError) -> None:
        """Notes that another question had no answer, and why."""
        now = self._clock.monotonic()
        if now >= self._remind_at:
            self._remind_at = now + REMIND_SECONDS
            self._is_said = True
            text = (
                "no controller has answered for %d s; it goes on trying (controller.quorum.bootstrap.servers or "
                "controller.quorum.voters names them): %s"
            )
            logger.warning(text, int(now - self._answered_at), error)
