#!/usr/bin/env python3
"""Runs Kafka's own integration tests against ottla and against Apache Kafka 4.4.0, and keeps what became of them.

    python scripts/kafka_tests.py                        all, against both: some hours on two cores
    python scripts/kafka_tests.py --set clients --kind ottla --jobs 2
    python scripts/kafka_tests.py --only ShareConsumer   classes whose name matches
    python scripts/kafka_tests.py --again failed         only the cases that failed with that kind; `missing`: that were not run
    python scripts/kafka_tests.py --summary              the figures

Results are merged into compat_tests/kafka_tests/results.json (see results.py there) after every batch of classes, so a run may be
stopped and continued with `--again missing`. Exit code 1 when ottla fails a case that Kafka passes.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from compat_tests.kafka_tests import results, runner  # noqa: E402

CASE_TIMEOUT_S = 90
"""For the whole of a class: this for each case that is known, and some for those that are not."""


def picked(arguments: argparse.Namespace, rows: list[results.Row], kind: str) -> dict[str, list[str] | None]:
    """Class -> its cases to run, None for all of them."""
    names = [name for part in arguments.set for name in results.classes(part) if re.search(arguments.only, name)]
    if arguments.again is None:
        return dict.fromkeys(names)
    other = "kafka" if kind == "ottla" else "ottla"
    chosen: dict[str, list[str] | None] = {}
    for name in names:
        known = [row for row in rows if row["class"] == name and row["case"]]
        if arguments.again == "failed":
            cases = [row["case"] for row in known if row[kind] == "failed"]
        elif arguments.again == "disputed":
            cases = [row["case"] for row in known if row[other] == "failed" and row[kind] is None]
        else:
            cases = [row["case"] for row in known if row[kind] is None]
            if not known:
                chosen[name] = None
        if cases:
            chosen[name] = cases
    return chosen


def run_class(kind: str, name: str, cases: list[str] | None, directory: Path) -> list[runner.Case]:
    named = None if cases is None else [f"{name}#{case}" for case in cases]
    place = directory / f"{kind}-{name.rpartition('.')[2]}"
    timeout_s = CASE_TIMEOUT_S * (len(cases) if cases else 120)
    return runner.run(kind, [name], place, cases=named, timeout_s=timeout_s, keep_logs=True)


def summary(rows: list[results.Row]) -> int:
    """Prints the figures; how many of the denominator ottla does not pass."""
    wanted = [row for row in rows if results.wanted(row)]
    print(f"{len(rows)} cases; with Apache Kafka: {dict(Counter(str(row['kafka']) for row in rows))}")
    print(f"of the {len(wanted)} that Kafka passes, with ottla: {dict(Counter(str(row['ottla']) for row in wanted))}")
    wrong = [row for row in wanted if row["ottla"] == "failed"]
    for row in wrong:
        print(f"  {row['class']}#{row['case']}: {row['reason']}")
    return len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", choices=list(results.SETS), default=[])
    parser.add_argument("--kind", choices=["ottla", "kafka"], action="append", default=[])
    parser.add_argument("--only", default="", help="a pattern for classes' names")
    parser.add_argument("--again", choices=["failed", "missing", "disputed"], help="disputed: what failed with the other kind")
    parser.add_argument("--jobs", type=int, default=1, help="JVMs at a time")
    parser.add_argument("--keep", type=Path, help="a directory for logs; without it they are removed")
    parser.add_argument("--results", type=Path, default=results.RESULTS)
    parser.add_argument("--summary", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    arguments.set = arguments.set or list(results.SETS)
    rows = results.load(arguments.results)
    if arguments.summary:
        return min(1, summary(rows))
    with tempfile.TemporaryDirectory(prefix="kafka-tests-run-") as temporary, ThreadPoolExecutor(arguments.jobs) as pool:
        directory = arguments.keep or Path(temporary)
        waiting = {}
        for kind in arguments.kind or ["ottla", "kafka"]:
            for name, cases in picked(arguments, rows, kind).items():
                waiting[pool.submit(run_class, kind, name, cases, directory)] = (kind, name)
        for done in as_completed(waiting):
            kind, name = waiting[done]
            found = done.result()
            rows = results.merged(results.load(arguments.results), kind, found)
            results.save(rows, arguments.results)
            print(kind, name.rpartition(".")[2], dict(Counter(case.result for case in found)), flush=True)
    return min(1, summary(rows))


if __name__ == "__main__":
    sys.exit(main())
