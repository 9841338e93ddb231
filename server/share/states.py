"""What a record in flight is to a share group (KIP-932): its state, as a table, and runs of records that are in the same one.

A record is `AVAILABLE` until a member is given it, then `ACQUIRED` for as long as that member's lock lasts, and ends either
`ACKNOWLEDGED` (somebody dealt with it) or `ARCHIVED` (nobody will: rejected, given up after too many deliveries, a gap of the
log, below the log's start). `ARCHIVING` is only found, in what a Kafka left behind that was about to write a dead letter. The
numbers are those of the state that is persisted.

A `Run` is a row: offsets from `first` to `last`, both included, that have everything in common. An `InFlightBatch` is what was
handed out at one time, as consecutive runs. `by_offset` says that it was ever treated otherwise than as a whole; it may then have
one run all the same. Everything here loops over runs, never over offsets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from enum import IntEnum
from operator import attrgetter
from typing import Final, NamedTuple


class RecordState(IntEnum):
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


AVAILABLE: Final = RecordState.AVAILABLE
ACQUIRED: Final = RecordState.ACQUIRED
ACKNOWLEDGED: Final = RecordState.ACKNOWLEDGED
ARCHIVING: Final = RecordState.ARCHIVING
ARCHIVED: Final = RecordState.ARCHIVED

TERMINAL: Final = frozenset({ACKNOWLEDGED, ARCHIVED})

TRANSITIONS: Final = {
    AVAILABLE: frozenset({ACQUIRED, ARCHIVED}),  # archived: the log lost it, or nothing of it is to be had
    ACQUIRED: frozenset({AVAILABLE, ACKNOWLEDGED, ARCHIVED}),
    ACKNOWLEDGED: frozenset[RecordState](),
    ARCHIVING: frozenset({ARCHIVED}),
    ARCHIVED: frozenset[RecordState](),
}
"""From each state, the states that may follow."""

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4

ACKNOWLEDGE_STATES: Final = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}
"""What an acknowledgement makes of an acquired record. A renewal changes no state; a gap is an offset without a record."""

NOBODY: Final = ""
"""The member of a record that is not acquired."""
NO_DEADLINE: Final = float("inf")


class Run(NamedTuple):
    """`deadline`: when the lock of an acquired record ends, in seconds of the monotonic clock."""

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str = NOBODY
    deadline: float = NO_DEADLINE

    def into(self, state: RecordState) -> Run:
        """In a state that nobody holds it in."""
        assert state in TRANSITIONS[self.state], (self.state, state)
        return Run(self.first, self.last, state, self.delivery_count)

    def clipped(self, first: int, last: int) -> Run:
        return self._replace(first=max(first, self.first), last=min(last, self.last))

    def size_from(self, offset: int) -> int:
        """How many of its offsets are not below `offset`."""
        return max(0, self.last - max(self.first, offset) + 1)


class GivenUp(NamedTuple):
    """What nobody will get any more, of what is archived: it was `rejected`, or else delivered too often."""

    run: Run
    rejected: bool


_FIRST: Final = attrgetter("first")
_LAST: Final = attrgetter("last")


class InFlightBatch:
    """Offsets handed out at one time. `runs` are consecutive and cover them all."""

    __slots__ = ("by_offset", "first", "last", "runs")

    def __init__(self, runs: list[Run], *, by_offset: bool = False) -> None:
        self.first = runs[0].first
        self.last = runs[-1].last
        self.runs = runs
        self.by_offset = by_offset

    def __repr__(self) -> str:
        return f"InFlightBatch({self.runs!r}{', by_offset=True' if self.by_offset else ''})"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def whole(self) -> Run:
        """Its only run, while it is treated as a whole."""
        assert not self.by_offset
        return self.runs[0]

    def within(self, first: int, last: int) -> bool:
        return self.first >= first and self.last <= last

    def overlapping(self, first: int, last: int) -> Iterator[Run]:
        """The runs from `first` to `last`, cut there, as they are now."""
        start, end = self._between(first, last)
        return (run.clipped(first, last) for run in self.runs[start:end])

    def _between(self, first: int, last: int) -> tuple[int, int]:
        """The indexes of the first run that reaches to `first`, and of the one behind the last that begins by `last`."""
        return bisect_left(self.runs, first, key=_LAST), bisect_right(self.runs, last, key=_FIRST)

    def change(self, first: int, last: int, changed: Callable[[Run], Run]) -> None:
        """Puts `changed(run)`, of the same offsets, in the place of what is between `first` and `last`.

        Only these runs and their neighbours are looked at: a batch of thousands of records may be acknowledged one by one.
        """
        start, end = self._between(first, last)
        if start >= end:
            return
        start, end = max(start - 1, 0), min(end + 1, len(self.runs))
        runs: list[Run] = []
        for run in self.runs[start:end]:
            if run.last < first or run.first > last:
                _add(runs, run)
                continue
            if run.first < first:
                _add(runs, run.clipped(run.first, first - 1))
            _add(runs, changed(run.clipped(first, last)))
            if run.last > last:
                _add(runs, run.clipped(last + 1, run.last))
        self.runs[start:end] = runs

    def put(self, run: Run) -> None:
        self.change(run.first, run.last, lambda _: run)


def _add(runs: list[Run], run: Run) -> None:
    """Appends, to the last run if they have everything in common."""
    if runs and runs[-1][2:] == run[2:]:
        runs[-1] = runs[-1]._replace(last=run.last)
    else:
        runs.append(run)
