"""Builds the refusal of an unknown name, and reads how many elements an answer may have."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ottla.server.testkit.fields import Refused, nearest

if TYPE_CHECKING:
    from ottla.server.testkit.fields import Fields

LIMIT: Final = 1000
"""The most elements that an answer has if a test says nothing."""
MOST: Final = 10_000_000


def absent(what: str, name: str, known: Iterable[str]) -> Refused:
    """Returns the refusal of a name that nothing has: 404, with the nearest that something has."""
    return Refused(f"there is no {what} {name!r:.280}{nearest(name, known)}", HTTPStatus.NOT_FOUND)


def take_limit(fields: Fields) -> int:
    """Takes out how many elements the answer may have."""
    return fields.take_number("limit", LIMIT, high=MOST)
