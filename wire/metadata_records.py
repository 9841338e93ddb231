"""Encodes and decodes the metadata log: records, control records, the first and last batch of snapshots. In Kafka this is
`MetadataRecordSerde` and part of the raft module.

A record's key is null; its value is `uvarint 1` (version of this frame), `uvarint` kind (the API key of the record's definition),
`uvarint` version, then the message. A control batch's record has the key `int16 version 0, int16 type` and a message as its
value, which begins with its own version field.

The version in which a record is written follows from the finalized `metadata.version`, so that a directory stays readable for the
Kafka that it came from (`_VERSIONS`, as observed in Kafka 4.4.0). Every version that Kafka 4.4 defines can be read.
"""

from __future__ import annotations

import functools
import importlib
import struct
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

from ottla.wire.batch import wrap
from ottla.wire.frame import MALFORMED
from ottla.wire.primitives import UV, Buffer, Parts, WireStruct, uvarint
from ottla.wire.records import Record, build_batch, encode_values

METADATA_VERSION: Final = 33  # 4.4-IV2, the newest that Kafka 4.4.0 finalizes
MIN_METADATA_VERSION: Final = 7  # 3.3-IV3, the oldest that Kafka 4 starts with
_FRAME_VERSION: Final = 1

_KINDS: Final[dict[int, str]] = {
    0: "register_broker_record",
    1: "unregister_broker_record",
    2: "topic_record",
    3: "partition_record",
    4: "config_record",
    5: "partition_change_record",
    7: "fence_broker_record",
    8: "unfence_broker_record",
    9: "remove_topic_record",
    10: "delegation_token_record",
    11: "user_scram_credential_record",
    12: "feature_level_record",
    14: "client_quota_record",
    15: "producer_ids_record",
    17: "broker_registration_change_record",
    18: "access_control_entry_record",
    19: "remove_access_control_entry_record",
    20: "no_op_record",
    21: "zk_migration_state_record",
    22: "remove_user_scram_credential_record",
    23: "begin_transaction_record",
    24: "end_transaction_record",
    25: "abort_transaction_record",
    26: "remove_delegation_token_record",
    27: "register_controller_record",
    28: "clear_elr_record",
    29: "unregister_controller_record",
}

# Record -> (lowest metadata.version, version of the record), newest first. Records that are not here are written in version 0.
_VERSIONS: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "PartitionRecord": ((23, 2), (17, 1), (0, 0)),
    "PartitionChangeRecord": ((23, 2), (17, 1), (0, 0)),
    "RegisterBrokerRecord": ((30, 4), (17, 3), (8, 2), (7, 1), (0, 0)),
    "BrokerRegistrationChangeRecord": ((30, 3), (17, 2), (7, 1), (0, 0)),
}

LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6

_CONTROL_TYPES: Final[dict[int, str]] = {
    LEADER_CHANGE: "leader_change_message",
    SNAPSHOT_HEADER: "snapshot_header_record",
    SNAPSHOT_FOOTER: "snapshot_footer_record",
    KRAFT_VERSION: "kraft_version_record",
    KRAFT_VOTERS: "voters_record",
}
_CONTROL_KEY: Final = struct.Struct(">hh")
_INT16: Final = struct.Struct(">h")


class MetadataError(Exception):
    """Metadata records cannot be read, or contradict earlier ones. A broker must not start with them."""


class ControlRecord(NamedTuple):
    """A control record. `message` is None for an unknown type, which a newer Kafka may add and readers skip."""

    type: int
    message: Any


@functools.cache
def _module(name: str) -> ModuleType:
    """Imports the module of a kind of record with the first such record: a broker meets a dozen of the thirty kinds."""
    return importlib.import_module(f"ottla.wire.messages.internal.{name}")


def version_of(record: WireStruct, metadata_version: int) -> int:
    """Returns the version in which `record` is written."""
    for lowest, version in _VERSIONS.get(type(record).__name__, ()):
        if metadata_version >= lowest:
            return version
    return 0


def encode_value(record: WireStruct, metadata_version: int) -> bytes:
    """Returns the value of a metadata record."""
    module: Any = sys.modules[type(record).__module__]
    version = version_of(record, metadata_version)
    out: Parts = [UV[_FRAME_VERSION], UV[module.API_KEY], UV[version]]
    module.ENCODE[version](record, out)
    return b"".join(out)


def decode_value(value: Buffer | None) -> WireStruct:
    """Returns the metadata record that `value` encodes. Raises MetadataError if it is not one of Kafka 4.4."""
    if value is None:
        raise MetadataError("a metadata record has no value")
    try:
        frame_version, pos = uvarint(value, 0)
        kind, pos = uvarint(value, pos)
        version, pos = uvarint(value, pos)
        if frame_version != _FRAME_VERSION or kind not in _KINDS:
            raise MetadataError(f"a metadata record of kind {kind} in frame version {frame_version} is not known")
        decode = _module(_KINDS[kind]).DECODE.get(version)
        if decode is None:
            raise MetadataError(f"{_KINDS[kind]} has version {version}, which is not known")
        record, end = decode(value, pos)
    except MALFORMED as error:
        raise MetadataError(f"a metadata record cannot be read: {error}") from error
    if end != len(value):
        raise MetadataError(f"a {type(record).__name__} takes {end} of {len(value)} bytes")
    assert isinstance(record, WireStruct)
    return record


def decode_control(record: Record) -> ControlRecord:
    """Returns the decoded control record. Raises MetadataError if its bytes do not follow their schema."""
    try:
        _, kind = _CONTROL_KEY.unpack_from(record.key or b"")
        name = _CONTROL_TYPES.get(kind)
        if name is None:
            return ControlRecord(kind, None)
        if record.value is None:
            raise ValueError(f"a {name} has no value")
        table = _module(name).DECODE
        version: int = _INT16.unpack_from(record.value)[0]
        message, _ = table[min(version, max(table))](record.value, 0)
    except (*MALFORMED, KeyError) as error:
        raise MetadataError(f"a control record of the metadata log cannot be read: {error!r}") from error
    return ControlRecord(kind, message)


def build_records(records: Iterable[WireStruct], metadata_version: int, timestamp_ms: int) -> bytes:
    """Returns one batch with these metadata records, which therefore take effect together or not at all."""
    return build_encoded([encode_value(record, metadata_version) for record in records], timestamp_ms)


def build_encoded(values: Sequence[bytes], timestamp_ms: int) -> bytes:
    """Returns one batch of metadata records that `encode_value` has encoded. There may be ten thousand of them, of one topic."""
    return wrap(encode_values(values), len(values), timestamp_ms, timestamp_ms)


def build_control(records: Sequence[tuple[int, WireStruct]], timestamp_ms: int) -> bytes:
    """Returns one control batch of (type, message). The `version` field of a message says in which version it is written."""
    built = []
    for kind, message in records:
        module: Any = sys.modules[type(message).__module__]
        out: Parts = []
        module.ENCODE[message.version](message, out)  # type: ignore[attr-defined]  # control messages have one
        built.append(Record(0, timestamp_ms, _CONTROL_KEY.pack(0, kind), b"".join(out)))
    return build_batch(built, control=True)
