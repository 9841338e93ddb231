"""A consumer reads a partition under faults: which records its application gets, and which errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compat_tests.behaviours.cell import SECONDS, TOPIC, Cell, after, named
from compat_tests.behaviours.produce import Given

VALUES = [f"record-{number}-{'x' * 1000}" for number in range(10)]
"""Long, so that the bit that a fault turns over is one of a value."""
QUIET_SECONDS = 5.0
"""The time for which nothing must come where nothing is expected."""
RECOVERY_SECONDS = 7.0
"""The time that a consumer has to recover from an error."""
LATER = "later"
MORE_SECONDS = 2.0
"""The time for which records may still come after an error."""


def fetch(**given: Any) -> Given:
    """A fault for fetches of the topic."""
    return {"api": "Fetch", "topic": TOPIC, **given}


def in_words(records: list[str], errors: list[str], took: str = "") -> str:
    """Returns what a consumer delivered, and what it said about it first."""
    damaged = [value for value in records if value not in VALUES]
    if damaged:
        what = "delivers the damaged record"
    elif len(set(records)) < len(VALUES):
        what = f"{len(set(records))} of 10 records" if records else "no record"
    elif len(records) > len(VALUES):
        what = f"all records, {len(records) - len(VALUES)} of them twice"
    else:
        what = "all records"
    if errors:
        if len(set(records)) < len(VALUES):
            return f"{' and '.join(errors)}, {what}"
        return f"{' and '.join(errors)}, then {what}{took}"
    return f"{what}{took}" if records else f"no error and no record within {SECONDS:.0f} s"


@dataclass(frozen=True)
class Reads:
    """Reads ten records, which are one batch."""

    faults: tuple[Given, ...]
    settings: Given = field(default_factory=dict)
    for_ever: bool = False
    """True if the faults stay, so that the rest may never come."""

    def __call__(self, cell: Cell) -> str:
        cell.seed(*VALUES)
        faults = [cell.fault(**given) for given in self.faults]
        opened = cell.consumer(**self.settings)
        if opened.error is not None:
            return named(opened.error)
        began = cell.seconds()
        if self.for_ever:
            if cell.wait(lambda: bool(cell.errors() or cell.records()), SECONDS):
                cell.wait(lambda: len(cell.records()) >= len(VALUES), MORE_SECONDS)
        else:
            cell.wait(lambda: self._has_all(cell) or bool(cell.errors()), SECONDS)
            cell.wait(lambda: self._has_all(cell), RECOVERY_SECONDS if cell.errors() else 0)
        took = cell.seconds() - began
        if not self.for_ever and not self._has_all(cell):
            return self._after_the_gap(cell)
        if not any(fault.hits for fault in faults):
            return "does not ask"
        return in_words(cell.records(), cell.errors(), "" if self.for_ever else after(took))

    @staticmethod
    def _has_all(cell: Cell) -> bool:
        return len(set(cell.records())) >= len(VALUES)

    @staticmethod
    def _after_the_gap(cell: Cell) -> str:
        """Says whether a consumer that did not deliver everything goes on with what comes later."""
        cell.seed(LATER)
        if not cell.wait(lambda: LATER in cell.records(), QUIET_SECONDS):
            nothing = "reads nothing more" if cell.errors() else f"no error and no record within {SECONDS:.0f} s"
            return ", ".join([*cell.errors(), nothing])
        missing = len(VALUES) - len(set(cell.records()) & set(VALUES))
        return ", ".join([*cell.errors(), f"leaves out {missing} records and goes on"])


def out_of_range(cell: Cell) -> str:
    """Tells a consumer in the middle of its reading that its offset is gone."""
    cell.seed(*VALUES)
    fault = cell.fault(error="OFFSET_OUT_OF_RANGE", **fetch())
    listed = cell.count(api="ListOffsets", topic=TOPIC)
    cell.consumer()
    fault.wait(1, SECONDS)
    with_error = cell.wait(lambda: bool(cell.errors()) or bool(cell.records()), 2.0)
    if listed.hits or not with_error:
        cell.seed(LATER)
        cell.wait(lambda: LATER in cell.records(), QUIET_SECONDS)
    records, errors = cell.records(), cell.errors()
    if LATER in records:
        what = "goes on at the end, without the 10 records" if len(records) == 1 else "reads all from the start"
    else:
        what = "reads all from the start" if records else "stops"
    return ", ".join([*errors, what])
