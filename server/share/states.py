"""The states of a record in flight in a share group (KIP-932), and runs of records that are in the same state.

A record is `AVAILABLE` until a member acquires it, then `ACQUIRED` for as long as that member's lock lasts, and ends either
`ACKNOWLEDGED` (a member processed it) or `ARCHIVED` (no member will: it was rejected, given up after too many deliveries, is a
gap of the log, or is below the log's start). It is `ARCHIVING` while dead letters for it are being written that take longer than
a turn of the event loop (dead_letters.py); who loads that state writes them again. The numbers are those of the stored state.

A `Run` is a range of offsets from `first` to `last`, both included, that have everything in common. An `InFlightBatch` is what
was acquired at one time, as consecutive runs. Its `by_offset` is true once it was treated in any other way than as a whole; it
may have one run even then. Everything here loops over runs, never over offsets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
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
    AVAILABLE: frozenset({ACQUIRED, ARCHIVED}),  # archived: the log's start passed it, or it is a gap of the log
    ACQUIRED: frozenset({AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED}),
    ACKNOWLEDGED: frozenset[RecordState](),
    ARCHIVING: frozenset({ARCHIVED}),
    ARCHIVED: frozenset[RecordState](),
}
"""The states that may follow each state."""

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4

ACKNOWLEDGE_STATES: Final = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}
"""The state of an acquired record after each type of acknowledgement. A renewal changes no state; a gap is an offset without a
record."""

NOBODY: Final = ""
"""The member of a record that is not acquired."""
NO_DEADLINE: Final = float("inf")


class Run(NamedTuple):
    """A range of offsets in one state. `deadline` is when the lock of acquired records ends, in seconds of the
    monotonic clock.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str = NOBODY
    deadline: float = NO_DEADLINE

    def with_state(self, state: RecordState) -> Run:
        """Returns the run in another state, in which no member holds it."""
        assert state in TRANSITIONS[self.state], (self.state, state)
        return Run(self.first, self.last, state, self.delivery_count)

    def clipped(self, first: int, last: int) -> Run:
        return self._replace(first=max(first, self.first), last=min(last, self.last))

    def size_from(self, offset: int) -> int:
        """Returns how many of its offsets are not below `offset`."""
        return max(0, self.last - max(self.first, offset) + 1)


class GivenUp(NamedTuple):
    """Records that are archived because a member `rejected` them or, if not, because they were delivered too often."""

    run: Run
    rejected: bool


class GivingUp:
    """The records that a share partition gives up at one time, in the order of offsets."""

    __slots__ = ("is_over", "runs")

    def __init__(self, runs: Sequence[GivenUp]) -> None:
        self.runs = runs
        self.is_over = False
        """True if nobody needs the dead letters that are left: it could not be stored, or the share partition is gone and will be
        loaded anew."""


_FIRST: Final = attrgetter("first")
_LAST: Final = attrgetter("last")


class InFlightBatch:
    """Offsets that were acquired at one time. `runs` are consecutive and cover them all."""

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
        """Returns the batch's only run, while it is treated as a whole."""
        assert not self.by_offset
        return self.runs[0]

    def within(self, first: int, last: int) -> bool:
        return self.first >= first and self.last <= last

    def overlapping(self, first: int, last: int) -> Iterator[Run]:
        """Returns the runs from `first` to `last`, clipped to these offsets. Later changes of the batch do not affect them."""
        start, end = self._between(first, last)
        return (run.clipped(first, last) for run in self.runs[start:end])

    def _between(self, first: int, last: int) -> tuple[int, int]:
        """Returns the slice of `runs` that overlaps `first` to `last`."""
        return bisect_left(self.runs, first, key=_LAST), bisect_right(self.runs, last, key=_FIRST)

    def change(self, first: int, last: int, changed: Callable[[Run], Run]) -> None:
        """Replaces each run between `first` and `last` with `changed(run)`, which must have the same offsets.

        Looks only at these runs and their neighbours, since a batch of thousands of records may be acknowledged one by one.
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
    """Appends a run, or joins it to the last one if they have everything in common."""
    if runs and runs[-1][2:] == run[2:]:
        runs[-1] = runs[-1]._replace(last=run.last)
    else:
        runs.append(run)
