"""Sessions of those who are let in: whoever knows the token that the console printed when it started gets a session, by a cookie,
and so does a user whose password was right (login.py). A user's session ends when the user is taken out, or has another password.

Without a token and without users, everybody is let in, all in one session that needs no cookie and does not end.

A session ends after twelve hours without a request, and the oldest one when there are too many. With it goes a form token, which
a page of another site cannot know: it is derived from the session by a key that lives as long as the process, or as the broker
that gives the same `key` to each console that it starts. With that key, a session says by itself who opened it and when, so that
it goes on when the process is another one; its twelve hours then count from when it was opened. One that was ended does not go
on: the broker is told of it, and tells the next process (`Ended`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ottla.console.web.users import Users

EVERYBODY: Final = ""
"""The session of all, where no token is needed."""
MAX_SESSIONS: Final = 64
IDLE_S: Final = 12 * 3600.0
ONCE_S: Final = 60.0
"""So long a token counts that opens one session."""


class Holder(NamedTuple):
    """Whose a session is: a user's, with a mark of the password, or of whoever had the token."""

    user: str = ""
    mark: str = ""


BY_TOKEN: Final = Holder()


class Ended(NamedTuple):
    """Sessions of earlier processes that have ended, by `mark_of`: those, and all that were opened up to `none_before`. `tell`
    has the broker know of another one and when it was opened; it raises Failure, and may take seconds."""

    sessions: frozenset[str] = frozenset()
    none_before: float = 0.0
    tell: Callable[[str, float], object] = lambda _, __: None


NONE_ENDED: Final = Ended()


class Sessions:
    """Without `token` and `users` everybody is let in. `random` returns so many bytes that nobody can guess; `clock` counts
    seconds."""

    def __init__(
        self,
        token: str | None,
        random: Callable[[int], bytes],
        clock: Callable[[], float],
        key: bytes | None = None,
        users: Users | None = None,
        ended: Ended = NONE_ENDED,
    ) -> None:
        self._token = None if token is None else token.encode()
        self._users = users
        self._once: tuple[bytes, float] | None = None
        self._random = random
        self._clock = clock
        self._is_one_of_several = key is not None
        self._key = key or random(32)
        self._ended = set(ended.sessions)
        self._none_before, self._tell = ended.none_before, ended.tell
        self._began = clock()
        self._last_seen: dict[str, float] = {}
        self._holders: dict[str, Holder] = {}

    @property
    def is_for_all(self) -> bool:
        """Returns whether everybody is let in."""
        return not (self.has_token or self.has_users)

    @property
    def has_token(self) -> bool:
        return self._token is not None

    @property
    def has_users(self) -> bool:
        return self._users is not None

    def open(self, token: str) -> str | None:
        """Returns a new session if the token is right, else None."""
        given, once = token.encode("utf-8", "surrogatepass"), self._once
        if once is not None and hmac.compare_digest(once[0], given):
            self._once = None
            return self._open(BY_TOKEN) if self._clock() - once[1] <= ONCE_S else None
        if self._token is None or not hmac.compare_digest(self._token, given):
            return None
        return self._open(BY_TOKEN)

    def open_once(self) -> str:
        """Returns a token that opens one session, soon: it may stand on a command line, which other users of a machine see."""
        token = self._random(24).hex()
        self._once = token.encode(), self._clock()
        return token

    def open_for(self, user: str, mark: str) -> str:
        """Returns a new session for a user whose password was right; `mark` is the password's (users.py)."""
        return self._open(Holder(user, mark))

    def _open(self, holder: Holder) -> str:
        session = self._random(32).hex()
        if self._is_one_of_several:
            whose = f"-{holder.user.encode().hex()}-{holder.mark}" if holder.user else ""
            session = self._sign(f"{session}{whose}-{self._clock():.3f}")
        self._last_seen[session], self._holders[session] = self._clock(), holder
        if len(self._last_seen) > MAX_SESSIONS:
            self.close(min(self._last_seen, key=lambda each: self._last_seen[each]))
        return session

    def close(self, session: str) -> None:
        """Ends a session, if there is one, in this process."""
        self._last_seen.pop(session, None)
        self._holders.pop(session, None)

    def end(self, session: str) -> None:
        """Ends an open session for good; `tell_end` has yet to be called for those after this process."""
        self.close(session)
        if self._is_one_of_several and session:
            self._ended.add(mark_of(session))

    def tell_end(self, session: str) -> None:
        """Has the broker know that this session has ended, for the processes after this one. Raises Failure. For a thread."""
        if self._is_one_of_several and session:
            self._tell(mark_of(session), _opened_at(session))

    def user_of(self, session: str) -> str:
        """Returns whose this open session is, empty for who came by the token."""
        return self._holders.get(session, BY_TOKEN).user

    def is_open(self, session: str) -> bool:
        """Returns whether there is such a session, which counts as used then."""
        seen, now = self._last_seen.get(session), self._clock()
        if seen is None:
            seen = self._seen_by_an_earlier_one(session)
            if seen is None:
                return False
            self._holders[session] = _holder_in(session)
        if now - seen > IDLE_S or not self._counts(self._holders.get(session, BY_TOKEN)):
            self.close(session)
            return False
        self._last_seen[session] = now
        return True

    def is_still_open(self, session: str) -> bool:
        """Returns whether this session, which was open, is so yet; it does not count as used."""
        seen = self._last_seen.get(session)
        if seen is None:
            return self.is_for_all
        return self._clock() - seen <= IDLE_S and self._counts(self._holders.get(session, BY_TOKEN))

    def _counts(self, holder: Holder) -> bool:
        if not holder.user:
            return True
        return self._users is not None and self._users.mark(holder.user) == holder.mark

    def _sign(self, text: str) -> str:
        return f"{text}-{hmac.new(self._key, b'session ' + text.encode('utf-8', 'surrogatepass'), hashlib.sha256).hexdigest()}"

    def _seen_by_an_earlier_one(self, session: str) -> float | None:
        """Returns when an earlier process opened this session, None if none has, or this one has forgotten it."""
        text = session.rpartition("-")[0]
        if not self._is_one_of_several or not hmac.compare_digest(
            self._sign(text).encode(), session.encode("utf-8", "surrogatepass")
        ):
            return None
        opened = _opened_at(session)
        if opened <= self._none_before or mark_of(session) in self._ended:
            return None
        return opened if opened < self._began else None

    def form_token(self, session: str) -> str:
        """Returns what a form of this session has to carry."""
        return hmac.new(self._key, session.encode(), hashlib.sha256).hexdigest()

    def fits(self, session: str, form_token: str) -> bool:
        return hmac.compare_digest(self.form_token(session).encode(), form_token.encode("utf-8", "surrogatepass"))


def _holder_in(session: str) -> Holder:
    """Returns whose a session is that an earlier process has signed: what stands between its number and its time."""
    _, *whose, _, _ = session.split("-")
    return Holder(bytes.fromhex(whose[0]).decode(), whose[1]) if whose else BY_TOKEN


def _opened_at(session: str) -> float:
    """Returns when a process of a broker has opened this session, which it has signed."""
    return float(session.split("-")[-2])


def mark_of(session: str) -> str:
    """Returns what stands for a session where it has ended: of no use to whoever wants in, and of no other one."""
    return hashlib.sha256(b"ended " + session.encode()).hexdigest()[:32]


def name_of(session: str) -> str:
    """Returns what the log calls a session: enough to tell one from another, of no use to whoever wants in; - for none."""
    return hashlib.sha256(session.encode()).hexdigest()[:8] if session else "-"
