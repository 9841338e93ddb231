"""Users who may log in with a name and a password: the users of a file (security/password_file.py), as it is now.

The file is looked at with every request, and read again when it is another one: a user who is taken out, or whose password is
another one, has no session any more. While what is there cannot be read, those count who were there before, and the log says so
once.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Final

from ottla.console.web.file_state import state_of
from ottla.security.password_file import MECHANISM, BadPasswordFile, Credential, read_users

_log: Final = logging.getLogger("ottla.console")
_NOBODY: Final = bytes(64)


class Users:
    """The users of the file at `path`. Raises BadPasswordFile if it cannot be used now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = state_of(path)
        self._users = read_users(path)

    def _current(self) -> dict[str, Credential]:
        seen = state_of(self._path)
        if seen != self._seen:
            self._seen = seen
            try:
                self._users = read_users(self._path)
            except BadPasswordFile as error:
                _log.error("users of the console: %s; those who were in it before still count", error)
        return self._users

    def __contains__(self, name: str) -> bool:
        return name in self._current()

    def mark(self, name: str) -> str | None:
        """Returns what a session of this user keeps, and which is another one with another password; None without such a user."""
        found = self._current().get(name)
        return None if found is None else hashlib.sha256(found.line(name).encode()).hexdigest()[:16]

    def fits(self, name: str, password: str) -> bool:
        """Returns whether this is the user's password, after some 100 ms of work: for every name as long as for the user whose
        password takes longest, so that the time does not tell which users there are."""
        users = self._current()
        found, most = users.get(name), max(each.iterations for each in users.values())
        is_right = found is not None and found.fits(password)
        if rest := most - (0 if found is None else found.iterations):
            Credential(MECHANISM, rest, _NOBODY, _NOBODY, _NOBODY).fits(password)
        return is_right
