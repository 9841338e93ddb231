"""These tests merge state batches, and compare the result with each offset's own history and with the batches that
Kafka makes.
"""

from __future__ import annotations

import random

import pytest

from ottla.server.share_state.batches import NO_OFFSET, StateBatch, combine

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def joined(*batches: tuple[int, int, int, int], start: int = NO_OFFSET) -> list[tuple[int, ...]]:
    return [tuple(each) for each in combine((), [StateBatch(*batch) for batch in batches], start)]


def test_nothing_and_one_stay_as_they_are() -> None:
    assert joined() == []
    assert joined((5, 9, 1, AVAILABLE)) == [(5, 9, 1, AVAILABLE)]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ((10, 19, 2, 0), [(10, 19, 2, 0)]),
        ((10, 25, 2, 0), [(10, 25, 2, 0)]),
        ((13, 15, 2, 0), [(10, 12, 1, 2), (13, 15, 2, 0), (16, 19, 1, 2)]),
        ((15, 19, 2, 0), [(10, 14, 1, 2), (15, 19, 2, 0)]),
        ((15, 25, 2, 0), [(10, 14, 1, 2), (15, 25, 2, 0)]),
        ((5, 12, 2, 0), [(5, 12, 2, 0), (13, 19, 1, 2)]),
        ((20, 25, 2, 0), [(10, 19, 1, 2), (20, 25, 2, 0)]),
    ],
)
def test_the_later_state_counts_where_two_overlap(
    second: tuple[int, int, int, int], expected: list[tuple[int, int, int, int]]
) -> None:
    first = (10, 19, 1, ACKNOWLEDGED)
    assert joined(first, second) == expected
    assert joined(second, first) == expected, "whichever came first"


def test_with_equal_counts_the_higher_state_is_later() -> None:
    assert joined((0, 9, 1, ARCHIVED), (3, 5, 1, AVAILABLE)) == [(0, 9, 1, ARCHIVED)]
    assert joined((0, 9, 1, AVAILABLE), (8, 12, 1, ACKNOWLEDGED)) == [(0, 7, 1, AVAILABLE), (8, 12, 1, ACKNOWLEDGED)]


def test_neighbours_in_one_state_become_one() -> None:
    assert joined((0, 4, 1, 2), (5, 9, 1, 2), (10, 12, 1, 2)) == [(0, 12, 1, 2)]
    assert joined((0, 4, 1, 2), (6, 9, 1, 2)) == [(0, 4, 1, 2), (6, 9, 1, 2)]
    assert joined((0, 4, 1, 2), (5, 9, 2, 2)) == [(0, 4, 1, 2), (5, 9, 2, 2)]


def test_below_the_start_is_nothing() -> None:
    assert joined((0, 4, 1, 2), (5, 9, 2, 0), start=7) == [(7, 9, 2, 0)]
    assert joined((0, 4, 1, 2), start=5) == []
    assert joined((0, 4, 1, 2), start=0) == [(0, 4, 1, 2)]


@pytest.mark.parametrize("seed", range(40))
def test_each_offset_has_the_latest_of_its_states(seed: int) -> None:
    chance = random.Random(seed)
    batches = []
    for _ in range(chance.randint(2, 25)):
        first = chance.randrange(60)
        batches.append(StateBatch(first, first + chance.randrange(12), chance.randint(1, 3), chance.choice((0, 2, 4))))
    start = chance.choice((NO_OFFSET, chance.randrange(40)))
    expected: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            if offset >= start:
                expected[offset] = max(expected.get(offset, (0, 0)), batch.lateness)
    cut = chance.randrange(len(batches))
    found = combine(batches[:cut], batches[cut:], start)
    assert {offset: batch.lateness for batch in found for offset in range(batch.first_offset, batch.last_offset + 1)} == expected
    ends = [end for batch in found for end in (batch.first_offset, batch.last_offset)]
    assert ends == sorted(ends)
    assert len({batch.first_offset for batch in found}) == len(found)
