"""Requests and answers as JSON has them.

Structs are objects by the names of `ottla.wire.messages`, uuids are texts as Kafka writes them, bytes are a text if they are one,
without control characters, and else `{"base64": ...}`. Records are a list of batches, each with the fields of its header and,
where records are wanted, its records.

What is shown of a message may be limited (`Room`): whoever sends it decides how long it is.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from typing import Any, Final

from ottla.server.inspect.texts import base64_of, text_of
from ottla.wire.batch import iter_batches
from ottla.wire.compression import NAMES
from ottla.wire.primitives import ZERO_UUID, WireStruct, uuid_to_text
from ottla.wire.records import Record, decode_records

RECORDS: Final = "records"
"""The name of the fields that hold batches."""
MOST_STRUCTS: Final = 200
"""So many structs and batches are shown in all where only the beginning of each list is."""
LONGEST: Final = 1_000
"""So many characters of each text are shown then; of more bytes than that, only how many they are."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Room:
    """The room that is left to show a message in: of each list the first `most` elements, and MOST_STRUCTS structs in all."""

    __slots__ = ("left", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.left = MOST_STRUCTS


def fields_of(message: WireStruct, *, records: bool, batches: bool, most: int | None = None) -> dict[str, Any]:
    """Returns the fields of a message, with the records of its batches or without. With `most`, it is shown shortened: of each
    list the first `most` elements, and of all else what MOST_STRUCTS and LONGEST say. Without `batches`, only the size is said of
    fields that hold them."""
    return _fields(message, records, batches, None if most is None else Room(most))


def _fields(message: WireStruct, records: bool, batches: bool, room: Room | None) -> dict[str, Any]:
    kind: Any = type(message)  # mypy takes classes of unhashable objects for unhashable
    uuids = _uuids_of(kind)
    shown: dict[str, Any] = {}
    for name in message.__slots__:
        value = getattr(message, name)
        if name == RECORDS and isinstance(value, (bytes, bytearray, memoryview)):
            shown[name] = _batches(value, records, room) if batches else {"bytes": len(value)}
        elif name == RECORDS and not isinstance(value, list) and hasattr(value, "__len__"):
            shown[name] = {"bytes": len(value)}  # a region of a file, which is not read for that
        else:
            shown[name] = _value(value, name in uuids, records, batches, room)
    return shown


def _value(value: Any, is_uuid: bool, records: bool, batches: bool, room: Room | None) -> Any:
    if isinstance(value, WireStruct):
        return _fields(value, records, batches, room)
    if isinstance(value, (list, tuple)):
        return _elements(value, records, batches, room)
    if room is not None and isinstance(value, (str, bytes, bytearray, memoryview)) and len(value) > LONGEST:
        return f"{value[:LONGEST]}…" if isinstance(value, str) else {"bytes": len(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return uuid_to_text(bytes(value)) if is_uuid else text_or_base64(bytes(value))
    return value


def _elements(values: list[Any] | tuple[Any, ...], records: bool, batches: bool, room: Room | None) -> list[Any]:
    shown = []
    for each in values if room is None else values[: room.most]:
        if room is not None and isinstance(each, WireStruct):
            if room.left <= 0:
                break
            room.left -= 1
        shown.append(_value(each, True, records, batches, room))  # bytes in lists are always uuids
    return shown


def text_or_base64(data: bytes | None) -> Any:
    """Returns bytes as other answers have them (texts.py), but also those with control characters as `{"base64": ...}`."""
    text = text_of(data)
    return {"base64": base64_of(data)} if data is not None and isinstance(text, str) and _CONTROL.search(text) else text


@cache
def _uuids_of(kind: Any) -> frozenset[str]:
    """Returns the names of a struct's fields that are uuids, which their defaults show."""
    defaults = kind()
    return frozenset(name for name in kind.__slots__ if getattr(defaults, name) == ZERO_UUID)


def _batches(data: bytes | bytearray | memoryview, records: bool, room: Room | None) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    try:
        for header, batch in islice(iter_batches(data), None if room is None else min(room.most, max(0, room.left))):
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
    if room is not None:
        room.left -= len(shown)
    return shown


def _record(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
        "headers": [[name, text_or_base64(value)] for name, value in record.headers],
    }
