"""Recorded requests as Python objects, for `ottla.testing.Broker`: the same calls as over HTTP (recording_calls.py)."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.server.testkit.python.calling import Calls


class Seen:
    """A recorded request, or a struct in it: its fields are attributes as well as items. Bytes that are no text are bytes.

    It has no methods, because a field might have their name.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.__dict__.update((name, _seen(value)) for name, value in fields.items())

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no {name} here; there are {', '.join(vars(self))}")

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # as a dict, which it is for who reads it

    def __repr__(self) -> str:
        return f"<{', '.join(f'{name}={value!r}' for name, value in vars(self).items())}>"


def _seen(value: Any) -> Any:
    if isinstance(value, list):
        return [_seen(each) for each in value]
    if not isinstance(value, dict):
        return value
    return b64decode(value["base64"]) if value.keys() == {"base64"} else Seen(value)


class Recording:
    """The questions of a test about the requests that its broker has had."""

    _call: Calls

    def record(self, max: int = 10_000, *, records: bool = False) -> None:
        """Records the latest `max` requests from now on, 0 for none; with `records`, also the records in them. What is recorded
        already stays, if there is room."""
        self._call("record", {"max": max, "records": records})

    def requests(self, **selected_by: Any) -> list[Seen]:
        """Returns the recorded requests, the oldest first, selected by what faults are selected by: `api`, `topic`, `client_id`.
        Also by `since` (with a higher `seq`), `limit` (the last of them), `held` (by a fault).

        A request has the fields that docs/testkit.md lists: `requests(api="JoinGroup")[0].request.group_id`. Raises ValueError
        if nothing was ever recorded.
        """
        return [Seen(each) for each in self._call("requests", selected_by)]

    def frames(self, **selected_by: Any) -> str:
        """Returns the frames of recorded requests, which are selected as by `requests`, as the text that `ottla testkit replay`
        reads from a file."""
        return json.dumps(self._call("requests", {**selected_by, "format": "frames"}))

    def begin_report(self) -> dict[str, int]:
        """Returns where it stands now, for a later `report` to leave out what was before."""
        found = self._call("report")
        return {"since": found["last_seq"], "since_fault": found["last_fault"]}

    def report(self, *, since: int = 0, since_fault: int = 0, limit: int = 50) -> str:
        """Returns the last recorded requests, a line each, and all faults with their hits, those that are removed as well: for
        people who look for why a test failed."""
        from ottla.server.testkit.python.failure_report import write_report

        found = self._call("report", {"since": since, "since_fault": since_fault, "limit": limit})
        return write_report(found["requests"], found["faults"])

    def forget_requests(self) -> int:
        """Forgets what is recorded; returns how many requests that were."""
        return int(self._call("forget_requests")["forgotten"])
