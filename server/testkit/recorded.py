"""Shows recorded requests (recording.py) as JSON has them: decoded, or as the frames that they were.

Structs are objects by the names of `ottla.wire.messages`, uuids are texts as Kafka writes them, bytes are a text if they are one,
without control characters, and else `{"base64": ...}`. Records are a list of batches, each with the fields of its header and,
where records are kept, its records.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ottla.server.dispatch.route import SIZE_BYTES
from ottla.server.inspect.texts import text_of
from ottla.server.requests.session import UNKNOWN_SOFTWARE
from ottla.server.testkit.entities import messages_of
from ottla.wire.api import APIS
from ottla.wire.batch import iter_batches
from ottla.wire.compression import NAMES
from ottla.wire.frame import MALFORMED
from ottla.wire.header import decode_request_header, decode_response_header
from ottla.wire.primitives import ZERO_UUID, WireStruct, uuid_to_text
from ottla.wire.records import Record, decode_records

if TYPE_CHECKING:
    from ottla.server.testkit.recording import Entry

RECORDS: Final = "records"
"""The name of the fields that hold batches."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def name_of(api_key: int) -> str:
    """Returns the name of an API, or its key as text if there is none."""
    return APIS[api_key].name if api_key in APIS else str(api_key)


def decode_request(entry: Entry) -> Any:
    """Decodes the body of a request; returns None if it is not kept, or does not decode."""
    if not entry.has_body:
        return None
    try:
        header, start = decode_request_header(entry.frame, 0)
        return messages_of(APIS[header.api_key]).DECODE_REQUEST[header.api_version](entry.frame, start)[0]
    except (*MALFORMED, KeyError):
        return None


def decode_answer(entry: Entry) -> Any:
    """Decodes the body of an answer; returns None if there is none, or it is not kept. Records that are not kept are zeros."""
    if entry.answer is None:
        return None
    frame = b"".join(part if isinstance(part, bytes) else bytes(part) for part in entry.answer)
    key, version, *_ = entry.header
    try:
        _, start = decode_response_header(key, version, frame, SIZE_BYTES)
        return messages_of(APIS[key]).DECODE_RESPONSE[version](frame, start)[0]
    except (*MALFORMED, KeyError):
        return None


def show(entry: Entry, *, records: bool) -> dict[str, Any]:
    """Returns a request as `GET /v1/requests` answers it, with or without the records of its batches."""
    header = entry.header
    software = entry.session.client_software
    request, answer = decode_request(entry), decode_answer(entry)
    whole = entry.answer is None or all(isinstance(part, bytes) for part in entry.answer)
    return {
        "seq": entry.seq,
        "at_ms": entry.at_ms,
        "node": entry.node,
        "connection": entry.connection,
        "client_id": header.client_id,
        "software": None if software == UNKNOWN_SOFTWARE else " ".join(software),
        "host": entry.session.client_host,
        "api": name_of(header.api_key),
        "version": header.api_version,
        "correlation_id": header.correlation_id,
        "outcome": entry.outcome,
        "took_us": entry.took_ns // 1000,
        "fault": entry.fault,
        "request_bytes": entry.frame_bytes,
        "response_bytes": entry.answer_bytes,
        "request": None if request is None else _fields(request, records=records, batches=True),
        "response": None if answer is None else _fields(answer, records=records, batches=whole),
    }


def show_frames(entry: Entry) -> dict[str, Any]:
    """Returns a request with its frames as they were sent, sizes included, in base64; None is for what is not kept."""
    header, answer = entry.header, entry.answer
    request = len(entry.frame).to_bytes(SIZE_BYTES, "big") + entry.frame if entry.has_body else None
    parts = [part for part in answer or () if isinstance(part, bytes)]
    whole = answer is not None and len(parts) == len(answer)
    return {
        "seq": entry.seq,
        "connection": entry.connection,
        "api": name_of(header.api_key),
        "version": header.api_version,
        "outcome": entry.outcome,
        "request": _base64(request),
        "response": _base64(b"".join(parts)) if whole else None,
    }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _fields(message: WireStruct, *, records: bool, batches: bool) -> dict[str, Any]:
    kind: Any = type(message)  # mypy takes classes of unhashable objects for unhashable
    uuids = _uuids_of(kind)
    shown: dict[str, Any] = {}
    for name in message.__slots__:
        value = getattr(message, name)
        if name == RECORDS and isinstance(value, (bytes, bytearray, memoryview)):
            shown[name] = _batches(value, records=records) if batches else {"bytes": len(value)}
        else:
            shown[name] = _value(value, name in uuids, records=records, batches=batches)
    return shown


def _value(value: Any, is_uuid: bool, *, records: bool, batches: bool) -> Any:
    if isinstance(value, WireStruct):
        return _fields(value, records=records, batches=batches)
    if isinstance(value, (list, tuple)):
        return [_value(each, True, records=records, batches=batches) for each in value]  # bytes in lists are always uuids
    if isinstance(value, (bytes, bytearray, memoryview)):
        return uuid_to_text(bytes(value)) if is_uuid else text_or_base64(bytes(value))
    return value


def text_or_base64(data: bytes | None) -> Any:
    """Returns bytes as other answers have them (texts.py), but also those with control characters as `{"base64": ...}`."""
    text = text_of(data)
    return {"base64": _base64(data)} if isinstance(text, str) and _CONTROL.search(text) else text


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
