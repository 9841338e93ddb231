"""A file of users and how their passwords are checked, for a server of ours that asks for a name and a password itself.

A line is a user, `NAME:SCRAM-SHA-512$ITERATIONS:SALT$STOREDKEY:SERVERKEY`: after the name comes what RFC 5803 writes down of a
SCRAM credential, salt and keys in base64. So no password is in the file, and none can be found but by trying each one's PBKDF2.
Empty lines and those that begin with `#` mean nothing.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import stat
from pathlib import Path
from typing import Final, NamedTuple

from ottla.wire.scram import DIGESTS, make_keys, salt_password

MECHANISM: Final = "SCRAM-SHA-512"
ITERATIONS: Final = 210_000
"""Of a new password: what OWASP asks for with this hash, some 100 ms of a core."""
MIN_ITERATIONS: Final = 4_096
MOST_ITERATIONS: Final = 2_000_000
"""More would keep a core busy for seconds whenever somebody tries a password."""
MIN_PASSWORD: Final = 12
MOST_PASSWORD: Final = 1_024
MOST_NAME: Final = 64
MOST_USERS: Final = 1_000
_REMEDY: Final = "have `ottla console --new-user NAME` print the line"
_LINE: Final = re.compile(r"([^:]*):(SCRAM-SHA-(?:256|512))\$(\d{1,9}):([^$:]+)\$([^$:]+):([^$:]+)")


class BadPasswordFile(ValueError):
    """The file is not of this form; the text says which line, and what to do."""


class Credential(NamedTuple):
    """The data that is kept of a password."""

    mechanism: str
    iterations: int
    salt: bytes
    stored: bytes
    server: bytes

    def fits(self, password: str) -> bool:
        """Returns whether this is the password. It takes as long for a wrong one."""
        digest = DIGESTS[self.mechanism]
        keys = make_keys(digest, salt_password(digest, password[:MOST_PASSWORD], self.salt, self.iterations))
        return len(password) <= MOST_PASSWORD and hmac.compare_digest(keys.stored, self.stored)

    def line(self, name: str) -> str:
        """Returns the line of a user with this password."""
        salt, stored, server = (base64.b64encode(each).decode() for each in (self.salt, self.stored, self.server))
        return f"{name}:{self.mechanism}${self.iterations}:{salt}${stored}:{server}"


def credential_of(password: str, salt: bytes, iterations: int = ITERATIONS) -> Credential:
    """Returns what is kept of a new password. `salt` is random."""
    digest = DIGESTS[MECHANISM]
    return Credential(MECHANISM, iterations, salt, *make_keys(digest, salt_password(digest, password, salt, iterations)))


def name_problem(name: str) -> str | None:
    """Returns why a user cannot have this name, None if one can."""
    if not name or len(name) > MOST_NAME or ":" in name or name.startswith("#") or not name.isprintable() or name != name.strip():
        return f"a name has 1 to {MOST_NAME} characters, no colon, no # at its beginning, and no space at either end"
    return None


def parse(text: str) -> dict[str, Credential]:
    """Returns the users of a file by name. Raises BadPasswordFile."""
    users: dict[str, Credential] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise BadPasswordFile(f"line {number} is no user; {_REMEDY}")
        name, mechanism, iterations, *keys = found.groups()
        if problem := name_problem(name):
            raise BadPasswordFile(f"line {number}: {problem}")
        if name in users:
            raise BadPasswordFile(f"line {number}: {name} is there twice; leave one of them")
        if not MIN_ITERATIONS <= int(iterations) <= MOST_ITERATIONS:
            raise BadPasswordFile(f"line {number}: {iterations} iterations; use {MIN_ITERATIONS} to {MOST_ITERATIONS}")
        users[name] = _credential(number, mechanism, int(iterations), keys)
        if len(users) > MOST_USERS:
            raise BadPasswordFile(f"there are more than {MOST_USERS} users in it; that is the most")
    if not users:
        raise BadPasswordFile(f"there is no user in it; {_REMEDY}")
    return users


def read_users(path: str | Path) -> dict[str, Credential]:
    """Returns the users of a file. Raises BadPasswordFile, whose text names it, also if others than its owner may write to it."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(1 << 20).decode()
    except OSError as error:
        raise BadPasswordFile(f"{path}: {error.strerror or error}; name a file that can be read") from None
    except UnicodeDecodeError:
        raise BadPasswordFile(f"{path} is not text in UTF-8") from None
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BadPasswordFile(f"{path}: other users of this machine may write to it, and would let themselves in; chmod go-w it")
    try:
        return parse(text)
    except BadPasswordFile as error:
        raise BadPasswordFile(f"{path}: {error}") from None


def _credential(line: int, mechanism: str, iterations: int, keys: list[str]) -> Credential:
    try:
        salt, stored, server = (base64.b64decode(each, validate=True) for each in keys)
    except ValueError:  # binascii.Error is one
        raise BadPasswordFile(
            f"line {line}: salt and keys are not base64; have `ottla console --new-user NAME` print it"
        ) from None
    size = 32 if mechanism.endswith("256") else 64
    if len(salt) < 8 or len(stored) != size or len(server) != size:
        raise BadPasswordFile(f"line {line}: salt and keys are cut off; {_REMEDY}")
    return Credential(mechanism, iterations, salt, stored, server)
