"""These tests cover the table of states, and runs, which are cut, changed and joined again."""

from __future__ import annotations

import itertools
import random
from operator import methodcaller

import pytest

from ottla.server.share.states import (
    ACKNOWLEDGED,
    ACQUIRED,
    AVAILABLE,
    TERMINAL,
    TRANSITIONS,
    InFlightBatch,
    RecordState,
    Run,
)


def test_what_is_done_stays_done() -> None:
    assert all(not TRANSITIONS[state] for state in TERMINAL)
    assert TRANSITIONS.keys() == set(RecordState)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(RecordState, RecordState)))
def test_only_transitions_of_the_table_happen(before: RecordState, after: RecordState) -> None:
    run = Run(0, 9, before, 1, "m", 30.0)
    if after in TRANSITIONS[before]:
        assert run.with_state(after) == Run(0, 9, after, 1)
    else:
        with pytest.raises(AssertionError):
            run.with_state(after)


def test_a_change_in_the_middle_cuts_a_run_in_three() -> None:
    batch = InFlightBatch([Run(0, 9, ACQUIRED, 1, "m")])
    batch.change(3, 5, lambda run: run.with_state(ACKNOWLEDGED))
    assert batch.runs == [Run(0, 2, ACQUIRED, 1, "m"), Run(3, 5, ACKNOWLEDGED, 1), Run(6, 9, ACQUIRED, 1, "m")]


def test_neighbours_that_become_the_same_are_joined() -> None:
    batch = InFlightBatch([Run(0, 9, ACQUIRED, 1, "m")])
    for offset in (0, 2, 1):
        batch.change(offset, offset, lambda run: run.with_state(ACKNOWLEDGED))
    assert batch.runs == [Run(0, 2, ACKNOWLEDGED, 1), Run(3, 9, ACQUIRED, 1, "m")]


def test_overlapping_gives_runs_cut_to_the_offsets_asked_for() -> None:
    batch = InFlightBatch([Run(0, 4, AVAILABLE, 1), Run(5, 9, ACQUIRED, 1, "m")])
    assert list(batch.overlapping(3, 6)) == [Run(3, 4, AVAILABLE, 1), Run(5, 6, ACQUIRED, 1, "m")]
    assert list(batch.overlapping(10, 20)) == []


def test_changes_of_any_offsets_are_those_of_each_offset_alone() -> None:
    """The result is compared with the simplest implementation, which has one state for each offset."""
    rng = random.Random(7)
    batch = InFlightBatch([Run(0, 39, ACQUIRED, 1, "m")])
    counts = [1] * 40
    for _ in range(500):
        first = rng.randrange(-2, 42)
        last = first + rng.randrange(8)
        count = rng.randrange(1, 4)
        batch.change(first, last, methodcaller("_replace", delivery_count=count))
        for offset in range(max(first, 0), min(last, 39) + 1):
            counts[offset] = count
        assert [run.delivery_count for run in batch.runs for _ in range(run.first, run.last + 1)] == counts
        assert all(left.last + 1 == right.first for left, right in itertools.pairwise(batch.runs))
        assert all(left[2:] != right[2:] for left, right in itertools.pairwise(batch.runs)), "neighbours that differ"


def test_size_counts_what_is_not_below_an_offset() -> None:
    run = Run(5, 9, AVAILABLE, 1)
    assert [run.size_from(offset) for offset in (0, 5, 7, 9, 10, 20)] == [5, 5, 3, 1, 0, 0]
