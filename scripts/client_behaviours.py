"""Runs the scenarios of compat_tests/behaviours with six clients, and writes what each does to docs/client-behaviours.md.

    python -m scripts.client_behaviours                    all of it, each cell three times: about ten minutes
    python -m scripts.client_behaviours --only crc,fenced  these rows; the others stay, and the clients must be theirs
    python -m scripts.client_behaviours --page             the page alone, from docs/client-behaviours.json
    python -m scripts.client_behaviours --check            writes nothing, and fails if the page is out of date

The clients are built and fetched as for the compat tests, whose environment this needs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from compat_tests.behaviours.clients import CLIENTS
from compat_tests.behaviours.scenarios import SCENARIOS, SECTIONS
from compat_tests.behaviours.suite import MISSING, VARIES, one_text, run_all
from compat_tests.provenance import stamp
from scripts import written_pages

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "docs" / "client-behaviours.json"
PAGE: Final = ROOT / "docs" / "client-behaviours.md"
TIMES: Final = 3
Found = dict[str, Any]
"""{"date", "versions": by client, "cells": texts by scenario and client}"""

HEAD: Final = """\
# What clients do under faults

Six clients, a broker that misbehaves on purpose ([the test kit](testkit.md)), and what came of it: what the application learned,
what was in the log in the end, how many requests it took. These are observations, not judgments, made on {date} with

{versions}

`python -m scripts.client_behaviours` makes them again and writes this page, from the scenarios in `compat_tests/behaviours/`. A
test repeats some rows and compares.

- For each cell, there were a broker and a client of its own, three times. "{varies}" means that the three did not agree.
- Settings are the client's defaults, and a fault comes once, unless the row says otherwise.
- Errors have the names that the client gives them. Requests are those that the fault is for, the refused ones included. Times are
  coarse, and left out below 2 s.
- "{missing}" means that the client has nothing that the row is about; "does not ask", that it never sent such a request.
- Producers send one record to one partition. If the fault is not at the start, it comes after another record that met none.
  "Delivered" is what the application learned; the number of records is what the log has.
- Consumers read ten records, which are one batch, from offset 0. "Leaves out" means that the application never got them, though
  it got what was written later.
- Members of groups have heartbeats every 200 ms and sessions of 6 s, so that nobody has to wait for them.
- Applications poll on after an error. A consumer that an error has ended (`Consume` of sarama returns, `run` of kafkajs stops) is
  not started again.
- sarama has `Consumer.Return.Errors`, because otherwise errors are only logged.
- Sends of sarama and kafkajs wait for their answers, so a transaction is aborted if one fails. With the others, the commit is
  tried in spite of it, as by an application that does not look.
"""


def page(found: Found) -> str:
    """Returns the page's text."""
    versions = "\n".join(f"- {client.name} {found['versions'][client.name]}" for client in CLIENTS)
    head = HEAD.format(date=found["date"], versions=versions, missing=MISSING, varies=VARIES.strip().rstrip(":"))
    lines = [head]
    for title, scenarios in SECTIONS.items():
        lines += [f"## {title}", "", "| | " + " | ".join(client.name for client in CLIENTS) + " |"]
        lines.append("|---" * (len(CLIENTS) + 1) + "|")
        for scenario in scenarios:
            cells = found["cells"][scenario.key]
            lines.append(" | ".join([f"| {scenario.title}", *(cells[client.name] for client in CLIENTS)]) + " |")
        lines.append("")
    return "\n".join(lines)


def refuse_other_versions(of_page: dict[str, str], present: dict[str, str]) -> None:
    """Raises ValueError if some rows would be about other versions of the clients than the rest of the page."""
    if changed := [f"{name} {present[name]}, not {version}" for name, version in of_page.items() if present[name] != version]:
        raise ValueError(f"--only: here is {', '.join(changed)}, which the other rows are about; run all rows")


def measure(keys: list[str] | None, times: int) -> Found:
    """Runs scenarios, all of them if none are named, and returns what is to be written. ValueError if there is no such row, or if
    the other rows are about other versions of the clients."""
    if unknown := sorted(set(keys or ()) - {scenario.key for scenario in SCENARIOS}):
        raise ValueError(f"--only: there is no row {', '.join(unknown)}; the keys are in {RESULTS.relative_to(ROOT)}")
    scenarios = [scenario for scenario in SCENARIOS if keys is None or scenario.key in keys]
    before: Found = json.loads(RESULTS.read_text()) if keys is not None else {"cells": {}}
    date = stamp()["date"]
    with tempfile.TemporaryDirectory(prefix="ottla-behaviours-") as directory:
        if keys is not None:
            _, present = run_all(Path(directory), [])
            refuse_other_versions(before["versions"], present)
        seen, versions = run_all(
            Path(directory), scenarios, times=times, told=lambda key, client, text: print(f"{client} {key}: {text}", flush=True)
        )
    new: dict[str, dict[str, str]] = {}
    for (key, client), texts in seen.items():
        new.setdefault(key, {})[client] = one_text(texts)
    cells = before["cells"] | new
    return {
        "date": date,
        "versions": {client.name: versions[client.name] for client in CLIENTS},
        "cells": {scenario.key: {client.name: cells[scenario.key][client.name] for client in CLIENTS} for scenario in SCENARIOS},
    }


def pages() -> dict[Path, str]:
    """Returns the file with its text."""
    return {PAGE: page(json.loads(RESULTS.read_text()))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="ROW,ROW")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if not given.page and not given.check:
        try:
            found = measure(given.only.split(",") if given.only else None, given.times)
        except ValueError as error:
            parser.error(str(error))
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    return written_pages.write_or_check(pages(), check=given.check)


if __name__ == "__main__":
    sys.exit(main())
