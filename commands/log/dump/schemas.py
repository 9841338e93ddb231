"""Decodes the records of Kafka's own topics for `ottla log dump`.

| topic | key | value |
|---|---|---|
| `__consumer_offsets` | int16 kind, then the key's message | int16 version, then the value's message |
| `__transaction_state`, `__share_group_state` | the same | the same |
| `__cluster_metadata` | none | frame, kind, version, message (wire/metadata_records.py) |

Every kind of record that Kafka 4.4 defines is known, including those of protocols that our broker does not speak. In the dump a
message is an object under its name: `{"OffsetCommitKey": {"group": "g", "topic": "t", "partition": 0}}`. What the members of a
classic group say about themselves (subscription, assignment) is decoded if it belongs to the consumer protocol.

Dumps are shown to others, so passwords in the metadata log (SCRAM credentials, and settings of brokers that are secrets) are
printed as `(secret)` unless the user asks for them. The caller passes in which settings are secrets, since it knows the broker's
settings; if it does not, all of them are treated as secrets.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from ottla.commands.consumer_protocol import ASSIGNMENT, SUBSCRIPTION, whole_message
from ottla.commands.record_text import bytes_to_json
from ottla.log.disk.checkpoint import uuid_text
from ottla.wire import metadata_records
from ottla.wire.frame import MALFORMED
from ottla.wire.metadata_records import MetadataError
from ottla.wire.primitives import WireStruct
from ottla.wire.records import Record

Decoder = Callable[[Record], dict[str, Any]]

IsSecret = Callable[[str], bool]
"""Returns whether the value of the broker setting with this name is a secret."""


class Undecodable(Exception):
    """Raised for bytes that do not follow their schema."""


class Schema(StrEnum):
    """`--decode`."""

    AUTO = "auto"
    NONE = "none"
    OFFSETS = "offsets"
    METADATA = "metadata"
    TRANSACTIONS = "transactions"
    SHARE = "share"


TOPICS: Final = {
    "__consumer_offsets": Schema.OFFSETS,
    "__cluster_metadata": Schema.METADATA,
    "__transaction_state": Schema.TRANSACTIONS,
    "__share_group_state": Schema.SHARE,
}

_OFFSETS: Final = {
    0: "offset_commit",  # as written before Kafka 0.9; the message is the same
    1: "offset_commit",
    2: "group_metadata",
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}
_TRANSACTIONS: Final = {0: "transaction_log"}
_SHARE: Final = {0: "share_snapshot", 1: "share_update"}

_CONTROL_NAMES: Final = {
    0: "ABORT",
    1: "COMMIT",
    metadata_records.LEADER_CHANGE: "LEADER_CHANGE",
    metadata_records.SNAPSHOT_HEADER: "SNAPSHOT_HEADER",
    metadata_records.SNAPSHOT_FOOTER: "SNAPSHOT_FOOTER",
    metadata_records.KRAFT_VERSION: "KRAFT_VERSION",
    metadata_records.KRAFT_VOTERS: "KRAFT_VOTERS",
}
_INT16: Final = struct.Struct(">h")
_CONTROL_KEY: Final = struct.Struct(">hh")
_SECRET: Final = "(secret)"
_BROKER: Final = 4  # the resource type of brokers in a ConfigRecord
_SCRAM_SECRETS: Final = ("salt", "stored_key", "server_key")
_UUIDS: Final = frozenset({"directories", "log_dirs", "id", "incarnation_id"})


def every_setting(_: str) -> bool:
    """Is an IsSecret for callers that do not know the settings, so that any of them may be a secret."""
    return True


def decoder_of(schema: Schema, topic: str | None, is_secret: IsSecret | None = every_setting) -> Decoder | None:
    """Returns the decoder for the records of a file, as the user says or by its topic. `is_secret` None shows all secrets."""
    if schema is Schema.AUTO:
        schema = TOPICS.get(topic or "", Schema.NONE)
    if schema is Schema.METADATA:
        return lambda record: metadata_fields(record, is_secret)
    kinds = {Schema.OFFSETS: _OFFSETS, Schema.TRANSACTIONS: _TRANSACTIONS, Schema.SHARE: _SHARE}.get(schema)
    return None if kinds is None else lambda record: keyed_fields(record, kinds)


def keyed_fields(record: Record, kinds: Mapping[int, str]) -> dict[str, Any]:
    """Decodes a record whose key says what it is. Raises Undecodable."""
    try:
        if record.key is None:
            raise Undecodable("it has no key")
        kind: int = _INT16.unpack_from(record.key)[0]
        stem = kinds.get(kind)
        if stem is None:
            raise Undecodable(f"key type {kind} is not known")
        key = _message(f"{stem}_key", 0, record.key)
        if record.value is None:
            return {"key": named(key), "value": None}
        version: int = _INT16.unpack_from(record.value)[0]
        return {"key": named(key), "value": named(_message(f"{stem}_value", version, record.value))}
    except MALFORMED as error:
        raise Undecodable(f"its bytes do not follow their schema: {error}") from None


def _message(name: str, version: int, data: bytes) -> WireStruct:
    """Decodes the message that follows an int16. Raises Undecodable, or one of MALFORMED."""
    decode = importlib.import_module(f"ottla.wire.messages.internal.{name}").DECODE.get(version)
    if decode is None:
        raise Undecodable(f"version {version} of {name} is not known")
    message: WireStruct
    message, end = decode(data, _INT16.size)
    if end != len(data):
        raise Undecodable(f"{name} takes {end} of {len(data)} bytes")
    return message


def metadata_fields(record: Record, is_secret: IsSecret | None) -> dict[str, Any]:
    """Decodes a record of the metadata log or of one of its snapshots. Raises Undecodable."""
    try:
        message = metadata_records.decode_value(record.value)
    except MetadataError as error:
        raise Undecodable(str(error)) from None
    fields = fields_of(message)
    if is_secret is not None:
        fields |= dict.fromkeys(_secrets(message, is_secret), _SECRET)
    return {"key": plain(record.key), "value": {type(message).__name__: fields}}


def metadata_message(record: Record) -> WireStruct | None:
    """Returns the message in a record of the metadata log; None if it cannot be decoded."""
    try:
        return metadata_records.decode_value(record.value)
    except MetadataError:
        return None


def _secrets(message: Any, is_secret: IsSecret) -> Sequence[str]:
    """Returns the names of a metadata record's fields that not everybody should see."""
    match type(message).__name__:
        case "UserScramCredentialRecord":
            return _SCRAM_SECRETS
        case "ConfigRecord" if message.resource_type == _BROKER and message.value is not None:
            return ("value",) if is_secret(message.name) else ()
    return ()


def control_fields(record: Record) -> dict[str, Any]:
    """Decodes a control record: the end of a transaction, or one of the metadata log's own. Raises Undecodable."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise Undecodable("a control record without a key")
    _, kind = _CONTROL_KEY.unpack_from(record.key)
    fields: dict[str, Any] = {"control": _CONTROL_NAMES.get(kind, f"unknown ({kind})")}
    if kind in (0, 1):
        from ottla.wire.messages.internal import end_txn_marker

        try:
            marker, _ = end_txn_marker.DECODE[0](record.value or b"", _INT16.size)
        except MALFORMED as error:
            raise Undecodable(f"the marker cannot be read: {error}") from None
        return fields | {"value": named(marker)}
    try:
        message = metadata_records.decode_control(record).message
    except MetadataError as error:
        raise Undecodable(str(error)) from None
    return fields | {"value": plain(record.value) if message is None else named(message)}


# Messages as JSON


def plain(data: bytes | None) -> Any:
    return bytes_to_json(data)


def named(message: WireStruct) -> dict[str, Any]:
    return {type(message).__name__: fields_of(message)}


def fields_of(message: WireStruct) -> dict[str, Any]:
    return {name: _value(name, getattr(message, name)) for name in message.__slots__}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, WireStruct):
        return fields_of(value)
    if isinstance(value, list | tuple):
        return [_value(name, one) for one in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes_value(name, bytes(value))
    return value


def _bytes_value(name: str, data: bytes) -> Any:
    if len(data) == 16 and (name.endswith(("_id", "_ids")) or name in _UUIDS):
        return uuid_text(data)
    if name in {SUBSCRIPTION, ASSIGNMENT}:
        return _consumer_protocol(name, data)
    return plain(data)


def _consumer_protocol(name: str, data: bytes) -> Any:
    """Decodes a member's subscription or assignment. Bytes of other protocols, such as Kafka Connect's, stay as they are."""
    message = whole_message(name, data)
    return plain(data) if message is None else fields_of(message)
