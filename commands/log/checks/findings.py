"""A finding of `ottla log verify`, which `ottla log repair` repairs: a place in a file, what is wrong there, and the remedy.

| meaning | |
|---|---|
| `note` | worth knowing, but nothing is wrong: the directory still counts as clean |
| `rebuildable` | a file that is derived from the log is wrong, and can be rebuilt from it |
| `leftover` | a file that an interrupted step left behind; a broker removes it when it starts |
| `torn tail` | bytes at the end that a crash left half written, none of them synced; a broker cuts them off when it starts |
| `corruption` | bytes that were synced have changed: their content is lost here, and a broker keeps the partition offline |
| `identity` | files that say whose the data is cannot be read, or contradict each other |
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple


class Meaning(StrEnum):
    """The meaning of a finding; the module docstring explains the values."""

    NOTE = "note"
    REBUILDABLE = "rebuildable"
    LEFTOVER = "leftover"
    TORN = "torn tail"
    CORRUPT = "corruption"
    IDENTITY = "identity"


class Remedy(StrEnum):
    """The remedy for a finding, in the words that the user sees."""

    NONE = "-"
    START = "the next start of a broker takes care of it"
    COPY = "restore it from a copy"
    BY_HAND = "check it yourself; repair leaves it alone"
    KEPT = "log dump --records shows it, repair --restore puts it back if nothing was written since"
    REMOVE = "repair removes it"
    INDEXES = "repair rebuilds the indexes of the segment"
    EPOCHS = "repair rewrites it from the batches"
    METADATA = "repair rewrites it from the metadata log"
    LINES = "repair rewrites it for the logs that exist"
    ASIDE = "repair sets it aside, for an older snapshot and the log hold the same"
    CUT = "repair cuts it off"
    CHOICE = "restore it from a copy, or repair with --cut or --skip"


class Finding(NamedTuple):
    """One finding. `position` is in bytes of the file, None if it concerns the whole file."""

    path: str
    position: int | None
    what: str
    meaning: Meaning
    remedy: Remedy

    def line(self) -> str:
        place = self.path if self.position is None else f"{self.path}: position {self.position}"
        end = "" if self.remedy is Remedy.NONE else f"; {self.remedy}"
        return f"{place}: {self.meaning}: {self.what}{end}"

    def fields(self) -> dict[str, Any]:
        """Returns the finding as a JSON object."""
        return {
            "file": self.path,
            "position": self.position,
            "what": self.what,
            "meaning": str(self.meaning),
            "remedy": None if self.remedy is Remedy.NONE else str(self.remedy),
        }
