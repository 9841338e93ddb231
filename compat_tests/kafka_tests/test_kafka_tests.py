"""Kafka's own tests pass, with Apache Kafka and with ottla: what results.json says is in the denominator (results.py).

Of these, and of cases that were not run with Kafka yet, a seeded choice from every class: more with ottla than with Kafka, which
takes long to start. A broker's cases run in one JVM, which the first test of that broker waits for; only those that the run is
about, so that scripts/test's second try is that of the cases that failed. scripts/kafka_tests.py runs them all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from compat_tests.kafka_tests import results, runner

SEED: Final = 7
CASES_A_CLASS: Final = {"ottla": 2, "kafka": 1}
MOST_CASES: Final = {"ottla": 45, "kafka": 12}
SLOW_S: Final = 15.0
"""Longer ones are left to scripts/kafka_tests.py."""
ROWS: Final = results.load()

pytestmark = [pytest.mark.reference, pytest.mark.kafka_tests]


def chosen(kind: str) -> dict[str, list[str]]:
    """Class -> cases of this run."""
    by_class: dict[str, list[str]] = defaultdict(list)
    for row in ROWS:
        if row[kind] == "passed" and row["kafka"] in ("passed", None) and row["seconds"] <= SLOW_S:
            by_class[row["class"]].append(row["case"])
    random = Random(SEED)
    some = [
        (name, case)
        for name, cases in sorted(by_class.items())
        for case in random.sample(cases, min(len(cases), CASES_A_CLASS[kind]))
    ]
    short: dict[str, list[str]] = defaultdict(list)
    for name, case in random.sample(some, min(len(some), MOST_CASES[kind])):
        short[name].append(case)
    return dict(short)


CHOSEN: Final = {kind: chosen(kind) for kind in CASES_A_CLASS}


def full_names(kind: str, names: list[str]) -> list[str]:
    return [f"{name}#{case}" for name in names for case in CHOSEN[kind][name]]


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, runner.Case]]:
    """Returns a function that returns what became of the chosen cases of a kind, of those classes that this run is about."""
    here: list[Any] = [item for item in request.session.items if item.path == Path(__file__)]
    asked = [item.callspec.params for item in here if "name" in item.fixturenames]

    @cache
    def get(kind: str) -> dict[str, runner.Case]:
        classes = sorted(call["name"] for call in asked if call["kind"] == kind)
        directory = tmp_path_factory.mktemp(f"kafka-tests-{kind}")
        return {case.name: case for case in runner.run(kind, classes, directory / "run", cases=full_names(kind, classes))}

    return get


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in CHOSEN for name in sorted(CHOSEN[kind])])
def test_class(kind: str, name: str, ran: Callable[[str], dict[str, runner.Case]]) -> None:
    found = ran(kind)
    for case in full_names(kind, [name]):
        assert case in found, f"{case} did not end"
        assert found[case].result == "passed", f"{case}: {found[case].reason}\n{found[case].trace}"


def test_no_case_failed_with_several_brokers_unless_kafkas_failed_too() -> None:
    assert [row for row in results.load(results.SEVERAL) if row["ottla"] == "failed" and row["kafka"] != "failed"] == []


def test_the_denominator_is_known() -> None:
    """A case of the file that Kafka does not pass is out for a reason, and ottla fails none that Kafka passes. Cases that were
    not run with Kafka are of no denominator yet: the report says how many."""
    rows = results.load()
    assert rows, "scripts/kafka_tests.py writes results.json"
    assert [row for row in rows if row["kafka"] != "passed" and row["kafka"] is not None and not row["reason"]] == []
    assert [(row["class"], row["case"], row["reason"]) for row in rows if results.wanted(row) and row["ottla"] == "failed"] == []
