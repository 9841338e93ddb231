"""Tests of what is left in a partition: records without markers and gaps, and the next batch with its damage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.commands.why import reading
from ottla.commands.why.facts import Left
from ottla.commands.why.reading import read_left
from ottla.wire.batch import read_header
from ottla.wire.records import Record, build_batch, iter_records


def batch(base: int, count: int = 1, *, control: bool = False, when: int = 1000) -> bytes:
    records = [Record(0, when + number, b"k", b"v" * 10) for number in range(count)]
    return build_batch(records, base_offset=base, control=control, transactional=control)


LOG = [batch(0, 3), batch(3, control=True), batch(4, 2, when=5000), batch(10), batch(11, control=True)]
"""The offsets 0 to 2, a marker, 4 and 5, a gap, 10, and a marker."""


def fetched(offset: int, log: list[bytes] = LOG, most: int = 2) -> bytes:
    """Returns what a broker answers: whole batches from the one with the offset on, and a part of another."""
    there = [each for each in log if read_header(each).next_offset > offset]
    return b"".join(there[:most]) + (there[most][:20] if len(there) > most else b"")


@pytest.mark.parametrize(
    ("begin", "end", "records", "first"),
    [
        *((0, 12, 6, 0), (1, 12, 5, 0), (2, 4, 1, 0), (3, 4, 0, None), (3, 12, 3, 4)),
        *((5, 12, 2, 4), (6, 12, 1, 10), (11, 12, 0, None), (12, 12, 0, None)),
    ],
)
def test_markers_and_gaps_are_no_records(begin: int, end: int, records: int, first: int | None) -> None:
    left, batch_read = read_left(
        lambda offset: fetched(offset, [each for each in LOG if read_header(each).base_offset < end]), begin, end
    )
    assert left == Left(records, True)
    assert (None if batch_read is None else batch_read.base_offset) == first


def test_what_was_not_read_is_not_counted() -> None:
    assert read_left(fetched, 0, 12, max_bytes=1).left == Left(3, False)
    assert read_left(lambda _: b"", 4, 12).left == Left(0, False)


def test_the_next_batch_has_its_time_and_size() -> None:
    found = read_left(fetched, 4, 12).next_batch
    assert found is not None
    assert (found.timestamp_ms, found.size_bytes, found.damage) == (5000, len(LOG[2]), None)
    later = read_left(fetched, 5, 12).next_batch
    assert later is not None
    assert later.timestamp_ms == 5001


def test_damage_counts_in_the_next_batch_alone() -> None:
    flipped = [*LOG]
    flipped[2] = LOG[2][:-1] + bytes([LOG[2][-1] ^ 1])
    left, found = read_left(lambda offset: fetched(offset, flipped), 4, 12)
    assert found is not None
    assert found.damage == "its checksum (CRC) is not that of its bytes"
    assert left == Left(8, False)
    left, found = read_left(lambda offset: fetched(offset, flipped), 0, 12)
    assert found is not None
    assert (left, found.damage) == (Left(6, True), None)


def test_no_more_records_are_read_than_it_takes_to_count_them(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counting(batch: bytes, max_bytes: int) -> Iterator[Record]:
        for record in iter_records(batch, max_bytes):
            read.append(record.offset)
            yield record

    monkeypatch.setattr(reading, "iter_records", counting)
    log = [build_batch([Record(0, 1000 + at, None, b"") for at in range(50_000)], codec=4)]
    left, first = read_left(lambda _: log[0], 3, 50_000)
    assert left == Left(49_997, True)
    assert first is not None
    assert first.timestamp_ms == 1003
    assert read == [0, 1, 2, 3]
