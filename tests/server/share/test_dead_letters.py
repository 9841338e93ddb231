"""Tests of how dead letters are put into batches; test_share_dead_letters.py of the handlers has when they are written, and
where."""

from __future__ import annotations

import pytest

from ottla.server.share.dead_letters import LETTERS_A_BATCH, RECORD_OVERHEAD, _Batch
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.records import Record, build_batch

LETTER = RECORD_OVERHEAD + 10 + 20 + 3 + 7
"""The bytes that one of the letters below may take."""


def letters(count: int) -> list[Record]:
    return [Record(0, 0, bytes(10), bytes(20), [("abc", bytes(7))]) for _ in range(count)]


def sizes(found: list[Record], most_bytes: int) -> list[int]:
    """Returns how many letters each batch takes."""
    batches = [_Batch(most_bytes)]
    for letter in found:
        if not batches[-1].takes(letter):
            batches.append(_Batch(most_bytes))
        batches[-1].add(letter)
    return [len(batch.letters) for batch in batches]


@pytest.mark.parametrize(
    ("count", "most_bytes", "expected"),
    [
        (0, 1000, [0]),
        (4, HEADER_SIZE + 4 * LETTER, [4]),
        (4, HEADER_SIZE + 4 * LETTER - 1, [3, 1]),
        (5, HEADER_SIZE + 2 * LETTER, [2, 2, 1]),
        (2, 1, [1, 1]),
        (2 * LETTERS_A_BATCH + 1, 1 << 20, [LETTERS_A_BATCH, LETTERS_A_BATCH, 1]),
    ],
)
def test_a_batch_takes_as_many_letters_as_one_step_writes(count: int, most_bytes: int, expected: list[int]) -> None:
    assert sizes(letters(count), most_bytes) == expected


def test_what_a_letter_may_take_is_no_less_than_what_it_takes() -> None:
    assert len(build_batch(letters(3))) <= HEADER_SIZE + 3 * LETTER


def test_a_letter_without_key_and_value_takes_room_for_its_headers() -> None:
    empty = [Record(0, 0, None, None, [("abc", bytes(7))]) for _ in range(2)]
    room = HEADER_SIZE + 2 * (RECORD_OVERHEAD + 3 + 7)
    assert [len(sizes(empty, most)) for most in (room, room - 1)] == [1, 2]
