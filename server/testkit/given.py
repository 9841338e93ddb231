"""The arguments of a call to the kit, by HTTP or from Python."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ottla.server.testkit.fields import Fields, QueryFields


class Given:
    """Holds what was given with a call: the variables of its path, such as the id of a fault, and the body."""

    def __init__(self, variables: Mapping[str, str], body: Any = None, query: Mapping[str, str] | None = None) -> None:
        self.variables = variables
        self.body = body
        """The value of the JSON in the body; None without a body."""
        self._query = query

    @cached_property
    def fields(self) -> Fields:
        """Returns the fields of a body that is an object, or of the query where there is no body. Raises Refused if the body is
        anything else."""
        if self.body is None:
            return QueryFields(self._query or {})
        return Fields(self.body)


def as_text(value: object) -> str:
    """Returns a setting's value as server.properties would have it."""
    match value:
        case bool():
            return str(value).lower()
        case list() | tuple() | set() | frozenset():
            return ",".join(map(as_text, value))
        case _:
            return str(value)
