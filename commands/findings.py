"""What `ottla log verify` finds and `ottla log repair` mends: one place in one file, what it means, and what would help.

| meaning | |
|---|---|
| `note` | worth knowing, nothing is wrong: the directory still counts as clean |
| `rebuildable` | a file that is derived from the log is wrong; the log has all that it takes |
| `leftover` | a file that an interrupted step left behind; a broker removes it when it starts |
| `torn tail` | bytes at the end that a crash left half written; none of them was synced, a broker cuts them off when it starts |
| `corruption` | bytes that were synced are not what was written: they are lost here, and a broker keeps the partition offline |
| `identity` | files that say whose the data is cannot be read, or contradict each other |
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple


class Meaning(StrEnum):
    """The table above."""

    NOTE = "note"
    REBUILDABLE = "rebuildable"
    LEFTOVER = "leftover"
    TORN = "torn tail"
    CORRUPT = "corruption"
    IDENTITY = "identity"


class Mend(StrEnum):
    """What a repair does about it; the values are how a finding says so."""

    NONE = "-"
    START = "the next start of a broker does it"
    COPY = "restore it from a copy"
    BY_HAND = "look at it; repair leaves it alone"
    REMOVE = "repair removes it"
    INDEXES = "repair builds the segment's indexes anew"
    EPOCHS = "repair writes it anew from the batches"
    METADATA = "repair writes it anew from the metadata log"
    LINES = "repair writes it anew for the logs that are there"
    CUT = "repair cuts it off"
    CHOICE = "restore it from a copy, or repair with --cut or --skip"


class Finding(NamedTuple):
    """`position` is in bytes of the file, None where the whole file is meant."""

    path: str
    position: int | None
    what: str
    meaning: Meaning
    mend: Mend

    def line(self) -> str:
        place = self.path if self.position is None else f"{self.path}: position {self.position}"
        end = "" if self.mend is Mend.NONE else f"; {self.mend}"
        return f"{place}: {self.meaning}: {self.what}{end}"

    def fields(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "file": self.path,
            "position": self.position,
            "what": self.what,
            "meaning": str(self.meaning),
            "mend": None if self.mend is Mend.NONE else str(self.mend),
        }
