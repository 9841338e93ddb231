"""Kafka's own tests pass, with Apache Kafka and with ottla: what results.json says is in the denominator (results.py).

Of these, and of cases that were not run with Kafka yet, a seeded choice from every class: more with ottla than with Kafka, which
takes long to start. Both brokers' cases run in one JVM each. scripts/kafka_tests.py runs them all.

A case that fails gets a second try in a JVM of its own: these are tests with timeouts meant for machines with more cores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Final

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
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, runner.Case]]:
    """What became of the chosen cases of a kind: one JVM for all, and one more for those that failed."""
    known: dict[str, dict[str, runner.Case]] = {}

    def get(kind: str) -> dict[str, runner.Case]:
        if kind not in known:
            place = tmp_path_factory.mktemp("kafka-tests")
            names = full_names(kind, sorted(CHOSEN[kind]))
            found = {case.name: case for case in runner.run(kind, sorted(CHOSEN[kind]), place / "first", cases=names)}
            again = [name for name in names if name not in found or found[name].result != "passed"]
            if again:
                owners = sorted({name.partition("#")[0] for name in again})
                found |= {case.name: case for case in runner.run(kind, owners, place / "second", cases=again)}
            known[kind] = found
        return known[kind]

    return get


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in CHOSEN for name in sorted(CHOSEN[kind])])
def test_class(kind: str, name: str, ran: Callable[[str], dict[str, runner.Case]]) -> None:
    found = ran(kind)
    for case in full_names(kind, [name]):
        assert case in found, f"{case} did not end"
        assert found[case].result == "passed", f"{case}: {found[case].reason}\n{found[case].trace}"


def test_the_denominator_is_known() -> None:
    """A case of the file that Kafka does not pass is out for a reason, and ottla fails none that Kafka passes. Cases that were
    not run with Kafka are of no denominator yet: the report says how many."""
    rows = results.load()
    assert rows, "scripts/kafka_tests.py writes results.json"
    assert [row for row in rows if row["kafka"] != "passed" and row["kafka"] is not None and not row["reason"]] == []
    assert [(row["class"], row["case"], row["reason"]) for row in rows if results.wanted(row) and row["ottla"] == "failed"] == []
