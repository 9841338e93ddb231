"""The record of what the comparison of both brokers has really seen: the ledger behind "every API at every version, a success and
an error".

The raw client enters every whole answer here as it decodes it; `same.normalise` says which of them were taken for a
comparison, and `same.compare` which comparisons held. Only an answer that both brokers gave and that was compared whole counts:
one that a test asked for on the way, or took a single field of, does not.

An answer is an `error` if any error code in it is not 0, else a `success`; `closed` is a connection closed in its place, which
is told apart because it is no error code.

`LEDGER.write(directory)` leaves a file per process, `<pid>.json`: {"seen": [[key, version, outcome], ...], "passed": [test...]}.
scripts/wire_diff_complete.py joins them and says what is missing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.wire.primitives import WireStruct

SUCCESS: Final = "success"
ERROR: Final = "error"
CLOSED_INSTEAD: Final = "closed"
DIRECTORY_VARIABLE: Final = "OTTLA_WIRE_DIFF_SEEN"


class Case(NamedTuple):
    key: int
    version: int
    outcome: str


def has_error(answer: Any) -> bool:
    if isinstance(answer, WireStruct):
        return any(
            value != 0 if name.endswith("error_code") else has_error(value)
            for name in answer.__slots__
            if (value := getattr(answer, name)) is not None
        )
    return isinstance(answer, list) and any(has_error(each) for each in answer)


class Ledger:
    """Of one process. Answers are known by identity, and kept alive as long as a test runs, so that no identity is used twice."""

    def __init__(self) -> None:
        self._answers: dict[int, tuple[Any, str, Case]] = {}
        self._taken: dict[str, set[Case]] = {}
        self.seen: set[Case] = set()
        self.passed: set[str] = set()

    def answered(self, kind: str, key: int, version: int, answer: Any) -> None:
        outcome = CLOSED_INSTEAD if isinstance(answer, str) else ERROR if has_error(answer) else SUCCESS
        self._answers[id(answer)] = (answer, kind, Case(key, version, outcome))

    def taken(self, answer: Any) -> None:
        """This object goes into a comparison; nothing happens if it is no whole answer."""
        if found := self._answers.get(id(answer)):
            self._taken.setdefault(found[1], set()).add(found[2])

    def held(self) -> None:
        """A comparison of what was taken succeeded: what two kinds of broker gave is seen."""
        if len(self._taken) > 1:
            self.seen |= set.intersection(*self._taken.values())

    def next_test(self) -> None:
        self._answers.clear()
        self._taken.clear()

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        content = {"seen": sorted(self.seen), "passed": sorted(self.passed)}
        (directory / f"{os.getpid()}.json").write_text(json.dumps(content))


LEDGER: Final = Ledger()
