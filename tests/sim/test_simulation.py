"""A thousand seeds of the simulated broker, and that a seed is the same run every time."""

from __future__ import annotations

import os
import sys

import pytest

from ottla.wire.batch import CorruptBatch
from scripts.simulate import main, simulate
from tests.sim import readers, simulation

SEEDS = 1000
"""As many as two cores do in under two minutes beside other tests. A seed takes about 0.1 s of one, with ottla compiled."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_seed_finds_anything() -> None:
    outcomes = list(simulate(0, SEEDS - 1, os.cpu_count() or 1))
    assert {outcome["seed"] for outcome in outcomes} == set(range(SEEDS))
    assert [outcome for outcome in outcomes if outcome["found"]] == []
    assert sum(outcome["lives"] for outcome in outcomes) > 3 * SEEDS  # or nothing breaks any more
    assert sum(outcome["events"] for outcome in outcomes) > 100 * SEEDS


def test_a_seed_is_the_same_run_in_every_process() -> None:
    runs = [{outcome["seed"]: outcome["digest"] for outcome in simulate(0, 5, processes)} for processes in (1, 2)]
    assert runs[0] == runs[1]


def test_an_answer_that_a_client_cannot_read_is_found_as_an_anomaly_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(*arguments: object, **more: object) -> None:
        raise CorruptBatch("planted")

    monkeypatch.setattr(readers, "decode", decode)
    (anomaly,) = simulation.simulate(0).found
    assert anomaly == ("corrupt", "what a client has fetched", "planted")


def test_the_script_says_what_it_did(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["simulate", "--seeds", "0-1", "--processes", "1"])
    assert main() == 0
    assert capfd.readouterr().out.startswith("2 seeds in ")
    monkeypatch.setattr(sys, "argv", ["simulate", "--seed", "1", "--verbose"])
    assert main() == 0
    assert "life 1 serves" in capfd.readouterr().out


def test_the_script_says_what_it_found(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    fault = "a fetch does not say what was aborted"
    monkeypatch.setattr(sys, "argv", ["simulate", "--seeds", "0-99", "--processes", "1", "--planted", fault])
    assert main() == 1
    assert "    G1a at " in capfd.readouterr().out
