"""Selects recorded requests for `GET /v1/requests`, by the conditions that faults use (selectors.py).

The same names mean the same, but what a request matches is decided when somebody looks: a topic that a request names by its id is
found as long as it exists, and partitions that a fetch session has without the request naming them are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.server.requests.request import Request
from ottla.server.testkit.fault_fields import SELECTORS
from ottla.server.testkit.faults.selectors import On
from ottla.server.testkit.fields import Fields
from ottla.server.testkit.recording.recorded import decode_request
from ottla.server.testkit.refusals.refusals import select

if TYPE_CHECKING:
    from ottla.server.testkit.faults.bench import Bench
    from ottla.server.testkit.recording.recording import Entry

NUMBERS: Final = ("api", "node", "partition")
LISTS: Final = tuple(name for name in SELECTORS if name not in ("version", "where"))


class RequestSelector:
    """Says whether a recorded request is one of those that a test wants."""

    def __init__(self, values: dict[str, Any], bench: Bench) -> None:
        """`values` are the fields of `on` of a fault. Raises Refused."""
        self._bench = bench
        self._on = On(Fields(values), bench.node_ids)
        self._keys = frozenset(api.key for api in self._on.apis)
        self._is_any = not values

    def __call__(self, entry: Entry) -> bool:
        if self._is_any:
            return True
        header = entry.header
        if self._keys and header.api_key not in self._keys:
            return False
        request = Request(self._bench.context, entry.session, *header)
        body = None
        if self._on.entities or self._on.looks_into_fields:
            body = decode_request(entry)
            if body is None:
                return False
        return self._on.matches(body, request, entry.node) and (
            not self._on.entities or select(body, request, self._on) is not None
        )


def from_query(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a query, which are texts, as a body would have them: lists at commas, and numbers."""
    return {name: _listed(name, value) if name in LISTS and isinstance(value, str) else value for name, value in values.items()}


def _listed(name: str, text: str) -> list[Any]:
    return [int(part) if name in NUMBERS and part.isdecimal() else part for part in text.split(",")]
