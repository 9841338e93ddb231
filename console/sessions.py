"""Who is let in: whoever knows the token that the console printed when it started gets a session, by a cookie.

A session ends after twelve hours without a request, and the oldest one when there are too many. With it goes a form token, which
a page of another site cannot know: it is derived from the session by a key that lives as long as the process.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final

MAX_SESSIONS: Final = 64
IDLE_S: Final = 12 * 3600.0


class Sessions:
    """`random` returns so many bytes that nobody can guess; `clock` counts seconds."""

    def __init__(self, token: str, random: Callable[[int], bytes], clock: Callable[[], float]) -> None:
        self._token = token.encode()
        self._random = random
        self._clock = clock
        self._key = random(32)
        self._last_seen: dict[str, float] = {}

    def open(self, token: str) -> str | None:
        """Returns a new session if the token is right, else None."""
        if not hmac.compare_digest(self._token, token.encode("utf-8", "surrogatepass")):
            return None
        session = self._random(32).hex()
        self._last_seen[session] = self._clock()
        if len(self._last_seen) > MAX_SESSIONS:
            del self._last_seen[min(self._last_seen, key=lambda each: self._last_seen[each])]
        return session

    def is_open(self, session: str) -> bool:
        """Returns whether there is such a session, which counts as used then."""
        seen, now = self._last_seen.get(session), self._clock()
        if seen is None:
            return False
        if now - seen > IDLE_S:
            del self._last_seen[session]
            return False
        self._last_seen[session] = now
        return True

    def form_token(self, session: str) -> str:
        """Returns what a form of this session has to carry."""
        return hmac.new(self._key, session.encode(), hashlib.sha256).hexdigest()

    def fits(self, session: str, form_token: str) -> bool:
        return hmac.compare_digest(self.form_token(session).encode(), form_token.encode("utf-8", "surrogatepass"))


def name_of(session: str) -> str:
    """Returns what the log calls a session: enough to tell one from another, of no use to who wants in."""
    return hashlib.sha256(session.encode()).hexdigest()[:8]
