"""compat_tests/forms.py: what the short form leaves out is written beside the results, by one process and by workers. And what
of a client's own suite a run is about.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat_tests.forms import IN_FULL, NEVER_WITH_KAFKA, NOT_BOUNCED, bounce
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.suites.runner import asked_for

ROOT = Path(__file__).resolve().parents[2]

SLOW = "compat_tests/test_spark_cluster.py"
BOUNCES = (
    "compat_tests/test_apache_transactions.py::test_the_message_copiers_copy_each_once_through_kills"
    "[kafka-hard-bounces-of-the-broker,-without-group-metadata]"
)
QUICK = "compat_tests/wire_diff/test_random_walk.py::test_shrinking_leaves_what_is_needed"


def run(tmp_path: Path, *arguments: str, full: bool = False) -> dict[str, Any]:
    """Returns what a run of compat_tests writes beside its results."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "OTTLA_"))}
    environment |= {"PYTHONPATH": str(ROOT)} | ({"OTTLA_FULL": "1"} if full else {})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={tmp_path / 'a' / 'some.xml'}"]
    done = subprocess.run([*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 5), done.stdout + done.stderr
    found: dict[str, Any] = json.loads((tmp_path / "a" / "some.run.json").read_text())
    assert set(found) == {"date", "commit", "form", "left_out"}
    return found


@pytest.mark.parametrize("full", [False, True])
def test_what_is_left_out_for_its_length_is_said_and_run_in_the_long_form(full: bool, tmp_path: Path) -> None:
    found = run(tmp_path, "--collect-only", SLOW, full=full)
    assert found["form"] == ("full" if full else "short")
    assert set(found["left_out"].values()) == (set() if full else {IN_FULL})
    assert all(name.startswith(SLOW) and "kafka" in name for name in found["left_out"])


def test_what_was_not_asked_for_is_not_left_out(tmp_path: Path) -> None:
    assert run(tmp_path, "--collect-only", "-m", "not spark", SLOW)["left_out"] == {}


@pytest.mark.parametrize(("full", "processes"), [(False, "1"), (True, "0")])
def test_what_kafka_does_not_always_pass_is_in_neither_form(full: bool, processes: str, tmp_path: Path) -> None:
    found = run(tmp_path, "--numprocesses", processes, BOUNCES, QUICK, full=full)
    assert found["left_out"] == {BOUNCES: NEVER_WITH_KAFKA["copies through bounces of the broker"]}


def test_each_reason_has_a_test_and_each_such_test_a_reason() -> None:
    calls = [
        node
        for file in (ROOT / "compat_tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
    ]
    marks = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "never_with_kafka"]
    assert {ast.literal_eval(mark.args[0]) for mark in marks} == set(NEVER_WITH_KAFKA)
    bounces = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "bounce"]
    assert {ast.literal_eval(call.args[1]) for call in bounces} == set(NOT_BOUNCED)


class Recorded(BrokerProcess):
    """A broker that only says what is done to it."""

    def __init__(self, kind: str) -> None:
        self.kind, self.done = kind, list[str]()

    def command(self) -> list[str]:
        return []

    def kill(self) -> None:
        self.done.append("kill")

    def start(self) -> None:
        self.done.append("start")


@pytest.mark.parametrize(("kind", "done"), [("ottla", ["kill", "start"]), ("kafka", [])])
def test_ottla_is_bounced_and_kafka_is_not(kind: str, done: list[str]) -> None:
    broker = Recorded(kind)
    bounce(broker, next(iter(NOT_BOUNCED)))
    assert broker.done == done


def test_of_a_clients_suite_runs_what_is_asked_for_and_all_of_it_if_one_test_is_about_that() -> None:
    """So the second try of scripts/test is of what failed, and not of the whole suite once more."""
    calls = [{"kind": "ottla", "case": "a"}, {"kind": "ottla", "case": "b"}, {"kind": "kafka"}, {"kind": "kafka", "case": "a"}]
    assert asked_for(calls, "ottla") == ["a", "b"]
    assert asked_for(calls, "kafka") == []
