"""wire/record_pieces.py: the pieces are whole records, together the section, and small."""

from __future__ import annotations

import gzip
import random
import tracemalloc

import pytest

from ottla.wire import kernel
from ottla.wire.compression import GZIP, LZ4, NONE, PIECE_BYTES, SNAPPY, ZSTD, TooLarge, compress
from ottla.wire.record_pieces import RecordTooLarge, record_pieces
from ottla.wire.records import Record, encode_records

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]


def section(sizes: list[int]) -> bytes:
    return encode_records([Record(0, 1000, None, bytes(size), []) for size in sizes], 1000)


def sizes_of(seeded: random.Random) -> list[int]:
    """Many small ones, some about as large as a piece, and some that take several."""
    kinds = (
        lambda: seeded.randrange(60),
        lambda: PIECE_BYTES + seeded.randrange(-40, 40),
        lambda: seeded.randrange(5 * PIECE_BYTES),
    )
    return [seeded.choices(kinds, (200, 1, 1))[0]() for _ in range(seeded.randrange(1, 3000))]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(6))
def test_pieces_hold_whole_records(codec: int, seed: int) -> None:
    sizes = sizes_of(random.Random(seed))
    data = section(sizes)
    largest, found, count = max(sizes), b"", 0
    for piece, end in record_pieces(codec, compress(codec, data), len(data), largest + 100):
        found += piece[:end]
        spans = kernel.spans(piece, 0, end)
        count += len(spans)
        assert len(piece) <= largest + 100 + 2 * PIECE_BYTES
    assert found == data
    assert count == len(sizes)


@pytest.mark.parametrize("codec", CODECS)
def test_a_small_batch_is_one_piece(codec: int) -> None:
    data = section([100] * 50)
    ((piece, end),) = record_pieces(codec, compress(codec, data))
    assert (piece, end) == (data, len(data))


def test_a_section_that_is_cut_short_ends_with_what_is_left() -> None:
    data = section([100] * 5000)[:-7]
    pieces = list(record_pieces(ZSTD, compress(ZSTD, data)))
    assert b"".join(piece[:end] for piece, end in pieces) == data
    with pytest.raises(ValueError):
        kernel.spans(pieces[-1][0], 0, pieces[-1][1])


def test_bytes_that_are_no_records_are_passed_on() -> None:
    for data in (b"\xff" * 1_000_000, bytes(1_000_000), section([10]) + b"\x01" * 900_000):
        assert b"".join(piece[:end] for piece, end in record_pieces(LZ4, compress(LZ4, data))) == data


def test_members_of_a_byte_each_are_put_together() -> None:
    data = section([300, 10, 300])
    packed = b"".join(gzip.compress(data[at : at + 1], 0) for at in range(len(data)))
    assert b"".join(piece[:end] for piece, end in record_pieces(GZIP, packed)) == data


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_the_bounds_for_a_batch_and_for_a_record(codec: int) -> None:
    data = section([2_000_000, 2_000_000])
    packed = compress(codec, data)
    assert sum(end for _, end in record_pieces(codec, packed, len(data), 2_000_020)) == len(data)
    with pytest.raises(TooLarge):
        list(record_pieces(codec, packed, len(data) - 1))
    with pytest.raises(RecordTooLarge):
        list(record_pieces(codec, packed, len(data), 1_999_990))
    assert sum(end for _, end in record_pieces(NONE, data, 1, 1)) == len(data)  # which are for what is compressed


def test_a_record_above_the_bound_is_not_put_together() -> None:
    packed = compress(ZSTD, section([60_000_000]))
    tracemalloc.start()
    try:
        with pytest.raises(RecordTooLarge):
            list(record_pieces(ZSTD, packed, 1 << 30, 1_000_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 << 20, f"{peak:,}"


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_memory_is_that_of_a_piece_or_of_the_largest_record(codec: int) -> None:
    for sizes, most in (([1000] * 20_000, 3 << 20), ([12_000_000, 10], 15 << 20)):
        packed = compress(codec, section(sizes))
        tracemalloc.start()
        try:
            for _ in record_pieces(codec, packed):
                pass
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < most, f"{peak:,} bytes for records of up to {max(sizes):,}"
