"""The outcome of a run of the checker outside: one line for people, and the history for whoever wants to look closer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from compat_tests.anomalies.history import Event
from compat_tests.anomalies.records import Anomaly


@dataclass(slots=True)
class Outcome:
    """The outcome of a run."""

    seed: int
    found: list[Anomaly]
    events: list[Event] = field(repr=False)
    done: Counter[tuple[str, str]]
    """(what was done, its outcome) -> how often."""
    broken: Counter[str]
    lives: int
    ended_by_itself: int
    replaced: int
    seconds: float
    borne_with: tuple[str, ...] = ()
    """The descriptions of what was not as it should be, but is the clients' doing and so not counted as an anomaly."""

    @property
    def names(self) -> set[str]:
        return {anomaly.name for anomaly in self.found}

    @property
    def counts(self) -> dict[str, int]:
        """Returns how much was done with success, and how much was wrong, for the ledger of proofs."""
        done = {"sends": "send", "transactions": "txn", "commits": "commit", "polls": "poll"}
        return {"lives": self.lives, **{name: self.done[f, "ok"] for name, f in done.items()}, "anomalies": len(self.found)}

    def lines(self) -> Iterator[str]:
        """Yields the history, an event a line, for `python -m compat_tests.anomalies.checker`."""
        for event in self.events:
            yield json.dumps(event, separators=(",", ":"))

    def __str__(self) -> str:
        broken = ", ".join(f"{count} {kind}" for kind, count in sorted(self.broken.items())) or "nothing"
        done = ", ".join(
            f"{self.done[f, 'ok']} {name}"
            + (f" ({self.done[f, 'fail']} not, {self.done[f, 'info']} unknown)" if brackets else "")
            for f, name, brackets in (
                ("send", "sends", True),
                ("txn", "transactions", True),
                ("commit", "commits", True),
                ("committed", "committed", False),
                ("poll", "polls", False),
            )
        )
        by_name = Counter(anomaly.name for anomaly in self.found)
        found = ", ".join(f"{count} {name}" for name, count in sorted(by_name.items())) or "0 anomalies"
        replaced = "".join(f", {words}" for words in (f"{self.replaced} clients replaced", *self.borne_with))
        itself = f" ({self.ended_by_itself} ended by itself)" if self.ended_by_itself else ""
        return f"seed {self.seed}, {self.seconds:.0f} s: {broken}; {self.lives} lives{itself}{replaced}; {done}; {found}"
