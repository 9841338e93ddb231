"""What ottla makes the tools say otherwise, on purpose. Refusals that tools print are in Kafka's words; what is left stands here.

A row is replaced by its name on both sides: so the place, the error's class and the exit code are compared all the same. A row
that one side never says is a failure of its own (test_tools.py).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Difference(NamedTuple):
    """Regular expressions, each up to the end of the line as a rule."""

    name: str
    kafkas: str
    ours: str


DIFFERENCES: Final[tuple[Difference, ...]] = ()


class Used:
    """Which rows were said, in a run of all scripts."""

    def __init__(self) -> None:
        self.rows: dict[str, set[Difference]] = {"kafka": set(), "ottla": set()}

    def missing(self) -> list[str]:
        """Rows that a side never said."""
        return [f"{row.name}, {kind}" for kind, said in self.rows.items() for row in DIFFERENCES if row not in said]


USED: Final = Used()


def alike(kind: str, text: str) -> str:
    """What a broker of this kind made a tool say, with the names of the rows."""
    for row in DIFFERENCES:
        text, count = re.subn(row.kafkas if kind == "kafka" else row.ours, f"<{row.name}>", text)
        if count:
            USED.rows[kind].add(row)
    return text
