"""wire/batch.py against batches that librdkafka and Kafka's own builder wrote."""

from __future__ import annotations

import struct

import pytest

from ottla.wire import batch as batches
from ottla.wire.batch import BatchHeader, CorruptBatch, check_crc, iter_batches, read_header, restamp, stamp
from ottla.wire.records import Record, build_batch, decode_records
from tests.wire.samples import NOW_MS, foreign_batches, sample_records

FOREIGN = foreign_batches()


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_headers_and_crcs(name: str) -> None:
    data = FOREIGN[name]
    header = read_header(data)
    assert (header.base_offset, header.magic, header.size) == (0, 2, len(data))
    assert header.records_count == header.last_offset_delta + 1 == header.next_offset
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + header.last_offset_delta)
    assert (header.timestamp_type, header.is_control, header.is_transactional) == (batches.CREATE_TIME, False, False)
    assert check_crc(data, header)


def test_idempotent_fields() -> None:
    header = read_header(FOREIGN["java idempotent"])
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (4711, 2, 7, 9)
    assert read_header(FOREIGN["java none"]).last_sequence == -1


def test_sequences_wrap() -> None:
    data = build_batch(sample_records(3), producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert read_header(data).last_sequence == 0


@pytest.mark.parametrize("position", [21, 30, 60, 61, -1])
def test_a_changed_byte_breaks_the_crc(position: int) -> None:
    data = bytearray(FOREIGN["java none"])
    data[position] ^= 1
    assert not check_crc(data, read_header(data))


def test_stamping_does_not_touch_what_the_crc_covers() -> None:
    data = FOREIGN["librdkafka none"]
    stamped = stamp(read_header(data), 123_456_789_012, 7) + data[16:]
    header = read_header(stamped)
    assert (header.base_offset, header.partition_leader_epoch) == (123_456_789_012, 7)
    assert check_crc(stamped, header)
    assert stamped[16:] == data[16:]
    assert stamped[8:12] == data[8:12]


def test_restamp_makes_a_log_append_time_batch_that_keeps_its_base_timestamp() -> None:
    data = FOREIGN["java lz4"]
    old = read_header(data)
    new = restamp(
        old, data[61:], attributes=old.attributes | batches.LOG_APPEND_TIME_BIT, max_timestamp=NOW_MS + 99, leader_epoch=3
    )
    header = read_header(new + data[61:])
    assert check_crc(new + data[61:], header)
    assert (header.timestamp_type, header.base_timestamp, header.max_timestamp) == (1, NOW_MS, NOW_MS + 99)
    assert (header.codec, header.partition_leader_epoch, header.size) == (old.codec, 3, len(data))
    assert {record.timestamp_ms for record in decode_records(new + data[61:])} == {NOW_MS + 99}


def test_crc_of_a_batch_that_is_not_all_there_does_not_fit() -> None:
    data = FOREIGN["java none"]
    header = read_header(data)
    assert not check_crc(data[:-1], header)
    assert not check_crc(data, header.replace(batch_length=10))
    assert not check_crc(data, header.replace(batch_length=-1))


def test_headers_are_read_anywhere_and_from_any_buffer() -> None:
    data = FOREIGN["java none"]
    framed = memoryview(bytearray(b"#" * 5 + data))
    header = read_header(framed, 5)
    assert header == read_header(data)
    assert isinstance(header, BatchHeader)
    assert check_crc(framed, header, 5)
    with pytest.raises(struct.error):
        read_header(data[:60])


def test_a_header_with_another_field() -> None:
    header = read_header(FOREIGN["java none"])
    other = header.replace(producer_id=7, crc=2**32 - 1)
    assert (other.producer_id, other.crc, other.records_count) == (7, 2**32 - 1, header.records_count)
    assert (other != header, other.replace(producer_id=header.producer_id, crc=header.crc) == header) == (True, True)
    assert header.fields() == struct.unpack_from(">qiibIhiqqqhii", FOREIGN["java none"])
    assert "producer_id=7" in repr(other)
    with pytest.raises(TypeError):
        header.replace(no_field=1)


def test_iter_batches_walks_whole_batches_and_stops_at_a_partial_one() -> None:
    first, second = FOREIGN["java none"], FOREIGN["java zstd"]
    found = list(iter_batches(first + second + first[:70]))
    assert [(header, bytes(view)) for header, view in found] == [(read_header(first), first), (read_header(second), second)]
    assert list(iter_batches(first[:-1])) == []
    assert list(iter_batches(b"")) == []


@pytest.mark.parametrize(("position", "value"), [(8, b"\xff\xff\xff\xff"), (8, b"\0\0\0\x30"), (16, b"\1"), (16, b"\3")])
def test_iter_batches_refuses_what_cannot_be_a_batch(position: int, value: bytes) -> None:
    data = bytearray(FOREIGN["java none"])
    data[position : position + len(value)] = value
    with pytest.raises(CorruptBatch):
        list(iter_batches(data))


def test_built_batches_are_kafkas_byte_for_byte() -> None:
    records = sample_records(4)
    assert build_batch(records) == FOREIGN["java none"]
    assert build_batch(records[:3], producer_id=4711, producer_epoch=2, base_sequence=7) == FOREIGN["java idempotent"]


def test_built_attributes_and_offsets() -> None:
    data = build_batch(
        [Record(77, 5, b"k", None)],
        base_offset=9,
        codec=4,
        timestamp_type=1,
        producer_id=3,
        producer_epoch=1,
        transactional=True,
        control=True,
        partition_leader_epoch=6,
    )
    header = read_header(data)
    assert (header.codec, header.timestamp_type, header.is_transactional, header.is_control) == (4, 1, True, True)
    assert (header.base_offset, header.last_offset, header.next_offset, header.partition_leader_epoch) == (9, 9, 10, 6)
    assert not header.has_delete_horizon
    assert check_crc(data, header)


def test_a_batch_without_records_cannot_be_built() -> None:
    with pytest.raises(ValueError):
        build_batch([])
