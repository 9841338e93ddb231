"""log/index_order.py, each test compiled and uncompiled: the same source, loaded once as the extension and once as text."""

from __future__ import annotations

import random
from struct import Struct
from types import ModuleType

import pytest

from ottla.log import index, index_order
from ottla.log.index import CorruptIndex, OffsetIndex, TimeIndex
from tests.uncompiled import both_ways

module = both_ways(index_order)
OFFSET, TIME = Struct(">ii"), Struct(">qi")
MOST, LONGEST = 2**31 - 1, 2**63 - 1


def offsets(*entries: tuple[int, int]) -> bytes:
    return b"".join(OFFSET.pack(*entry) for entry in entries)


def times(*entries: tuple[int, int]) -> bytes:
    return b"".join(TIME.pack(*entry) for entry in entries)


def test_offsets_and_positions_ascend(module: ModuleType) -> None:
    for right in ([], [(0, 0)], [(MOST, MOST)], [(0, 0), (1, 1)], [(5, 1), (6, 2), (256, 65536), (MOST, MOST)]):
        assert module.offsets_ascend(offsets(*right))
    for wrong in ([(-1, 0)], [(0, -1)], [(1, 1), (1, 2)], [(1, 1), (2, 1)], [(1, 1), (5, 5), (4, 6)], [(1, 1), (5, 5), (6, 4)]):
        assert not module.offsets_ascend(offsets(*wrong))


def test_timestamps_ascend_and_offsets_do_not_fall(module: ModuleType) -> None:
    for right in ([], [(0, 0)], [(LONGEST, MOST)], [(1, 7), (2, 7)], [(255, 1), (256, 2), (2**40, 2), (LONGEST, MOST)]):
        assert module.times_ascend(times(*right))
    for wrong in ([(-1, 0)], [(0, -1)], [(1, 1), (1, 1)], [(2, 1), (1, 1)], [(1, 7), (2, 6)], [(1, 1), (2, 9), (3, 8)]):
        assert not module.times_ascend(times(*wrong))


@pytest.mark.parametrize("seed", range(20))
def test_indexes_are_taken_alike_with_and_without_a_compiler(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    draw = random.Random(seed)
    steps = [(draw.choice((1, 1, 5, draw.choice((0, 1)))), draw.choice((1, 9))) for _ in range(6)]
    entries = [(sum(step[0] for step in steps[:end]), sum(step[1] for step in steps[:end])) for end in range(1, 7)]
    spoilt = draw.choice((entries, entries, draw.sample(entries, 6)))

    compiled = taken(offsets(*spoilt), times(*spoilt))
    monkeypatch.setattr(index, "COMPILED", False)
    assert taken(offsets(*spoilt), times(*spoilt)) == compiled


def taken(offset_file: bytes, time_file: bytes) -> tuple[bool, bool]:
    """Returns which of the two can be indexes."""
    both = [True, True]
    try:
        OffsetIndex(0, 100).decode(offset_file, 1000)
    except CorruptIndex:
        both[0] = False
    try:
        TimeIndex(0, 100).decode(time_file)
    except CorruptIndex:
        both[1] = False
    return both[0], both[1]
