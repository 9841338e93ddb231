"""Finds the limit that applies to a client among the entities of one quota, by Kafka's eight levels.

The most specific entity wins, and a user is more specific than a client id:

    user + client id   >  user + every client id   >  user   >  every user + client id  >  every user + every client id
                       >  every user               >  client id  >  every client id

A client that matches an entity with a client id shares its limit with clients of the same user and client id; one that matches
an entity with only a user shares it with all clients of that user; and so on. This is its `Share`. A default is a limit for each
name, not one limit for all names together.

A client without an id, null or empty, matches the levels of every client id but has no share there. As in Kafka it then gets the
limit of its user, if there is one, and is unlimited otherwise.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.server.metadata.quotas import CLIENT_ID, USER, Entity


class _Part(enum.Enum):
    """Says what the entities of a level say about the user, or about the client id."""

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
"""The levels as (user, client id), the most specific first."""

Share = tuple[str, str]
"""The (user, client id) of clients that share a limit; "" stands for any."""


class Limited(NamedTuple):
    """Gives the limit of a client, in units per second, and the share that it applies to."""

    share: Share
    limit: float


class Limits:
    """Holds the limits of one kind of quota. `values` are the limits that are set, by entity."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[Entity, float]) -> None:
        self._values = values

    def find(self, user: str, client_id: str | None) -> Limited | None:
        """Returns the limit of a client, or None if it has none."""
        for of_user, of_client in _LEVELS:
            if of_client is _NAMED and not client_id:
                continue
            limit = self._values.get(_entity(of_user, of_client, user, client_id))
            if limit is None:
                continue
            if of_client is _ABSENT or client_id:
                return Limited(("" if of_user is _ABSENT else user, "" if of_client is _ABSENT else client_id or ""), limit)
            return None if of_user is _ABSENT else self._find_for_user(user)
        return None

    def _find_for_user(self, user: str) -> Limited | None:
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
