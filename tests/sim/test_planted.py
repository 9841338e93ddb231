"""Faults that are planted in the broker are found by the simulation, each under its right name; a sound broker has none."""

from __future__ import annotations

import ast

import pytest

from scripts.simulate import simulate
from tests.sim.planted import MOST_SEEDS, PLANTED, Planted, edited

FEWEST = 10


def test_there_are_enough_and_no_two_are_alike() -> None:
    assert len(PLANTED) >= FEWEST
    assert len({fault.name for fault in PLANTED}) == len({(fault.file, fault.edits) for fault in PLANTED}) == len(PLANTED)


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_it_applies_and_leaves_python(fault: Planted) -> None:
    ast.parse(edited(fault))


@pytest.mark.slow
@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_it_is_found_by_name(fault: Planted) -> None:
    names: set[str] = set()
    for outcome in simulate(0, MOST_SEEDS - 1, 1, "--planted", fault.name):
        names.update(name for name, _, _ in outcome["found"])
    assert names & fault.names, f"{MOST_SEEDS} seeds found only {names}"
