"""log/index.py, against bytes that Kafka 4.4.0 wrote."""

from __future__ import annotations

import pytest

from ottla.log.index import CorruptIndex, OffsetIndex, TimeIndex

# The beginning of both indexes of a segment that a real broker wrote: 15 records of about 4,800 bytes an entry.
KAFKA_INDEX = bytes.fromhex("00000013000012f500000022000025f4000000310000 38f3".replace(" ", ""))
KAFKA_TIME_INDEX = bytes.fromhex("0000018bcfe56813000000130000018bcfe56822000000220000018bcfe5683100000031")


def test_the_offset_index_is_kafkas() -> None:
    index = OffsetIndex(0, 1 << 20)
    index.decode(KAFKA_INDEX, 20_000)
    assert index.entries() == [(0x13, 0x12F5), (0x22, 0x25F4), (0x31, 0x38F3)]
    assert index.encode() == KAFKA_INDEX


def test_the_time_index_is_kafkas() -> None:
    index = TimeIndex(0, 1 << 20)
    index.decode(KAFKA_TIME_INDEX)
    assert index.entries() == [(0x18BCFE56800 + low, low) for low in (0x13, 0x22, 0x31)]
    assert index.encode() == KAFKA_TIME_INDEX


def test_where_a_read_ends() -> None:
    """The first entry behind it, or at its end, but for the very first entry: what Kafka 4.4's search finds."""
    index = OffsetIndex(1000, 1 << 20)
    assert index.offset_at(0) is None
    index.append(1010, 100)
    assert [index.offset_at(position) for position in (0, 99, 100, 101)] == [1010, 1010, None, None]
    index.append(1020, 200)
    index.append(1030, 300)
    wanted = {0: 1010, 99: 1010, 100: 1020, 101: 1020, 200: 1020, 201: 1030, 300: 1030, 301: None}
    assert {position: index.offset_at(position) for position in wanted} == wanted


def test_lookup_is_the_last_entry_at_or_below() -> None:
    index = OffsetIndex(1000, 1 << 20)
    for offset, position in ((1010, 100), (1020, 200), (1030, 300)):
        index.append(offset, position)
    assert [index.lookup(offset) for offset in (1000, 1009, 1010, 1019, 1020, 1029, 1030, 9999)] == [
        0,
        0,
        100,
        100,
        200,
        200,
        300,
        300,
    ]
    assert index.last_position() == 300
    index.truncate_to(1020)
    assert index.entries() == [(1010, 100)]
    index.truncate_to(0)
    assert (len(index), index.last_position()) == (0, 0)


def test_offsets_only_grow() -> None:
    index = OffsetIndex(0, 1 << 20)
    index.append(5, 10)
    with pytest.raises(AssertionError):
        index.append(5, 20)


def test_time_entries_only_where_time_grew() -> None:
    index = TimeIndex(100, 1 << 20)
    assert index.last() == (-1, 100)
    for timestamp, offset in ((-1, 101), (50, 105), (50, 110), (40, 111), (60, 120)):
        index.append_if_later(timestamp, offset)
    assert index.entries() == [(50, 105), (60, 120)]
    assert [index.lookup(at) for at in (0, 50, 51, 60, 61)] == [100, 100, 105, 105, 120]
    index.truncate_to(120)
    assert index.last() == (50, 105)


def test_full() -> None:
    offsets, times = OffsetIndex(0, 17), TimeIndex(0, 25)
    offsets.append(1, 1)
    assert not offsets.is_full
    offsets.append(2, 2)
    assert offsets.is_full
    assert not times.is_full
    times.append_if_later(1, 1)
    assert times.is_full  # the last place is for the entry of a segment that ends
    times.append_if_later(2, 2)
    assert len(times) == 2


@pytest.mark.parametrize(
    "data",
    [
        KAFKA_INDEX[:-1],
        KAFKA_INDEX[8:16] + KAFKA_INDEX[:8],
        KAFKA_INDEX + bytes(8),
        KAFKA_INDEX + bytes.fromhex("00000040") + KAFKA_INDEX[20:24],
        b"\xff" * 8,
        KAFKA_INDEX + bytes.fromhex("0000004000ffffff"),
    ],
    ids=["cut", "swapped", "zeros", "one position twice", "negative", "beyond the log"],
)
def test_a_wrong_offset_index_is_not_taken(data: bytes) -> None:
    index = OffsetIndex(0, 1 << 20)
    index.append(1, 2)
    with pytest.raises(CorruptIndex):
        index.decode(data, 20_000)
    assert index.entries() == [(1, 2)]


@pytest.mark.parametrize(
    "data",
    [KAFKA_TIME_INDEX[1:], KAFKA_TIME_INDEX[12:24] + KAFKA_TIME_INDEX[:12], KAFKA_TIME_INDEX + bytes(12), b"\xff" * 12],
    ids=["cut", "swapped", "zeros", "negative"],
)
def test_a_wrong_time_index_is_not_taken(data: bytes) -> None:
    index = TimeIndex(0, 1 << 20)
    with pytest.raises(CorruptIndex):
        index.decode(data)
    assert len(index) == 0
