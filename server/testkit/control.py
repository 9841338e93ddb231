"""Everything that a test may ask of the kit, as one table of functions, which HTTP and Python both call.

A `Call` is one of them: its name in Python, its method and path in HTTP, and the function. That takes the Kit and the
`Given`, what was given with the call, and returns what JSON can hold, or an awaitable of it; it raises Refused. All run on the
broker's loop, so a call is in force before it is answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.server.testkit.fields import Fields, Refused

if TYPE_CHECKING:
    from ottla.server.testkit.kit import Kit


class Given:
    """Holds what was given with a call: the variables of its path, such as the id of a fault, and the body."""

    def __init__(self, variables: Mapping[str, str], body: Any = None) -> None:
        self.variables = variables
        self.body = body
        """What the JSON of the body stood for; None without a body. A query stands for a body of texts."""

    @cached_property
    def fields(self) -> Fields:
        """Returns the fields of a body that is an object. Raises Refused if it is anything else."""
        return Fields({} if self.body is None else self.body)


class Call(NamedTuple):
    """One thing that a test may ask."""

    name: str
    """The name in Python."""
    method: str
    path: str
    """The path in HTTP, with the names of its variables in braces."""
    function: Callable[[Kit, Given], Any]
    status: int = HTTPStatus.OK
    """What HTTP answers if all is well."""


def _state(kit: Kit, given: Given) -> Any:
    """Says which broker this is."""
    given.fields.done()
    return kit.describe()


CALLS: Final[tuple[Call, ...]] = (Call("state", "GET", "/v1/state", _state),)
"""The table. Beside it there are only the rules of HTTP in test_port.py."""


def find_call(method: str, path: str) -> tuple[Call, dict[str, str]]:
    """Returns the call of a path and its variables. Raises Refused, with 405 if the path has only other methods."""
    methods = []
    for call, pattern in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is None:
            continue
        if call.method == method:
            return call, found.groupdict()
        methods.append(call.method)
    if methods:
        raise Refused(f"{path} is for {', '.join(methods)}, not for {method}", HTTPStatus.METHOD_NOT_ALLOWED)
    paths = ", ".join(sorted({call.path for call in CALLS}))
    raise Refused(f"there is no {path}; the paths are {paths}", HTTPStatus.NOT_FOUND)


_PATTERNS: Final = [(call, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", call.path))) for call in CALLS]
