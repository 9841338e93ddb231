"""Which error codes an answer holds, for the count of errors by API and code.

Every non-zero field called `error_code` counts, wherever in the answer it stands: an answer with ten failed partitions has ten.
Where they can be is read off the message's class once, when its route is made; parts that cannot hold any are not walked.

Produce and Fetch are not walked at all unless they say so (`RequestContext.failed`): they see every partition anyway.
"""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

from ottla.wire.primitives import WireStruct

_WORD = re.compile(r"\w+")
FIELD = "error_code"


class Places(NamedTuple):
    """Where in a struct of one class error codes can stand."""

    has_code: bool
    structs: tuple[tuple[str, Places], ...]
    lists: tuple[tuple[str, Places], ...]

    def __bool__(self) -> bool:
        return self.has_code or bool(self.structs) or bool(self.lists)


def places_in(message: type[WireStruct]) -> Places:
    """From the class's annotations, which are text: `list[TopicProduceResponse] | None`."""
    names = vars(sys.modules[message.__module__])
    structs: list[tuple[str, Places]] = []
    lists: list[tuple[str, Places]] = []
    for field, annotation in message.__init__.__annotations__.items():
        for word in _WORD.findall(annotation):
            kind = names.get(word)
            if isinstance(kind, type) and issubclass(kind, WireStruct):
                inside = places_in(kind)
                if inside:
                    (lists if annotation.startswith("list[") else structs).append((field, inside))
    return Places(FIELD in message.__slots__, tuple(structs), tuple(lists))


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
