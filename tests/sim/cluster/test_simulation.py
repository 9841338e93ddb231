"""Some seeds of the simulated cluster, and that a seed is the same run every time."""

from __future__ import annotations

import os

import pytest

from compat_tests.anomalies.history import Event
from scripts.simulate import simulate
from tests.sim.cluster.readers import check_latest
from tests.sim.cluster.simulation import simulate as simulate_here

SEEDS = 200


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_seed_finds_anything() -> None:
    outcomes = list(simulate(0, SEEDS - 1, os.cpu_count() or 1, "--cluster"))
    assert {outcome["seed"] for outcome in outcomes} == set(range(SEEDS))
    assert [outcome for outcome in outcomes if outcome["found"]] == []
    assert sum(outcome["lives"] for outcome in outcomes) > 6 * SEEDS  # or nothing breaks any more
    assert sum(outcome["events"] for outcome in outcomes) > 200 * SEEDS
    assert sum(outcome["excused"] for outcome in outcomes) < SEEDS  # or the check of latest offsets looks at too few


def test_a_seed_is_the_same_run_in_every_process() -> None:
    runs = [{outcome["seed"]: outcome["digest"] for outcome in simulate(0, 3, processes, "--cluster")} for processes in (1, 2)]
    assert runs[0] == runs[1]


def test_a_run_says_what_happens() -> None:
    said: list[str] = []
    outcome = simulate_here(0, said.append)
    assert outcome.found == []
    assert any("node-1: life 1 serves" in line for line in said)


@pytest.mark.parametrize(("later", "names"), [(5, []), (4, ["latest-backwards"])])
def test_a_latest_offset_that_goes_back_is_found(later: int, names: list[str]) -> None:
    events: list[Event] = []
    for at, offset in enumerate((5, later)):
        events.append({"i": 2 * at, "t": 0, "p": 1, "op": at, "type": "invoke", "f": "latest"})
        events.append({"i": 2 * at + 1, "t": 0, "p": 1, "op": at, "type": "ok", "latest": {"t-0": offset}})
    assert [each.name for each in check_latest(events)] == names
