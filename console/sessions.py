"""Who is let in: whoever knows the token that the console printed when it started gets a session, by a cookie.

Without a token, everybody is let in, all in one session that needs no cookie and does not end.

A session ends after twelve hours without a request, and the oldest one when there are too many. With it goes a form token, which
a page of another site cannot know: it is derived from the session by a key that lives as long as the process, or as the broker
that gives the same `key` to each console that it starts. With that key, a session says by itself who opened it and when, so that
it goes on when the process is another one; its twelve hours then count from when it was opened.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final

EVERYBODY: Final = ""
"""The session of all, where no token is needed."""
MAX_SESSIONS: Final = 64
IDLE_S: Final = 12 * 3600.0


class Sessions:
    """`token` is None if everybody is let in. `random` returns so many bytes that nobody can guess; `clock` counts seconds."""

    def __init__(
        self, token: str | None, random: Callable[[int], bytes], clock: Callable[[], float], key: bytes | None = None
    ) -> None:
        self._token = None if token is None else token.encode()
        self._random = random
        self._clock = clock
        self._is_one_of_several = key is not None
        self._key = key or random(32)
        self._began = clock()
        self._last_seen: dict[str, float] = {}

    @property
    def needs_token(self) -> bool:
        return self._token is not None

    def open(self, token: str) -> str | None:
        """Returns a new session if the token is right, else None."""
        if self._token is None or not hmac.compare_digest(self._token, token.encode("utf-8", "surrogatepass")):
            return None
        session = self._random(32).hex()
        if self._is_one_of_several:
            session = self._sign(f"{session}-{self._clock():.3f}")
        self._last_seen[session] = self._clock()
        if len(self._last_seen) > MAX_SESSIONS:
            del self._last_seen[min(self._last_seen, key=lambda each: self._last_seen[each])]
        return session

    def is_open(self, session: str) -> bool:
        """Returns whether there is such a session, which counts as used then."""
        seen, now = self._last_seen.get(session), self._clock()
        if seen is None:
            seen = self._seen_by_an_earlier_one(session)
            if seen is None:
                return False
        if now - seen > IDLE_S:
            self._last_seen.pop(session, None)
            return False
        self._last_seen[session] = now
        return True

    def _sign(self, text: str) -> str:
        return f"{text}-{hmac.new(self._key, b'session ' + text.encode('utf-8', 'surrogatepass'), hashlib.sha256).hexdigest()}"

    def _seen_by_an_earlier_one(self, session: str) -> float | None:
        """Returns when an earlier process opened this session, None if none has, or this one has forgotten it."""
        text = session.rpartition("-")[0]
        if not self._is_one_of_several or not hmac.compare_digest(
            self._sign(text).encode(), session.encode("utf-8", "surrogatepass")
        ):
            return None
        opened = float(text.rpartition("-")[2])
        return opened if opened < self._began else None

    def form_token(self, session: str) -> str:
        """Returns what a form of this session has to carry."""
        return hmac.new(self._key, session.encode(), hashlib.sha256).hexdigest()

    def fits(self, session: str, form_token: str) -> bool:
        return hmac.compare_digest(self.form_token(session).encode(), form_token.encode("utf-8", "surrogatepass"))


def name_of(session: str) -> str:
    """Returns what the log calls a session: enough to tell one from another, of no use to who wants in; - for none."""
    return hashlib.sha256(session.encode()).hexdigest()[:8] if session else "-"
