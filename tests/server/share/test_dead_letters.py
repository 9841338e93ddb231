"""Tests of how dead letters are split into batches; test_share_dead_letters.py of the handlers has when they are written, and
where."""

from __future__ import annotations

import pytest

from ottla.server.share.dead_letters import RECORD_OVERHEAD, _split_into_batches
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.records import Record, build_batch

LETTER = RECORD_OVERHEAD + 10 + 20 + 3 + 7
"""The bytes that one of the letters below may take."""


def letters(count: int) -> list[Record]:
    return [Record(0, 0, bytes(10), bytes(20), [("abc", bytes(7))]) for _ in range(count)]


@pytest.mark.parametrize(
    ("count", "max_bytes", "sizes"),
    [
        (0, 1000, []),
        (4, HEADER_SIZE + 4 * LETTER, [4]),
        (4, HEADER_SIZE + 4 * LETTER - 1, [3, 1]),
        (5, HEADER_SIZE + 2 * LETTER, [2, 2, 1]),
        (2, 1, [1, 1]),
    ],
)
def test_a_batch_takes_as_many_letters_as_the_topic_allows(count: int, max_bytes: int, sizes: list[int]) -> None:
    assert [len(portion) for portion in _split_into_batches(letters(count), max_bytes)] == sizes


def test_what_a_letter_may_take_is_no_less_than_what_it_takes() -> None:
    assert len(build_batch(letters(3))) <= HEADER_SIZE + 3 * LETTER


def test_a_letter_without_key_and_value_takes_room_for_its_headers() -> None:
    empty = [Record(0, 0, None, None, [("abc", bytes(7))]) for _ in range(2)]
    room = HEADER_SIZE + 2 * (RECORD_OVERHEAD + 3 + 7)
    assert [len(list(_split_into_batches(empty, most))) for most in (room, room - 1)] == [1, 2]
