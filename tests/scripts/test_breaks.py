"""Every deliberate break still applies, and names a test that there is: the source moves on, and the table must follow. What
counts as caught is the test's own word."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compat_tests.breaks.security import SECURITY_BREAKS
from compat_tests.breaks.table import BREAKS, Break
from scripts import breaks

ROOT = Path(__file__).resolve().parents[2]

FEWEST = 10
ALL_BREAKS = (*BREAKS, *SECURITY_BREAKS)


def test_there_are_enough_and_no_two_are_alike() -> None:
    assert len(BREAKS) >= FEWEST
    assert len(SECURITY_BREAKS) >= FEWEST
    places = {(change.file, change.old) for change in ALL_BREAKS}
    assert len({change.name for change in ALL_BREAKS}) == len(places) == len(ALL_BREAKS)


@pytest.mark.parametrize("change", ALL_BREAKS, ids=lambda change: change.name)
def test_it_applies_once_and_leaves_python(change: Break) -> None:
    text = (ROOT / change.file).read_text()
    assert text.count(change.old) == 1
    ast.parse(text.replace(change.old, change.new))


@pytest.mark.parametrize("change", ALL_BREAKS, ids=lambda change: change.name)
def test_its_test_exists(change: Break) -> None:
    file, name = change.test.split("[")[0].split("::")
    tests = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    assert name in tests


CHANGE = Break("a break", "kept", "x.py", "a", "b", "compat_tests/wire_diff/test_x.py::test_it")
OWN = "compat_tests.wire_diff.test_x"


def ran(tmp_path: Path, *cases: tuple[str, str, str]) -> dict[str, Any]:
    """The row for cases of CHANGE's test, each (class, name, what pytest writes of it)."""
    results = tmp_path / "results.xml"
    text = "".join(f'<testcase classname="{owner}" name="{name}">{what}</testcase>' for owner, name, what in cases)
    results.write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>")
    return breaks.row_of(CHANGE, breaks.read(results))


def test_a_break_is_caught_by_a_failure_of_its_test(tmp_path: Path) -> None:
    row = ran(tmp_path, (OWN, "test_it[1]", ""), (OWN, "test_it[2]", '<failure message="assert 1 == 2"/>'))
    assert (row["caught"], row["by"], row["failed"], row["cases"], row["broken_off"]) == (True, "test_x::test_it[2]", 1, 2, [])


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("test_it", '<error message="failed on setup with &quot;KeyError&quot;"/>'),
        ("test_it", '<failure message="reference_kafka.BrokerFailed: ottla did not come up on port 1:&#10;no"/>'),
        ("test_it", '<failure message="Failed: Timeout (&gt;300.0s) from pytest-timeout."/>'),
        ("test_it[kafka-hard]", '<failure message="assert 1 == 2"/>'),
        ("test_it", '<skipped message="why"/>'),
    ],
    ids=["setup", "no broker", "no end", "with Kafka", "skipped"],
)
def test_a_failure_for_another_reason_catches_nothing_and_is_reported(tmp_path: Path, name: str, what: str) -> None:
    row = ran(tmp_path, (OWN, name, what))
    assert (row["caught"], row["by"]) == (False, "")
    assert [why.startswith(f"test_x::{name}: ") for why in row["broken_off"]] == [True]


def test_another_test_that_fails_catches_nothing(tmp_path: Path) -> None:
    row = ran(
        tmp_path, (OWN, "test_it_too", '<failure message="no"/>'), ("compat_tests.test_y", "test_it", '<failure message="no"/>')
    )
    assert not row["caught"]


def test_tests_that_never_end_are_no_catch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("pytest", 1)

    monkeypatch.setattr(subprocess, "run", never)
    assert not breaks.row_of(CHANGE, breaks.run(tmp_path, [CHANGE.test], tmp_path / "results.xml"))["caught"]


def test_the_kept_results_are_of_these_breaks_and_each_was_caught_by_its_own_test() -> None:
    kept = json.loads((ROOT / "compat_tests" / "results" / "breaks.json").read_text())
    told = {row["name"]: row["by"].partition("[")[0] for row in kept["breaks"] if row["caught"]}
    assert told == {
        change.name: f"{Path(change.test.partition('::')[0]).stem}::{change.test.partition('::')[2].partition('[')[0]}"
        for change in BREAKS
    }
