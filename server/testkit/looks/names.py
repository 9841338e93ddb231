"""How answers name what there is, and how a refusal names what there is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.server.testkit.fields import Refused, nearest

if TYPE_CHECKING:
    from ottla.server.testkit.fields import Fields

T = TypeVar("T")

LIMIT: Final = 1000
"""How many elements an answer has if a test says nothing."""
MOST: Final = 10_000_000


def absent(what: str, name: str, known: Iterable[str]) -> Refused:
    """Returns the refusal of a name that nothing has: 404, with the nearest that something has."""
    return Refused(f"there is no {what} {name!r:.280}{nearest(name, known)}", HTTPStatus.NOT_FOUND)


def take_limit(fields: Fields) -> int:
    """Takes out how many elements the answer may have."""
    return fields.take_number("limit", LIMIT, high=MOST)


def bounded(name: str, elements: Sequence[T], limit: int, describe: Any) -> dict[str, Any]:
    """Returns an answer with the first elements, each as `describe` has it, and how many were `left_off`."""
    return {name: [describe(each) for each in elements[:limit]], "left_off": max(0, len(elements) - limit)}


def ascending(partitions: Iterable[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    """Yields partitions as JSON has them, in order."""
    for topic, partition in sorted(partitions):
        yield {"topic": topic, "partition": partition}
