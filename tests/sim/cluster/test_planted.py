"""Mistakes that are planted in replication are found by the simulated cluster, each under its right name."""

from __future__ import annotations

import ast

import pytest

from scripts.simulate import simulate
from tests.sim.cluster.planted import PLANTED
from tests.sim.planted import Planted, edited

MOST_SEEDS = 64
FEWEST = 12


def test_there_are_enough_and_no_two_are_alike() -> None:
    assert len(PLANTED) >= FEWEST
    assert len({each.name for each in PLANTED}) == len({(each.file, each.edits) for each in PLANTED}) == len(PLANTED)


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_it_applies_and_leaves_python(fault: Planted) -> None:
    ast.parse(edited(fault))


@pytest.mark.slow
@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_it_is_found_by_name(fault: Planted) -> None:
    names: set[str] = set()
    for outcome in simulate(0, MOST_SEEDS - 1, 1, "--cluster", "--planted", fault.name):
        names.update(name for name, _, _ in outcome["found"])
    assert names & fault.names, f"{MOST_SEEDS} seeds found only {names}"
