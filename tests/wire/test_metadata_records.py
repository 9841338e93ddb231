"""Bytes of metadata records: Kafka's own come out again as they were, and what is no record is an error."""

from __future__ import annotations

import pytest

from ottla.wire import metadata_records as records
from ottla.wire.batch import iter_batches, read_header
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.leader_change_message import LeaderChangeMessage, Voter
from ottla.wire.messages.internal.no_op_record import NoOpRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.internal.partition_record import PartitionRecord
from ottla.wire.messages.internal.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.internal.topic_record import TopicRecord
from ottla.wire.metadata_records import MetadataError
from ottla.wire.primitives import WireStruct
from ottla.wire.records import Record, build_batch, decode_records
from tests.kafka_directories import kafka_files

_PARTS = [(name, path) for name in ("static", "dynamic") for path in kafka_files(name) if path.endswith((".log", ".checkpoint"))]


@pytest.mark.parametrize(("name", "path"), _PARTS)
def test_what_kafka_wrote_is_written_the_same(name: str, path: str) -> None:
    seen = 0
    for header, batch in iter_batches(kafka_files(name)[path]):
        for record in decode_records(batch):
            if header.is_control:
                control = records.decode_control(record)
                again = records.build_control([(control.type, control.message)], record.timestamp_ms)
                (copy,) = decode_records(again)
                assert (copy.key, copy.value) == (record.key, record.value)
                assert read_header(again).attributes == header.attributes
            else:
                made = records.decode_value(record.value)
                # Kafka writes this one in the lowest version that holds what it says; we never write it.
                if type(made).__name__ != "BrokerRegistrationChangeRecord":
                    assert records.encode_value(made, records.METADATA_VERSION) == record.value
                seen += 1
    assert seen


@pytest.mark.parametrize(
    ("record", "metadata_version", "version"),
    [
        (PartitionRecord(), 33, 2),
        (PartitionRecord(), 23, 2),
        (PartitionRecord(), 22, 1),
        (PartitionRecord(), 16, 0),
        (PartitionChangeRecord(), 17, 1),
        (RegisterBrokerRecord(), 30, 4),
        (RegisterBrokerRecord(), 29, 3),
        (RegisterBrokerRecord(), 8, 2),
        (RegisterBrokerRecord(), 7, 1),
        (TopicRecord(), 33, 0),
    ],
)
def test_records_are_written_in_the_version_that_the_cluster_has_agreed_on(
    record: WireStruct, metadata_version: int, version: int
) -> None:
    value = records.encode_value(record, metadata_version)
    assert value[2] == version
    assert records.decode_value(value) == record


def test_several_records_are_one_batch_without_keys() -> None:
    batch = records.build_records([NoOpRecord(), ConfigRecord(2, "t", "a", None)], 33, 5)
    (found,) = iter_batches(batch)
    assert found[0].records_count == 2
    decoded = decode_records(batch)
    assert [(record.key, record.timestamp_ms) for record in decoded] == [(None, 5), (None, 5)]
    assert records.decode_value(decoded[1].value) == ConfigRecord(2, "t", "a", None)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\x01",
        b"\x02\x14\x00\x00",  # frame version 2
        b"\x01\x06\x00\x00",  # kind 6 was never a record
        b"\x01\x7f\x00\x00",
        b"\x01\x14\x05\x00",  # NoOpRecord version 5
        b"\x01\x14\x00\x00\x00",  # one byte too many
        b"\x01\x02\x00\x05ab",  # a name that ends too early
    ],
)
def test_bytes_that_are_no_record_are_an_error(value: bytes | None) -> None:
    with pytest.raises(MetadataError):
        records.decode_value(value)


def test_every_cut_of_a_record_is_an_error() -> None:
    value = records.encode_value(PartitionRecord(1, bytes(16), [1, 2], [1], directories=[b"d" * 16]), 33)
    for size in range(len(value)):
        with pytest.raises(MetadataError):
            records.decode_value(value[:size])


def test_control_records() -> None:
    me = Voter(1, b"d" * 16)
    message = LeaderChangeMessage(1, 7, [me], [me])
    (record,) = decode_records(records.build_control([(records.LEADER_CHANGE, message)], 5))
    assert record.key == b"\0\0\0\x02"
    assert records.decode_control(record) == (records.LEADER_CHANGE, message)
    assert records.decode_control(Record(0, 0, b"\0\0\0\x63", b"?")) == (99, None)  # of a newer Kafka


@pytest.mark.parametrize(
    "record",
    [
        Record(0, 0, None, b""),
        Record(0, 0, b"\0\0\0\x02", b""),
        Record(0, 0, b"\0\0\0\x02", b"\0\0\0"),
        Record(0, 0, b"\0\0\0\x05", None),
    ],
)
def test_control_records_that_cannot_be_read(record: Record) -> None:
    with pytest.raises(MetadataError):
        records.decode_control(record)


def test_encoded_records_are_a_batch_like_any_other() -> None:
    values = [b"", b"v" * 63, b"w" * 64, *[b"x" * 300] * 200]
    plain = build_batch([Record(0, 1_800_000_000_000, None, value, []) for value in values])
    assert records.build_encoded(values, 1_800_000_000_000) == plain
