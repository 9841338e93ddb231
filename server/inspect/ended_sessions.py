"""The console's sessions that somebody has ended: what one console's process tells the next one, by its broker.

A session of a broker's console says by itself who opened it and when, and goes on in the next process
(console/web/sessions.py). One that was logged out must not, so its process has the broker note it. The broker knows no session,
only what the console calls it.
"""

from __future__ import annotations

from typing import Any, Final

MOST_KEPT: Final = 256


class EndedSessions:
    """Notes ends. With more than MOST_KEPT of them it forgets those that were opened first, and has no session go on that is as
    old: who was logged out stays so, and others log in again."""

    def __init__(self) -> None:
        self._opened: dict[str, float] = {}
        self._none_before = 0.0

    def note(self, session: str, opened: float) -> None:
        """Notes that a session has ended which was opened then, in seconds of the machine's monotonic clock."""
        self._opened[session] = opened
        while len(self._opened) > MOST_KEPT:
            oldest = min(self._opened, key=lambda each: self._opened[each])
            self._none_before = max(self._none_before, self._opened.pop(oldest))

    def orders(self) -> dict[str, Any]:
        """Returns what the next process is told."""
        return {"ended": list(self._opened), "none_before": self._none_before}
