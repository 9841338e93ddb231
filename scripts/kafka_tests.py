"""Runs Kafka's own integration tests against ottla and against Apache Kafka 4.4.0, and keeps what became of them.

    python -m scripts.kafka_tests                        all, against both: some hours on two cores
    python -m scripts.kafka_tests --set clients --kind ottla --jobs 2
    python -m scripts.kafka_tests --only ShareConsumer   classes whose name matches
    python -m scripts.kafka_tests --again failed         only the cases that failed with that kind; `missing`: that were not run
    python -m scripts.kafka_tests --several              with as many brokers as each case asks for: those that fail with one
    python -m scripts.kafka_tests --summary              the figures

Results are merged into compat_tests/kafka_tests/results.json (see results.py there) as each case ends, so a run may be killed and
continued with `--again missing`; only of a class of which no case is known yet all is kept at its end, for what is known of it is
what such a run goes by. The quick ones come first; those that the other kind failed last, for most of these wait for brokers that
they do not get.

These tests have timeouts meant for machines with more cores: a case that fails is tried again in a JVM of its own, unless the
other kind failed it too, and only the second failure is kept. A case that does not end in its time is told, and stays missing.

Exit code 1 when ottla fails a case that Kafka passes.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from compat_tests.kafka_tests import results, runner

CASE_TIMEOUT_S = 90
"""For the whole of a JVM: this for each of its cases, or twice as long as they took last."""
CASES_UNKNOWN = 120
"""As many are allowed for in a class of which none is known."""
OTHER = {"ottla": "kafka", "kafka": "ottla"}


@dataclass(frozen=True)
class Batch:
    """Cases of a class for one JVM; all, None, where they are not known."""

    name: str
    cases: tuple[str, ...] | None
    failed_elsewhere: bool = False
    seconds_each: float = 0.0

    @property
    def timeout_s(self) -> float:
        if self.cases is None:
            return CASE_TIMEOUT_S * CASES_UNKNOWN
        return max(CASE_TIMEOUT_S, 2 * self.seconds_each) * len(self.cases)


def of_several(arguments: argparse.Namespace, rows: list[results.Row], kind: str) -> list[Batch]:
    """Returns what to run with several brokers: what is asked for again of `rows`, or all that fails with one broker."""
    known = {(row["class"], row["case"]): row[kind] for row in rows}
    wanted = {"failed": ("failed",), "missing": (None,)}.get(arguments.again, (None, "passed", "failed", "excluded"))
    by_class: dict[str, list[str]] = defaultdict(list)
    for row in results.of_several(results.load()):
        if re.search(arguments.only, row["class"]) and known.get((row["class"], row["case"])) in wanted:
            by_class[row["class"]].append(row["case"])
    return [Batch(name, tuple(cases)) for name, cases in by_class.items()]


def picked(arguments: argparse.Namespace, rows: list[results.Row], kind: str) -> list[Batch]:
    """Returns what to run, the cheapest first."""
    if arguments.several:
        return of_several(arguments, rows, kind)
    names = [name for part in arguments.set for name in results.classes(part) if re.search(arguments.only, name)]
    other = OTHER[kind]
    batches = []
    for name in names:
        known = [row for row in rows if row["class"] == name and row["case"]]
        if arguments.again is None or (arguments.again == "missing" and not known):
            batches.append(Batch(name, None))
            continue
        if arguments.again == "failed":
            chosen = [row for row in known if row[kind] == "failed"]
        elif arguments.again == "disputed":
            chosen = [row for row in known if row[other] == "failed" and row[kind] is None]
        else:
            chosen = [row for row in known if row[kind] is None]
        for failed in (False, True):
            cases = [row for row in chosen if (row[other] == "failed") == failed]
            if cases:
                seconds = sum(row["seconds"] for row in cases) / len(cases)
                batches.append(Batch(name, tuple(row["case"] for row in cases), failed, seconds))
    return sorted(batches, key=lambda batch: (batch.cases is None, batch.failed_elsewhere, batch.seconds_each))


def run_batch(kind: str, batch: Batch, directory: Path, kept: Path) -> list[runner.Case]:
    """Returns what became of a batch, which is in the file then; a case with two failures has the second."""
    place = directory / f"{kind}-{batch.name.rpartition('.')[2]}{'-failed' if batch.failed_elsewhere else ''}"
    told = {(row["class"], row["case"]): row[OTHER[kind]] for row in results.load(kept)}

    def doubted(case: runner.Case) -> bool:
        return case.result == "failed" and told.get((case.owner, case.case)) != "failed"

    def keep(case: runner.Case) -> None:
        if batch.cases is not None and not doubted(case):
            results.keep(kind, [case], kept)

    named = None if batch.cases is None else [f"{batch.name}#{case}" for case in batch.cases]
    several = kept.name == results.SEVERAL.name
    first = runner.run(
        kind, [batch.name], place, cases=named, several=several, timeout_s=batch.timeout_s, keep_logs=True, told=keep
    )
    found = {case.name: case for case in first}
    again = [case.name for case in first if doubted(case) and case.case]
    if again:
        timeout_s = CASE_TIMEOUT_S * len(again)
        second = runner.run(
            kind, [batch.name], Path(f"{place}-again"), cases=again, several=several, timeout_s=timeout_s, keep_logs=True
        )
        found = {name: case for name, case in found.items() if name not in again} | {case.name: case for case in second}
    results.keep(kind, found.values(), kept)
    for name in sorted({*(named or ()), *again} - found.keys()):
        print(f"{kind} {name} did not end in its time", flush=True)
    return list(found.values())


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
    parser.add_argument("--several", action="store_true", help="of brokers, as many as each case asks for; several.json")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--summary", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    arguments.set = arguments.set or list(results.SETS)
    arguments.results = arguments.results or (results.SEVERAL if arguments.several else results.RESULTS)
    rows = results.load(arguments.results)
    if arguments.summary:
        return min(1, summary(rows))
    with tempfile.TemporaryDirectory(prefix="kafka-tests-run-") as temporary, ThreadPoolExecutor(arguments.jobs) as pool:
        directory = arguments.keep or Path(temporary)
        waiting = {}
        for kind in arguments.kind or ["ottla", "kafka"]:
            for batch in picked(arguments, rows, kind):
                waiting[pool.submit(run_batch, kind, batch, directory, arguments.results)] = (kind, batch.name)
        for done in as_completed(waiting):
            kind, name = waiting[done]
            print(kind, name.rpartition(".")[2], dict(Counter(case.result for case in done.result())), flush=True)
    return min(1, summary(results.load(arguments.results)))


if __name__ == "__main__":
    sys.exit(main())
