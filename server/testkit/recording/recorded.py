"""Shows recorded requests (recording.py) as JSON has them: decoded (server/inspect/messages.py), or as the frames that they
were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.server.dispatch.route import SIZE_BYTES
from ottla.server.inspect.messages import fields_of
from ottla.server.inspect.texts import base64_of
from ottla.server.requests.session import UNKNOWN_SOFTWARE
from ottla.server.testkit.refusals.entities import messages_of
from ottla.wire.api import APIS
from ottla.wire.frame import MALFORMED
from ottla.wire.header import decode_request_header, decode_response_header

if TYPE_CHECKING:
    from ottla.server.testkit.recording.recording import Entry


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
        "request": None if request is None else fields_of(request, records=records, batches=True),
        "response": None if answer is None else fields_of(answer, records=records, batches=whole),
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
        "request": None if request is None else base64_of(request),
        "response": base64_of(b"".join(parts)) if whole else None,
    }
