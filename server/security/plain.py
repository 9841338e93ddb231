"""The SASL mechanism PLAIN (RFC 4616): a client sends its name and its password, and that is all.

The users are options of the login module, `user_<name>="<password>"`. A user that does not exist takes as long to refuse as a
wrong password, and gets the same answer.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from ottla.log.config_def import Secret
from ottla.security.jaas import Module
from ottla.server.security.mechanism import Done, Failed, Outcome

NAME: Final = "PLAIN"
_USER: Final = "user_"
_NOBODY: Final = Secret("\0")  # no password can be this, since a token's parts have no NUL
_WRONG: Final = "The user name or the password is wrong."


def users_of(module: Module) -> dict[str, Secret]:
    """Returns the passwords of the users that a login module names."""
    return {name[len(_USER) :]: password for name, password in module.options.items() if name.startswith(_USER)}


class Plain:
    """Logs in the users with these passwords, by name."""

    name = NAME
    longest_blocking = 0
    refused = False

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._users = users

    def begin(self) -> Plain:
        """Returns this, since a login is one token and keeps nothing."""
        return self

    def step(self, token: bytes) -> Outcome:
        """Takes `authorization id NUL name NUL password`, of which the first is empty or equal to the name."""
        parts = token.split(b"\0")
        if len(parts) != 3:
            return Failed(f"PLAIN wants three parts in its token, which has {len(parts)}.")
        try:
            wanted, name, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            return Failed(None, "its token is not UTF-8")
        if not name:
            return Failed("The user name is missing.")
        if not password:
            return Failed("The password is missing.")
        right = hmac.compare_digest(self._users.get(name, _NOBODY).reveal().encode(), password.encode())
        if not right:
            return Failed(_WRONG, f"unknown user {name!r}, or wrong password")
        if wanted not in ("", name):
            return Failed("A user cannot log in as another one.", f"{name!r} wants to be {wanted!r}")
        return Done(f"User:{name}")
