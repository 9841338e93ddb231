"""Whose limit counts: one quota's entities, resolved for a client by Kafka's eight levels.

The most specific entity wins, and a user is more specific than a client id:

    user + client id   >  user + every client id   >  user   >  every user + client id  >  every user + every client id
                       >  every user               >  client id  >  every client id

Who matches an entity with a client id shares its limit with those of the same user and client id; who matches one with a user
only, with all of that user; and so on: the `Share`. A default is a limit for each name, not one for all of them together.

A client without an id, null or empty, matches the levels of every client id and has no share there: it falls to the level of its
user, if that has one, and is unlimited otherwise. Kafka's way.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.server.metadata.quotas import CLIENT_ID, USER, Entity


class _Part(enum.Enum):
    """What an entity of a level says of the user, or the client id."""

    NAMED = 1
    EVERY = 2
    ABSENT = 3


_NAMED, _EVERY, _ABSENT = _Part.NAMED, _Part.EVERY, _Part.ABSENT
_LEVELS: Final = (
    (_NAMED, _NAMED),
    (_NAMED, _EVERY),
    (_NAMED, _ABSENT),
    (_EVERY, _NAMED),
    (_EVERY, _EVERY),
    (_EVERY, _ABSENT),
    (_ABSENT, _NAMED),
    (_ABSENT, _EVERY),
)
"""(user, client id), the most specific first."""

Share = tuple[str, str]
"""(user, client id) of those who use up a limit together; "" is any."""


class Limited(NamedTuple):
    """A client's limit, in units per second."""

    share: Share
    limit: float


class Limits:
    """The limits of one kind of quota. `values` are those that are set, by entity."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[Entity, float]) -> None:
        self._values = values

    def of(self, user: str, client_id: str | None) -> Limited | None:
        """Returns the limit of a client, or None where it has none."""
        for of_user, of_client in _LEVELS:
            if of_client is _NAMED and not client_id:
                continue
            limit = self._values.get(_entity(of_user, of_client, user, client_id))
            if limit is None:
                continue
            if of_client is _ABSENT or client_id:
                return Limited(("" if of_user is _ABSENT else user, "" if of_client is _ABSENT else client_id or ""), limit)
            return None if of_user is _ABSENT else self._of_user(user)
        return None

    def _of_user(self, user: str) -> Limited | None:
        for of_user in (_NAMED, _EVERY):
            limit = self._values.get(_entity(of_user, _ABSENT, user, None))
            if limit is not None:
                return Limited((user, ""), limit)
        return None


def _entity(of_user: _Part, of_client: _Part, user: str, client_id: str | None) -> Entity:
    parts: list[tuple[str, str | None]] = []
    if of_client is not _ABSENT:
        parts.append((CLIENT_ID, client_id if of_client is _NAMED else None))
    if of_user is not _ABSENT:
        parts.append((USER, user if of_user is _NAMED else None))
    return tuple(parts)
