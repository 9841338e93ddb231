"""Finds the error codes in an answer, for the count of errors by API and code.

Every non-zero field called `error_code` counts, wherever it stands in the answer: an answer with ten failed partitions has ten.
The places where such fields can be are read off the message's class once, when its route is made, and parts of a message that
cannot hold any are skipped.

The answers of Produce and Fetch are searched only if their handlers say so (`Request.failed`), since these look at every
partition anyway.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.wire.primitives import WireStruct

FIELD = "error_code"


class Places(NamedTuple):
    """Says where error codes can stand in a struct of one class."""

    has_code: bool
    structs: tuple[tuple[str, Places], ...]
    lists: tuple[tuple[str, Places], ...]

    def __bool__(self) -> bool:
        return self.has_code or bool(self.structs) or bool(self.lists)


def places_in(message: type[WireStruct]) -> Places:
    """Returns the places in a message's class, those in nested structs included."""
    inside = [(field, places_in(kind), is_list) for field, kind, is_list in message.NESTED]
    structs = tuple((field, places) for field, places, is_list in inside if places and not is_list)
    lists = tuple((field, places) for field, places, is_list in inside if places and is_list)
    return Places(FIELD in message.__slots__, structs, lists)


def count_errors(answer: Any, places: Places, counts: dict[int, int]) -> None:
    """Adds the error codes in `answer` to `counts`; `places` were read off the class of `answer`."""
    if places.has_code:
        code = answer.error_code
        if code:
            counts[code] = counts.get(code, 0) + 1
    for field, inside in places.structs:
        value = getattr(answer, field)
        if value is not None:
            count_errors(value, inside, counts)
    for field, inside in places.lists:
        for each in getattr(answer, field) or ():
            count_errors(each, inside, counts)
