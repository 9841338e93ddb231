"""Requests and answers as JSON has them.

Structs are objects by the names of `ottla.wire.messages`, uuids are texts as Kafka writes them, bytes are a text if they are one,
without control characters, and else `{"base64": ...}`. Records are a list of batches, each with the fields of its header and,
where records are wanted, its records.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from typing import Any, Final

from ottla.server.inspect.texts import text_of
from ottla.wire.batch import iter_batches
from ottla.wire.compression import NAMES
from ottla.wire.primitives import ZERO_UUID, WireStruct, uuid_to_text
from ottla.wire.records import Record, decode_records

RECORDS: Final = "records"
"""The name of the fields that hold batches."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def base64_of(data: bytes | None) -> str | None:
    """Returns bytes in base64."""
    return None if data is None else b64encode(data).decode()


def fields_of(message: WireStruct, *, records: bool, batches: bool, most: int | None = None) -> dict[str, Any]:
    """Returns the fields of a message, with the records of its batches or without, and of each list the first `most` elements.
    Without `batches`, only the size is said of fields that hold them."""
    kind: Any = type(message)  # mypy takes classes of unhashable objects for unhashable
    uuids = _uuids_of(kind)
    shown: dict[str, Any] = {}
    for name in message.__slots__:
        value = getattr(message, name)
        if name == RECORDS and isinstance(value, (bytes, bytearray, memoryview)):
            shown[name] = _batches(value, records=records)[:most] if batches else {"bytes": len(value)}
        elif name == RECORDS and not isinstance(value, list) and hasattr(value, "__len__"):
            shown[name] = {"bytes": len(value)}  # a region of a file, which is not read for that
        else:
            shown[name] = _value(value, name in uuids, records=records, batches=batches, most=most)
    return shown


def _value(value: Any, is_uuid: bool, *, records: bool, batches: bool, most: int | None) -> Any:
    if isinstance(value, WireStruct):
        return fields_of(value, records=records, batches=batches, most=most)
    if isinstance(value, (list, tuple)):
        # Bytes in lists are always uuids.
        return [_value(each, True, records=records, batches=batches, most=most) for each in value[:most]]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return uuid_to_text(bytes(value)) if is_uuid else text_or_base64(bytes(value))
    return value


def text_or_base64(data: bytes | None) -> Any:
    """Returns bytes as other answers have them (texts.py), but also those with control characters as `{"base64": ...}`."""
    text = text_of(data)
    return {"base64": base64_of(data)} if isinstance(text, str) and _CONTROL.search(text) else text


@cache
def _uuids_of(kind: Any) -> frozenset[str]:
    """Returns the names of a struct's fields that are uuids, which their defaults show."""
    defaults = kind()
    return frozenset(name for name in kind.__slots__ if getattr(defaults, name) == ZERO_UUID)


def _batches(data: bytes | bytearray | memoryview, *, records: bool) -> list[dict[str, Any]]:
    shown = []
    try:
        for header, batch in iter_batches(data):
            fields: dict[str, Any] = {
                "base_offset": header.base_offset,
                "count": header.records_count,
                "bytes": header.size,
                "compression": NAMES.get(header.codec, str(header.codec)),
                "max_timestamp": header.max_timestamp,
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "leader_epoch": header.partition_leader_epoch,
                "transactional": header.is_transactional,
                "control": header.is_control,
                "crc": header.crc,
            }
            if records:
                fields["records"] = [_record(record) for record in decode_records(batch)]
            shown.append(fields)
    except ValueError as error:  # CorruptBatch is one
        shown.append({"bad": str(error)})
    return shown


def _record(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
        "headers": [[name, text_or_base64(value)] for name, value in record.headers],
    }
