"""Encodes and decodes the records of `__consumer_offsets`, of groups of all kinds and of offsets, in Kafka's own schemas.

A key begins with an int16 for its type (the schema's apiKey: 1 is OffsetCommitKey, 2 GroupMetadataKey, and 0 an OffsetCommitKey
of very old versions); a value begins with an int16 schema version. A record without a value is a tombstone. The versions written
are those that were found in the log of Kafka 4.4.0: OffsetCommitValue 4 (with the topic id in a tagged field; or 1 if the client
set a retention time, which only that version can hold), and GroupMetadataValue 3.

Records of the newer protocols are ProtocolRecords, with any key and value of their schemas, whose modules are imported when the
first such record is read or written. Their value versions are all 0 in Kafka 4.4.0. Records with unknown keys are ignored.
"""

from __future__ import annotations

import importlib
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from ottla.server.group.kind import Kind
from ottla.wire.batch import wrap
from ottla.wire.messages.internal import group_metadata_key, group_metadata_value, offset_commit_key, offset_commit_value
from ottla.wire.messages.internal.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.internal.group_metadata_value import GroupMetadataValue
from ottla.wire.messages.internal.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.internal.offset_commit_value import OffsetCommitValue
from ottla.wire.primitives import ZERO_UUID, Buffer, WireStruct
from ottla.wire.records import Record, build_batch, varint

T = TypeVar("T")

OFFSET_COMMIT_LEGACY = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2

OFFSET_COMMIT_VALUE_VERSION = 4
OFFSET_COMMIT_VALUE_VERSION_EXPIRING = 1
GROUP_METADATA_VALUE_VERSION = 3

_INT16 = struct.Struct(">h")
_PREFIX = [_INT16.pack(version) for version in range(24)]

_USUAL: Final = struct.Struct(">iBhqiBqBBB16sB")
"""The layout of the end of a commit's record: partition; size of the value; OffsetCommitValue 4 with version, offset, leader
epoch, metadata, commit timestamp and the topic id as a tagged field; number of headers."""
_PARTITION_BYTES: Final = 4
_USUAL_SIZE: Final = (_USUAL.size - _PARTITION_BYTES - 2) << 1  # as a varint, which is twice the number below 64
_EMPTY_TEXT: Final = 1
_TAGS: Final = 1  # the number of tagged fields
_TOPIC_ID_TAG: Final = 0
_TOPIC_ID_BYTES: Final = 16
_NO_HEADERS: Final = 0
_MOST_USUAL: Final = 64  # so that an offset delta takes one byte

_CONSUMER, _SHARE, _STREAMS = Kind.CONSUMER, Kind.SHARE, Kind.STREAMS
_SCHEMAS: Final[dict[int, tuple[Kind, str]]] = {
    3: (_CONSUMER, "consumer_group_metadata"),
    4: (_CONSUMER, "consumer_group_partition_metadata"),
    5: (_CONSUMER, "consumer_group_member_metadata"),
    6: (_CONSUMER, "consumer_group_target_assignment_metadata"),
    7: (_CONSUMER, "consumer_group_target_assignment_member"),
    8: (_CONSUMER, "consumer_group_current_member_assignment"),
    10: (_SHARE, "share_group_member_metadata"),
    11: (_SHARE, "share_group_metadata"),
    12: (_SHARE, "share_group_target_assignment_metadata"),
    13: (_SHARE, "share_group_target_assignment_member"),
    14: (_SHARE, "share_group_current_member_assignment"),
    15: (_SHARE, "share_group_state_partition_metadata"),
    16: (_CONSUMER, "consumer_group_regular_expression"),
    17: (_STREAMS, "streams_group_metadata"),
    19: (_STREAMS, "streams_group_member_metadata"),
    20: (_STREAMS, "streams_group_target_assignment_metadata"),
    21: (_STREAMS, "streams_group_target_assignment_member"),
    22: (_STREAMS, "streams_group_current_member_assignment"),
    23: (_STREAMS, "streams_group_topology"),
}
"""For each api key of a key, the kind of group that the record belongs to, and the name that its schemas begin with."""


class OffsetRecord(WireStruct):
    """The offset that a group committed for one partition, or a tombstone if `value` is None."""

    __slots__ = ("key", "value")

    def __init__(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        self.key = key
        self.value = value

    @property
    def group_id(self) -> str:
        return self.key.group


class MetadataRecord(NamedTuple):
    """A classic group between two rebalances, or a tombstone if `value` is None."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None

    @property
    def group_id(self) -> str:
        return self.key.group

    @property
    def kind(self) -> Kind:
        return Kind.CLASSIC


class ProtocolRecord(NamedTuple):
    """A record of a group of a newer protocol, or a tombstone if `value` is None. Keys and values are those of
    wire/messages/internal.
    """

    key: WireStruct
    value: WireStruct | None
    encoded: Record | None = None
    """The record as it is written, if it was encoded ahead (`encode_ahead`)."""

    @property
    def group_id(self) -> str:
        group_id: str = self.key.group_id  # type: ignore[attr-defined]  # all keys of _SCHEMAS have one
        return group_id

    @property
    def kind(self) -> Kind:
        return _SCHEMAS[_schema(self.key).API_KEY][0]


GroupRecord = OffsetRecord | MetadataRecord | ProtocolRecord


def _schema(message: WireStruct) -> Any:
    """Returns the generated module that a message comes from."""
    return sys.modules[type(message).__module__]


def offset_tombstone(group_id: str, topic: str, partition: int) -> OffsetRecord:
    return OffsetRecord(OffsetCommitKey(group_id, topic, partition), None)


def group_tombstone(group_id: str) -> MetadataRecord:
    return MetadataRecord(GroupMetadataKey(group_id), None)


class InTransaction(NamedTuple):
    """The transaction that records are part of: they count once it is committed."""

    producer_id: int
    producer_epoch: int


def encode_batch(
    records: Sequence[GroupRecord], timestamp_ms: int, codec: int = 0, transaction: InTransaction | None = None
) -> bytes:
    """Encodes `records` as one batch, so that they take effect together or not at all. As in Kafka, its base sequence is 0."""
    if transaction is None and (section := _usual_section(records)) is not None:
        return wrap(section, len(records), timestamp_ms, timestamp_ms, codec=codec, base_sequence=0)
    encoded = [encode_record(record, timestamp_ms) for record in records]
    if transaction is None:
        return build_batch(encoded, codec=codec, base_sequence=0)
    return build_batch(
        encoded,
        codec=codec,
        base_sequence=0,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transactional=True,
    )


def encode_ahead(record: GroupRecord, timestamp_ms: int) -> GroupRecord:
    """Returns a record of a newer protocol with its encoding, which takes long if it is large, so that `encode_batch` need not
    do that together with what else there is to do. Other records are returned as they are."""
    if isinstance(record, ProtocolRecord) and record.encoded is None:
        return ProtocolRecord(record.key, record.value, encode_record(record, timestamp_ms))
    return record


def encode_record(record: GroupRecord, timestamp_ms: int) -> Record:
    """Returns a record of a group as it is written."""
    out: list[Buffer]
    value: list[Buffer] | None = None
    if isinstance(record, ProtocolRecord):
        if record.encoded is not None:
            return record.encoded
        schema = _schema(record.key)
        out = [_PREFIX[schema.API_KEY]]
        schema.ENCODE[0](record.key, out)
        if record.value is not None:
            value = [_PREFIX[0]]
            _schema(record.value).ENCODE[0](record.value, value)
    elif isinstance(record, OffsetRecord):
        out = [_PREFIX[OFFSET_COMMIT]]
        offset_commit_key.ENCODE[0](record.key, out)
        if record.value is not None:
            version = OFFSET_COMMIT_VALUE_VERSION if record.value.expire_timestamp == -1 else OFFSET_COMMIT_VALUE_VERSION_EXPIRING
            value = [_PREFIX[version]]
            offset_commit_value.ENCODE[version](record.value, value)
    else:
        out = [_PREFIX[GROUP_METADATA]]
        group_metadata_key.ENCODE[0](record.key, out)
        if record.value is not None:
            value = [_PREFIX[GROUP_METADATA_VALUE_VERSION]]
            group_metadata_value.ENCODE[GROUP_METADATA_VALUE_VERSION](record.value, value)
    return Record(0, timestamp_ms, b"".join(out), None if value is None else b"".join(value), [])


@lru_cache(1024)
def _usual_parts(group: str, topic: str) -> tuple[bytes, bytes]:
    """Returns the bytes before and after the offset delta in a record that `_usual_section` writes; the partition comes next."""
    out: list[Buffer] = [_PREFIX[OFFSET_COMMIT]]
    offset_commit_key.ENCODE[0](OffsetCommitKey(group, topic, 0), out)
    key = b"".join(out)
    sized_key = varint(len(key)) + key[:-_PARTITION_BYTES]
    attributes_and_timestamp = b"\0\0"
    size = len(attributes_and_timestamp) + 1 + len(sized_key) + _USUAL.size
    return varint(size) + attributes_and_timestamp, sized_key


def _usual_section(records: Sequence[GroupRecord]) -> bytes | None:
    """Encodes the records of a usual commit in one go, since encoding is most of the cost of a commit. Every record must have a
    value without metadata, a topic with an id, and no retention time of its own; otherwise this returns None.
    """
    if len(records) > _MOST_USUAL:
        return None
    parts: list[bytes] = []
    group, topic, before, sized_key = None, None, b"", b""
    for delta, record in enumerate(records):
        if not isinstance(record, OffsetRecord):
            return None
        key, value = record.key, record.value
        if value is None or value.metadata or value.expire_timestamp != -1 or value.topic_id == ZERO_UUID:
            return None
        if key.topic != topic or key.group != group:
            group, topic = key.group, key.topic
            before, sized_key = _usual_parts(group, topic)
        parts += (before, varint(delta), sized_key)
        parts.append(
            _USUAL.pack(
                key.partition,
                _USUAL_SIZE,
                OFFSET_COMMIT_VALUE_VERSION,
                value.offset,
                value.leader_epoch,
                _EMPTY_TEXT,
                value.commit_timestamp,
                _TAGS,
                _TOPIC_ID_TAG,
                _TOPIC_ID_BYTES,
                value.topic_id,
                _NO_HEADERS,
            )
        )
    return b"".join(parts)


def decode(key: Buffer, value: Buffer | None) -> GroupRecord | None:
    """Decodes a record that was read from the log. Returns None for a type that this module does not know.

    Raises ValueError, IndexError or struct.error (wire.frame.MALFORMED) for bytes that do not follow their schema.
    """
    kind: int = _INT16.unpack_from(key)[0]
    if kind in (OFFSET_COMMIT, OFFSET_COMMIT_LEGACY):
        offset_key, _ = offset_commit_key.DECODE[0](key, 2)
        return OffsetRecord(offset_key, _decode_value(offset_commit_value.DECODE, value, "OffsetCommitValue"))
    if kind == GROUP_METADATA:
        group_key, _ = group_metadata_key.DECODE[0](key, 2)
        return MetadataRecord(group_key, _decode_value(group_metadata_value.DECODE, value, "GroupMetadataValue"))
    return _decode_protocol_record(kind, key, value) if kind in _SCHEMAS else None


def _decode_protocol_record(kind: int, key: Buffer, value: Buffer | None) -> ProtocolRecord:
    schema = _SCHEMAS[kind][1]
    name = f"ottla.wire.messages.internal.{schema}"
    message, _ = importlib.import_module(f"{name}_key").DECODE[0](key, 2)
    return ProtocolRecord(message, _decode_value(importlib.import_module(f"{name}_value").DECODE, value, schema))


def _decode_value(versions: Mapping[int, Callable[[Buffer, int], tuple[T, int]]], value: Buffer | None, schema: str) -> T | None:
    if value is None:
        return None
    version: int = _INT16.unpack_from(value)[0]
    decode_version = versions.get(version)
    if decode_version is None:
        raise ValueError(f"{schema} version {version} is unknown")
    return decode_version(value, 2)[0]
