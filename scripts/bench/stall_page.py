"""Writes docs/stalls.md from docs/stalls.json, in which the stall bench (stalls.py) keeps what it saw.

python -m scripts.bench.stall_page
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path
from tempfile import gettempdir
from textwrap import fill
from typing import Any, Final, NamedTuple

from scripts.written_pages import main

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
FIGURES: Final = DOCS / "stalls.json"
PAGE: Final = DOCS / "stalls.md"
KINDS: Final = {"ottla": "ottla", "kafka": "Apache Kafka 4.4.0"}
WIDTH: Final = 130
BUSY: Final = 1.0
"""A machine with so much load for each processor is busy."""
NO_ATTACK: Final = "nothing"
"""The row of what a neighbour waits while nobody attacks."""


class Seen(NamedTuple):
    """The effects of one attack on one broker. Waits are the neighbour's longest: without, and with, the time in which it or the
    broker was ready but had no processor."""

    wait_ms: float
    whole_wait_ms: float
    took_s: float
    peak_mib: float
    outcome: str

    def cell(self) -> str:
        outcome = f", {self.outcome}" if self.outcome else ""
        return f"{self.wait_ms:,.0f} ms | {max(0.0, self.peak_mib):,.0f} MiB | {self.took_s:,.1f} s{outcome}"


def add_rows(kind: str, rows: dict[str, Seen]) -> None:
    """Keeps what was seen of brokers of one kind, in place of older rows of the same names, and writes the page."""
    found: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"rows": {}}
    found["machine"] = {"cpus": os.cpu_count(), "disk": _disk(), "day": datetime.datetime.now(datetime.UTC).date().isoformat()}
    for name, seen in rows.items():
        around = {"load": round(os.getloadavg()[0], 1), "nice": os.nice(0)}
        found["rows"].setdefault(name, {})[kind] = {**seen._asdict(), **around}
    FIGURES.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(page(found))


INTRODUCTION: Final = """\
# Stalls

How long one stranger's requests keep everybody else waiting, and how much memory they take, on ottla and on Apache Kafka, both
with their default settings. While the requests are served, another client asks ApiVersions every two milliseconds. Its longest
wait is in the first column of each broker, then how much more memory the broker had at its peak than before, and then how long
the requests took and what became of them; where nothing is said, they were answered, if only with errors. A row that ends in "of
10,000" is about a broker that holds so many topics, groups, quotas and users.

The limits that keep these figures small are in [Limits](limits.md). The requests are as large as the limits admit, or as large as
they were when they did much harm, before there were limits. [When not to use ottla](when-not.md) says what one event loop means
for you.

{measured}

This page is written by `scripts/bench/stall_page.py` from docs/stalls.json; `python -m scripts.bench.stalls --docs` measures
anew.
"""


def _disk() -> str:
    return "tmpfs" if gettempdir().startswith("/dev/shm") else "a disk"


def page(found: dict[str, Any]) -> str:
    """Returns the page for the figures."""
    machine, rows = found["machine"], found["rows"]
    loads = [seen["load"] for row in rows.values() for seen in row.values()]
    first = any(seen.get("nice", 0) < 0 for row in rows.values() for seen in row.values())
    how = f"Measured on {machine['day']} on {machine['cpus']} processors, with data directories on {machine['disk']}."
    lines = [INTRODUCTION.format(measured=fill(f"{how} {_load(loads, machine['cpus'], first=first)}", WIDTH))]
    header = "".join(f" {name}: wait | memory | took |" for name in KINDS.values())
    lines += [f"| what a stranger sends |{header}", "|---" * (1 + 3 * len(KINDS)) + "|"]
    for name in sorted(rows, key=lambda name: name != NO_ATTACK):
        cells = [_cell(rows[name].get(kind)) for kind in KINDS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _load(loads: list[float], cpus: int, *, first: bool) -> str:
    if not loads or max(loads) < BUSY * cpus:
        return "The machine had nothing else to do."
    priority = ", which mostly came after this (nice)" if first else ""
    return (
        f"The machine was busy with other work{priority}; its load was between {min(loads):g} and {max(loads):g}. So the time in "
        "which a thread was ready but had no processor is left out of the waits, except where another thread of ottla's held the "
        "interpreter's lock meanwhile; what the requests took is as it was."
    )


def _cell(seen: dict[str, Any] | None) -> str:
    if seen is None:
        return "not measured | |"
    return Seen(*(seen[name] for name in Seen._fields)).cell()


def pages() -> dict[Path, str]:
    """Returns the file with its text."""
    return {PAGE: page(json.loads(FIGURES.read_text()))}


if __name__ == "__main__":
    sys.exit(main(__doc__, pages))
