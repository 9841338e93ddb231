"""scripts/fuzz.py: a target runs in a process of its own, a fault is found, kept and said, and time is shared as asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import fuzz
from scripts.fuzz import Outcome, names, note, run, show, turns
from tests.fuzz.targets import _planted

LONGEST_SECONDS = 200
"""As long as nothing is found. It is found within a second, but this machine may do other things."""


def test_the_targets_are_the_modules_in_their_folder() -> None:
    assert {"batches", "codecs", "log_directory", "requests"} <= set(names())
    assert not [name for name in names() if name.startswith("_")]


def test_a_target_that_holds_runs_to_its_end(tmp_path: Path) -> None:
    outcome = run("small_files", 1, tmp_path, 7)
    assert "INFO: Seed: 7\n" in (tmp_path / "small_files.log").read_text()
    assert (outcome.failure, outcome.found) == ("", [])
    assert outcome.executions > 100, "hardly anything was tried"
    assert outcome.covered > 100, "hardly anything was reached: is ottla imported from its sources?"
    assert outcome.cpu_seconds > 0
    assert list((tmp_path / "corpus" / "small_files").iterdir()), "what led somewhere new is not kept"


def test_a_short_run_tries_as_many_inputs_on_any_machine(tmp_path: Path) -> None:
    assert set(fuzz.SHORT) == set(names()), "a target is in no short run"
    assert run("scan", LONGEST_SECONDS, tmp_path, 7, 150).executions == 150


def test_coverage_leads_to_a_planted_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run("_planted", LONGEST_SECONDS, tmp_path)
    assert "the planted fault was found" in outcome.failure
    (found,) = outcome.found
    assert found.read_bytes().startswith(_planted.FAULT)
    show(outcome)
    printed = capsys.readouterr()
    assert "_planted" in printed.out
    assert "FAILED" in printed.out
    assert f"python -m tests.fuzz.run _planted {found}" in printed.err
    assert found.read_bytes().hex() in printed.err


def test_a_fault_makes_the_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fuzz, "run", lambda target, seconds, build, seed, inputs: Outcome(target, 2.5, 10, 3, [], "broken" * (target == "scan"))
    )
    monkeypatch.setattr("sys.argv", ["fuzz", "--seconds", "1", "--build", str(tmp_path)])
    assert fuzz.main() == 1
    monkeypatch.setattr("sys.argv", ["fuzz", "--hours", "0.01", "--target", "codecs", "--build", str(tmp_path)])
    assert fuzz.main() == 0
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["codecs"] == {"cpu_seconds": 5.0, "executions": 20, "found": 0}
    assert figures["scan"] == {"cpu_seconds": 2.5, "executions": 10, "found": 1}


def test_figures_add_up(tmp_path: Path) -> None:
    for failure in ("", "broken"):
        note(Outcome("a", 1.25, 7, 3, [], failure), tmp_path)
    assert json.loads((tmp_path / "figures.json").read_text()) == {"a": {"cpu_seconds": 2.5, "executions": 14, "found": 1}}


def test_hours_are_shared_in_rounds() -> None:
    assert turns(["a", "b"], 1, round_seconds=600) == [("a", 600), ("b", 600)] * 3
    assert turns(["a", "b"], 0.01) == [("a", 18), ("b", 18)]
    assert turns(["a"], 0.0001) == [("a", 1)]
