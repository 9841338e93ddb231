"""Varints, tags and uuids by their bytes as Kafka's protocol guide fixes them; what every message class can do."""

from __future__ import annotations

import pytest

from ottla.wire.messages.fetch import FetchPartition, FetchTopic
from ottla.wire.primitives import (
    UV,
    ZERO_UUID,
    compact_length,
    encode_uvarint,
    encode_varint,
    put_tag,
    skip_tags,
    uuid_from_text,
    uuid_to_text,
    uvarint,
    varint,
    varlong,
)

UVARINTS = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16383, "ff7f"),
    (16384, "808001"),
    (65537, "818004"),
    (2**21 - 1, "ffff7f"),
    (2**21, "80808001"),
    (2**32 - 1, "ffffffff0f"),
]


@pytest.mark.parametrize(("value", "text"), UVARINTS)
def test_unsigned_varints(value: int, text: str) -> None:
    raw = bytes.fromhex(text)
    assert encode_uvarint(value) == UV[value] == UV[value] == raw
    assert uvarint(b"\xff" + raw + b"\xff", 1) == (value, 1 + len(raw))
    assert uvarint(memoryview(raw), 0) == (value, len(raw))


@pytest.mark.parametrize("value", [0, -1, 1, -64, 64, 2**31 - 1, -(2**31)])
def test_signed_varints_are_zigzag(value: int) -> None:
    raw = encode_varint(value)
    assert varint(raw, 0) == varlong(raw, 0) == (value, len(raw))


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**40])
def test_varlongs_take_up_to_ten_bytes(value: int) -> None:
    raw = encode_varint(value)
    assert varlong(raw, 0) == (value, len(raw))
    with pytest.raises(ValueError, match="5 bytes"):
        varint(raw, 0)


def test_minus_one_is_one_on_the_wire() -> None:
    assert encode_varint(-1) == b"\x01"
    assert encode_varint(1) == b"\x02"


@pytest.mark.parametrize("decode", [uvarint, varint, varlong])
def test_a_varint_without_end(decode: object) -> None:
    assert callable(decode)
    with pytest.raises(ValueError, match="longer than"):
        decode(b"\x80" * 20, 0)
    with pytest.raises(IndexError):
        decode(b"\x80", 0)


def test_a_compact_length_of_zero_is_null_and_refused() -> None:
    assert compact_length(b"\x81\x01", 0) == (129, 2)
    with pytest.raises(ValueError, match="null is not allowed"):
        compact_length(b"\x00", 0)


def test_the_table_of_varints_does_not_grow_with_every_length() -> None:
    for value in (5_000_000, 70_000):
        assert uvarint(UV[value], 0)[0] == value
        assert value not in UV


def test_skip_tags_steps_over_each_field() -> None:
    section = b"\x02" + b"\x05\x03abc" + b"\x80\x01\x00"
    assert skip_tags(section + b"rest", 1, 2) == len(section)


def test_skip_tags_does_not_go_through_thousands() -> None:
    for count in (1000, 1001):
        section = encode_uvarint(count) + b"\x05\x00" * count
        if count == 1000:
            assert skip_tags(section, 1, section[0]) == len(section)
            continue
        with pytest.raises(ValueError, match="1001 tagged fields"):
            skip_tags(section, 1, section[0])


def test_skip_tags_reads_a_long_count_again() -> None:
    """The caller has read one byte; where it says that more follow, the count starts there."""
    section = b"\x80\x01" + b"\x01\x00" * 128
    assert skip_tags(section, 1, section[0]) == len(section)


def test_put_tag_joins_and_empties_the_body() -> None:
    parts: list[bytes] = []
    body = [b"ab", b"c"]
    put_tag(parts, 200, body)
    assert parts == [b"\xc8\x01\x03abc"]
    assert body == []


def test_uuids_in_kafkas_form() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(bytes(range(240, 256))) == "8PHy8_T19vf4-fr7_P3-_w"
    assert uuid_from_text("8PHy8_T19vf4-fr7_P3-_w") == bytes(range(240, 256))
    assert uuid_from_text("8PHy8_T19vf4-fr7_P3-_w==") == bytes(range(240, 256))


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "A" * 30, "AAAAAAAAAAAAAAAAAAAAA!", "AAAAAAAAAAAAAAAAAAAAé="])
def test_what_is_no_uuid(text: str) -> None:
    with pytest.raises(ValueError):
        uuid_from_text(text)


def test_messages_are_equal_by_value_and_show_themselves() -> None:
    one, other = FetchTopic("a", partitions=[FetchPartition(1)]), FetchTopic("a", partitions=[FetchPartition(1)])
    assert one == other
    other.partitions[0].fetch_offset = 7
    assert one != other
    assert one != "a"
    assert repr(FetchTopic("a")) == f"FetchTopic(topic='a', topic_id={ZERO_UUID!r}, partitions=[])"
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with pytest.raises(AttributeError):
        one.partition = []  # type: ignore[attr-defined]  # there is no such field


def test_default_lists_are_not_shared() -> None:
    FetchTopic().partitions.append(FetchPartition())
    assert FetchTopic().partitions == []
