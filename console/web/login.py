"""The ways to a session: by the token, by an address that opens once, or by a name and a password.

Where other machines reach the console, the token counts on this one only, since whoever has it is nobody in particular. Passwords
are checked one after the other in a thread, and wrong ones are counted (attempts.py).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.console.web.attempts import Attempts
from ottla.console.web.sessions import Sessions
from ottla.console.web.users import Users
from ottla.security.addresses import is_loopback, source_of

WAITING: Final = 8
"""So many passwords wait to be checked, at some 100 ms each."""


class LetIn(NamedTuple):
    """Somebody has a session. `user` is empty for who came by the token."""

    session: str
    user: str = ""


class NotLetIn(Exception):
    """Raised for who is not let in: the status and the text of the answer, and what the log says; nothing if that is empty."""

    def __init__(self, status: int, advice: str, log: str) -> None:
        super().__init__(advice)
        self.status, self.advice, self.log = status, advice, log


class Login:
    """Lets in. `users` is None where there are none, and `attempts` counts what is wrong; `from_here_only` says that the token
    counts on this machine only."""

    def __init__(self, sessions: Sessions, users: Users | None, attempts: Attempts, *, from_here_only: bool) -> None:
        self._sessions = sessions
        self._users = users
        self._attempts = attempts
        self.from_here_only = from_here_only
        self._checking = asyncio.Lock()
        self._waiting = 0

    async def let_in(self, fields: Mapping[str, str], address: str) -> LetIn:
        """Returns a session for the fields of a form or of an address. Raises NotLetIn."""
        if self._users is not None and "name" in fields:
            return await self._by_password(self._users, fields["name"], fields.get("password", ""), address)
        session = None
        if not self.from_here_only or is_here(address):
            session = self._sessions.open(fields.get("token", ""))
        if session is None:
            raise NotLetIn(401, "That is not the token.", self._attempts.note_wrong_token())
        return LetIn(session)

    async def _by_password(self, users: Users, name: str, password: str, address: str) -> LetIn:
        source, known = source_of(address), name if name in users else None
        if self._waiting >= WAITING:
            raise NotLetIn(503, "Many passwords are being checked; try again in a moment.", "")
        wait_s = self._attempts.begin(source, known)
        if wait_s:
            minutes = math.ceil(wait_s / 60)
            raise NotLetIn(429, f"There were too many wrong passwords. Try again in {minutes} min.", "")
        self._waiting += 1
        try:
            async with self._checking:
                mark = users.mark(name)  # of the password that is checked
                fits = await asyncio.to_thread(users.fits, name, password)
        finally:
            self._waiting -= 1
        if not fits or mark is None or known is None:
            # What is no user's name may be somebody's password, typed into the wrong field.
            raise NotLetIn(401, "Name or password is wrong.", f"wrong password of {known!a}" if known else "no such user")
        self._attempts.succeeded(source, known)
        return LetIn(self._sessions.open_for(name, mark), name)


def is_here(address: str) -> bool:
    """Returns whether a connection from this address is from this machine."""
    return is_loopback(address.removeprefix("::ffff:"))
