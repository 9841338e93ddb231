"""Members of a group under faults: whether they join, keep their partitions, commit, and what is read twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from compat_tests.behaviours.cell import GROUP, SECONDS, Cell, after, counted, named
from compat_tests.behaviours.consume import MORE_SECONDS, QUIET_SECONDS, VALUES, in_words
from compat_tests.behaviours.produce import Given

QUICK: Given = {"group": GROUP, "reset": "earliest", "session_ms": 6000, "heartbeat_ms": 200}
"""A member whose heartbeats need not be waited for."""
MORE_BEATS = 4
"""The number of further heartbeats from a member that has ignored the answer to one."""


def of_group(api: str, **given: Any) -> Given:
    """A fault for requests of the group."""
    return {"api": api, "group": GROUP, **given}


@dataclass(frozen=True)
class Joins:
    """Joins a group while there are faults, and reads ten records."""

    faults: tuple[Given, ...]
    settings: Given = field(default_factory=dict)
    for_ever: bool = False

    def __call__(self, cell: Cell) -> str:
        cell.seed(*VALUES)
        faults = [cell.fault(**given) for given in self.faults]
        began = cell.seconds()
        opened = cell.consumer(**QUICK | self.settings)
        if opened.error is not None:
            return f"{named(opened.error)}, does not join"
        if self.for_ever:
            cell.wait(lambda: bool(cell.errors() or cell.records()), SECONDS)
            first = after(cell.seconds() - began)
        joined = cell.wait(lambda: len(set(cell.records())) == len(VALUES), MORE_SECONDS if self.for_ever else SECONDS)
        took = cell.seconds() - began
        if not any(fault.hits for fault in faults):
            return "does not ask"
        if joined:
            return in_words(cell.records(), cell.errors(), after(took))
        errors = cell.errors()
        return f"{' and '.join(errors)}{first if self.for_ever else ''}, does not join" if errors else "no error, does not join"


@dataclass(frozen=True)
class Stays:
    """A member has read ten records when something happens to it; then there is one more record."""

    fault: Given
    settings: Given = field(default_factory=dict)
    before: Callable[[Cell], None] = lambda _: None
    """The events besides the fault, or in place of one that only counts."""

    def __call__(self, cell: Cell) -> str:
        cell.seed(*VALUES)
        opened = cell.consumer(**QUICK | self.settings)
        if opened.error is not None:
            return named(opened.error)
        if not cell.wait(lambda: len(cell.records()) == len(VALUES)):
            return in_words(cell.records(), cell.errors())
        joins, beats = cell.count(**of_group("JoinGroup")), cell.count(**of_group("Heartbeat"))
        began = cell.seconds()
        self.before(cell)
        fault = cell.fault(**self.fault)
        try:
            fault.wait(1, SECONDS)
        except TimeoutError:
            return "does not ask"
        first = beats.hits
        decided = cell.wait_until(lambda: joins.hits > 0 or beats.hits >= first + MORE_BEATS, SECONDS / 2)
        cell.seed("later")
        goes_on = cell.wait(lambda: "later" in cell.records(), SECONDS if joins.hits else QUIET_SECONDS)
        return self._words(cell, after(cell.seconds() - began), joins=bool(joins.hits), decided=decided, goes_on=goes_on)

    @staticmethod
    def _words(cell: Cell, took: str, *, joins: bool, decided: bool, goes_on: bool) -> str:
        again = len(cell.records()) - len(set(cell.records()))
        what = "joins again" if joins else "stays" if decided else "sends no heartbeat any more"
        if not goes_on:
            what += ", reads nothing more"
        elif again:
            what += f", reads {counted(again, 'record')} again"
        return ", ".join([*cell.errors(), what]) + (took if goes_on else "")


def expire(cell: Cell) -> None:
    """Has the member's session end, since the broker's clock jumps over its time."""
    expired = cell.broker.clock.advance(seconds=30)["expired_members"]
    assert expired, "nobody was expelled"


@dataclass(frozen=True)
class Commits:
    """A member commits after each of three records while there are faults."""

    fault: Given

    def __call__(self, cell: Cell) -> str:
        values = VALUES[:3]
        cell.seed(*values)
        commits = cell.count(api="OffsetCommit")
        fault = cell.fault(**self.fault)
        cell.consumer(**QUICK | {"commit": "each", "session_ms": 30_000})  # some are long without a coordinator
        done = cell.wait(lambda: set(cell.records()) >= set(values) and self._settled(cell), SECONDS)
        if not fault.hits:
            return "does not ask"
        errors = [*cell.errors(during="commit"), *cell.errors(during="poll")]
        said = " and ".join(dict.fromkeys(errors)) if errors else "no error"
        again = len(cell.records()) - len(set(cell.records()))
        words = [said, counted(commits.hits, "commit")] if done and not again else [said]
        if again:
            words.append(f"reads {counted(again, 'record')} again")
        if not done:
            words.append(f"reads {len(set(cell.records()))} of 3")
        return ", ".join(words)

    @staticmethod
    def _settled(cell: Cell) -> bool:
        events = [event["event"] for event in cell.events() if event["event"] in ("record", "committed", "error")]
        return bool(events) and events[-1] != "record"


def black_hole(cell: Cell) -> str:
    """Lets one of two members fall silent, and then lets it answer again."""
    names = ("a", "b")
    settings = QUICK | {"request_ms": 2500, "poll_ms": 8000, "commit": "each"}
    for name in names:
        cell.consumer(name, client_id=f"member-{name}", **settings)
    both = lambda: all(len(cell.assigned(name)) == 1 for name in names)  # noqa: E731
    if not cell.wait(both, SECONDS):
        return "the two do not share the partitions"
    fault = cell.fault(client_id="member-a*", blackhole=True, times=-1)
    if not cell.wait(lambda: len(cell.assigned("b")) == 2, SECONDS):
        return "the other does not get its partition"
    began = cell.seconds()
    fault.remove()
    returns = cell.wait(both, SECONDS)
    errors = [*cell.errors("a"), *(f"the other: {error}" for error in cell.errors("b"))]
    words = f"comes back{after(cell.seconds() - began)}" if returns else f"is not back within {SECONDS:.0f} s"
    return ", ".join([*errors, words])


def leaves(cell: Cell) -> str:
    """Says whether a member that is closed leaves its group at once, and what is committed then."""
    cell.seed(*VALUES)
    cell.consumer(group=GROUP, reset="earliest")
    if not cell.wait(lambda: len(cell.records()) == len(VALUES)):
        return in_words(cell.records(), cell.errors())
    left = cell.count(**of_group("LeaveGroup"))
    closed = cell.close("c", seconds=SECONDS)
    words = "leaves" if left.hits else "does not leave"
    committed = max(0, cell.committed())  # below 0 for nothing
    return f"{words}, with {counted(committed, 'record')} of 10 committed" if closed else "does not close"
