"""A history of what clients did and saw, as a list of events: the input of the checker of anomalies (`checker.py`).

The model is that of Jepsen's histories. An operation begins with the event `invoke` and ends with one of three: `ok`, it
happened; `fail`, it certainly did not and never will; `info`, nobody knows, because the connection broke or the time was up. An
operation without an end counts as `info`. Every event is one JSON object on a line of its own:

    i      number of the event, which is the order of the history
    t      monotonic nanoseconds
    p      the process: one incarnation of one client; a client that crashed comes back with a new number
    op     number of the operation
    type   invoke, ending, ok, fail or info
    f      what is done, see below; in the invoke only
    and the fields of `f`; what the last event of an operation says counts

What is done, with the fields:

    send       mops; idempotent: the client repeats nothing, even if it sends a batch twice
    txn        mops; transactional_id; isolation; group and offsets, if it commits a group's offsets. ok: committed, fail:
               aborted. The event `ending` says that the request to commit goes out now: nobody may have read its writes before
    poll       mops; isolation; ends; final: the poll is a whole read of its keys by a fresh client after everything else
    assign     positions: {key: offset} at which the process now goes on reading; other keys are no longer its own
    init       transactional_id: from now on this process is the producer of that id
    commit     group, offsets: {key: offset}
    committed  group, offsets: {key: offset}, -1 where there is none
    acquire    group, limit; counts: {key: [[offset, number of the delivery]]}; mops and isolation, as in poll: a member of a
               share group is given records, each `limit` times at most
    settle     group, settled: {key: [[offset, GAP, ACCEPT, RELEASE or REJECT]]}: what it says of them
    drain      group, keys, final: a share group has nothing left, after everything else
    trim       offsets: {key: offset} below which records may be deleted
    create     topic; delete  topic; topics  names: all topics that there are
    heal       from here on nothing is broken any more
    crash      the process is gone, and with it what it had begun

A key is a partition, as text ("t-0"). `mops` are in order: `["send", key, [offset or null, value]]` and
`["poll", {key: [[offset, value], ...]}]`. The values of a key are integers, each sent by one operation only. `isolation` is
read_committed or read_uncommitted. `ends` is {key: [high watermark, last stable offset]}, as a fetch is answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

Event = dict[str, Any]
Key = str
NEVER: Final = 1 << 62
OF_CLIENTS_ONLY: Final = frozenset({"assign", "crash", "heal"})
"""The operations that need no broker, and so prove nothing about one."""
GAP, ACCEPT, RELEASE, REJECT = range(4)
"""The words of a member of a share group about an offset; a gap has no record."""
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"


@dataclass(slots=True)
class Operation:
    """One operation, from its invocation to its end. `invoked`, `ending` and `completed` are numbers of events; NEVER if there
    was no such event.
    """

    number: int
    process: int
    f: str
    invoked: int
    began_ns: int
    outcome: str = "info"
    completed: int = NEVER
    ended_ns: int = NEVER
    ending: int = NEVER
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def failed(self) -> bool:
        """True if it certainly did not happen."""
        return self.outcome == "fail"

    @property
    def settled(self) -> int:
        """The number of the event after which it has no effect any more: NEVER if its outcome is unknown."""
        return NEVER if self.outcome == "info" else self.completed

    @property
    def sends(self) -> Iterator[tuple[Key, int | None, int]]:
        """Yields (key, offset or None, value) of everything that it sent, in order."""
        for name, *rest in self.fields.get("mops", ()):
            if name == "send":
                key, (offset, value) = rest
                yield key, offset, value

    @property
    def polls(self) -> Iterator[tuple[Key, list[tuple[int, int]]]]:
        """Yields (key, [(offset, value), ...]) of everything that it read, in order."""
        for name, *rest in self.fields.get("mops", ()):
            if name == "poll":
                for key, records in rest[0].items():
                    yield key, [(offset, value) for offset, value in records]

    @property
    def reads_committed(self) -> bool:
        return self.fields.get("isolation") == READ_COMMITTED

    def __str__(self) -> str:
        return f"{self.f} {self.number} of process {self.process} ({self.outcome}, events {self.invoked}-{self.completed})"


class Recorder:
    """Takes down a history. `now_ns` is a monotonic clock; `note` is called with each event, for who wants to follow."""

    def __init__(self, now_ns: Callable[[], int], note: Callable[[Event], None] | None = None) -> None:
        self.events: list[Event] = []
        self._now_ns = now_ns
        self._note = note
        self._operations = 0

    def _add(self, process: int, op: int, kind: str, fields: dict[str, Any]) -> None:
        event = {"i": len(self.events), "t": self._now_ns(), "p": process, "op": op, "type": kind, **fields}
        self.events.append(event)
        if self._note is not None:
            self._note(event)

    def invoke(self, process: int, f: str, **fields: Any) -> Recorded:
        """Takes down that an operation begins; its end is told to what is returned."""
        self._operations += 1
        self._add(process, self._operations, "invoke", {"f": f, **fields})
        return Recorded(self, process, self._operations)

    def mark(self, process: int, f: str, **fields: Any) -> None:
        """Takes down something that begins and ends at once."""
        self.invoke(process, f, **fields).ok()

    def lines(self) -> Iterator[str]:
        """Yields the history as JSON, an event a line."""
        for event in self.events:
            yield json.dumps(event, separators=(",", ":"))


@dataclass(slots=True, frozen=True)
class Recorded:
    """An operation that is under way in a Recorder."""

    recorder: Recorder
    process: int
    number: int

    def ending(self) -> None:
        self.recorder._add(self.process, self.number, "ending", {})

    def ok(self, **fields: Any) -> None:
        self.recorder._add(self.process, self.number, "ok", fields)

    def fail(self, **fields: Any) -> None:
        self.recorder._add(self.process, self.number, "fail", fields)

    def info(self, **fields: Any) -> None:
        self.recorder._add(self.process, self.number, "info", fields)


def read_lines(lines: Iterable[str]) -> list[Event]:
    """Returns the events of a history that was written as JSON lines."""
    return [json.loads(line) for line in lines if line.strip()]


def operations(events: Iterable[Event]) -> list[Operation]:
    """Returns the operations of a history in the order of their invocations."""
    found: dict[int, Operation] = {}
    for event in events:
        number, kind = event["op"], event["type"]
        fields = {name: value for name, value in event.items() if name not in ("i", "t", "p", "op", "type", "f")}
        if kind == "invoke":
            found[number] = Operation(number, event["p"], event["f"], event["i"], event["t"], fields=fields)
            continue
        operation = found[number]
        if kind == "ending":
            operation.ending = event["i"]
            continue
        operation.outcome, operation.completed, operation.ended_ns = kind, event["i"], event["t"]
        operation.fields |= fields
    return list(found.values())
