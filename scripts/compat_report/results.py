"""The results that the suites left behind, part by part; a part that was not run is None, and the report says so.

In the folder of a run (build/compat):

    *.xml              pytest's --junitxml of compat_tests: a later file's verdict on a test counts (a second try, alone), and
                       what failed before it is kept as `Results.second_tries`
    *.run.json         beside each, when it ran, of which source, and what it left out (compat_tests/forms.py)
    wire_diff/*.json   ledgers of what was compared (compat_tests/seen.py, OTTLA_WIRE_DIFF_SEEN)

    wire_diff.json     scripts/wire_diff_complete.py --write: {"compared", "missing", "rows", "rows_not_passed", ...}

There or, of the long forms that CI does not run, as they were kept in compat_tests/results:

    random_walk.json   scripts/random_walk.py --write: {"seed", "requests", "sessions", "differences", ...}
    breaks.json        scripts/breaks.py --write: {"control", "breaks": [{"name", "promise", "caught", "by", ...}]}

    aiokafka.json      compat_tests/suites/aiokafka.py: {"version", "cases": {case: {"ottla", "kafka"}}}, from a checkout

The last three have "ran" as well: {"date", "commit"} of the run that wrote them (compat_tests/provenance.py), or the date alone.

Kafka's own tests keep theirs in compat_tests/kafka_tests/results.json (results.py there), a row per case; those that ran with
several brokers have them in several.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from compat_tests.provenance import UNKNOWN, day_of

KINDS: Final = ("ottla", "kafka")
_COMPAT: Final = Path(__file__).resolve().parents[2] / "compat_tests"
KEPT: Final = _COMPAT / "results"
KAFKA_TESTS: Final = _COMPAT / "kafka_tests" / "results.json"
SEVERAL: Final = "several.json"
"""Beside it."""
_LONGEST: Final = 200
PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
SECOND_TRY: Final = "second_try"
"""The property by which a test says what it had to try twice."""


@dataclass(frozen=True)
class Test:
    """A case of compat_tests. `kind`: the broker it ran against, "" where it speaks to both at once or to none."""

    file: str  # test_go.py, wire_diff/test_fetch.py
    name: str  # TestFranz::test_every_codec[ottla]
    kind: str
    outcome: str
    seconds: float

    @property
    def plain(self) -> str:
        """Returns the name without parameters."""
        return self.name.partition("[")[0]


@dataclass(frozen=True)
class SecondTry:
    """A test that failed at first and was run again, alone: `test` has the verdict that counts, `failure` is the first line of
    why it failed. Or one that says, by the property SECOND_TRY, that it tried something twice."""

    test: Test
    failure: str


@dataclass(frozen=True)
class Results:
    tests: tuple[Test, ...]
    second_tries: tuple[SecondTry, ...]
    compared: frozenset[tuple[int, int, str]] | None
    wire_diff: dict[str, Any] | None
    random_walk: dict[str, Any] | None
    breaks: dict[str, Any] | None
    aiokafka: dict[str, Any] | None
    kafka_tests: list[dict[str, Any]] | None
    several: list[dict[str, Any]] | None
    """Those of Kafka's own tests that need several brokers, run with as many."""
    left_out: dict[str, str]
    """Tests that the suite did not run in this form, by pytest's names, and why."""
    origins: dict[str, str]
    """The day and commit of each part, in words, by "suite" or the name of a field above. What was not run has none."""

    def of(self, kind: str, *, below: str = "") -> list[Test]:
        return [test for test in self.tests if test.kind == kind and test.file.startswith(below)]


def kind_of(parameters: str) -> str:
    """Returns the kind of broker in a name such as "ottla-hard" or "java-kafka"."""
    found = [part for part in parameters.split("-") if part in KINDS]
    return found[0] if found else ""


def read(folder: Path, kept: Path = KEPT, kafka_tests: Path = KAFKA_TESTS) -> Results:
    """Returns what is there. A file that is no JSON, or no XML, is an error of whoever wrote it, and raised."""
    origins: dict[str, str] = {}

    def figures(name: str) -> Any:
        file = next((place / name for place in (folder, kept) if (place / name).exists()), None)
        content = None if file is None else json.loads(file.read_text())
        if file is not None and content:
            ran = content.get("ran")
            origins[file.stem] = _when(ran) if ran else f"kept since {day_of(file)}"
        return content

    found: dict[tuple[str, str], Test] = {}
    failures: dict[tuple[str, str], str] = {}
    again: dict[tuple[str, str], SecondTry] = {}
    reports = sorted(folder.glob("*.xml"), key=lambda file: file.stat().st_mtime)
    for file in reports:
        for test, failure, own in _junit(file):
            place = test.file, test.name
            if place in failures:
                again[place] = SecondTry(test, failures[place])
            elif own is not None:
                again[place] = SecondTry(test, own)
            if failure is not None:
                failures.setdefault(place, failure)
            found[place] = test
    ledgers = sorted((folder / "wire_diff").glob("*.json"))
    runs = [json.loads(file.read_text()) for file in sorted(folder.glob("*.run.json"))]
    if reports:
        origins["suite"] = "; ".join(sorted({_when(run) for run in runs})) or f"{day_of(reports[-1])}, {UNKNOWN} commit"
    several = kafka_tests.with_name(SEVERAL)
    for name, file in (("kafka_tests", kafka_tests), ("several", several)):
        if file.exists():
            last = _json(file.with_suffix(".run.json"))
            origins[name] = f"merged from several runs, the last on {last['date'] if last else day_of(file)}"
    return Results(
        tuple(found.values()),
        tuple(again.values()),
        frozenset(tuple(seen) for file in ledgers for seen in json.loads(file.read_text())["seen"]) if ledgers else None,
        _json(folder / "wire_diff.json"),
        figures("random_walk.json"),
        figures("breaks.json"),
        figures("aiokafka.json"),
        _json(kafka_tests),
        _json(several),
        {test: why for run in runs for test, why in run["left_out"].items()},
        origins,
    )


def _when(ran: dict[str, Any]) -> str:
    return f"{ran['date']} at {ran['commit']}" if "commit" in ran else str(ran["date"])


def _json(file: Path) -> Any:
    return json.loads(file.read_text()) if file.exists() else None


def _junit(file: Path) -> Iterable[tuple[Test, str | None, str | None]]:
    """Yields the tests of a file, each with the first line of its failure, None if it did not fail, and with what it tried twice
    by itself, None if nothing."""
    for case in ElementTree.parse(file).iter("testcase"):
        module, _, owner = case.get("classname", "").removeprefix("compat_tests.").partition(".Test")
        name = case.get("name", "")
        parameters = name.partition("[")[2].removesuffix("]")
        test = Test(
            module.replace(".", "/") + ".py",
            f"Test{owner}::{name}" if owner else name,
            kind_of(parameters),
            _outcome(case),
            float(case.get("time", 0)),
        )
        own = case.find(f"properties/property[@name='{SECOND_TRY}']")
        yield test, _failure(case) if test.outcome == FAILED else None, None if own is None else own.get("value")


def _outcome(case: ElementTree.Element) -> str:
    tags = {child.tag for child in case}
    return FAILED if tags & {"failure", "error"} else SKIPPED if "skipped" in tags else PASSED


def _failure(case: ElementTree.Element) -> str:
    """Returns the first line of why a test failed, cut to _LONGEST."""
    said = next(child.get("message") or child.text or "" for child in case if child.tag in ("failure", "error"))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0][:_LONGEST] if lines else "no message"
