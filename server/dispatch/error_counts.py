"""Which error codes an answer holds, for the count of errors by API and code.

Every non-zero field called `error_code` counts, wherever in the answer it stands: an answer with ten failed partitions has ten.
Where they can be is read off the message's class once, when its route is made; parts that cannot hold any are not walked.

Produce and Fetch are not walked at all unless they say so (`Request.failed`): they see every partition anyway.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.wire.primitives import WireStruct

FIELD = "error_code"


class Places(NamedTuple):
    """The places where error codes can stand in a struct of one class."""

    has_code: bool
    structs: tuple[tuple[str, Places], ...]
    lists: tuple[tuple[str, Places], ...]

    def __bool__(self) -> bool:
        return self.has_code or bool(self.structs) or bool(self.lists)


def places_in(message: type[WireStruct]) -> Places:
    inside = [(field, places_in(kind), is_list) for field, kind, is_list in message.NESTED]
    structs = tuple((field, places) for field, places, is_list in inside if places and not is_list)
    lists = tuple((field, places) for field, places, is_list in inside if places and is_list)
    return Places(FIELD in message.__slots__, structs, lists)


def count_errors(answer: Any, places: Places, counts: dict[int, int]) -> None:
    """Adds the codes in `answer`, a struct of the class that `places` were read off, to `counts`."""
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
