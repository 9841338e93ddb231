"""Produce about one partition, which nearly all requests of a busy producer are: its request and its answer, in one piece.

These codecs read and write what the generated ones of wire/messages/produce.py do, and nothing else: where anything is less
usual (several partitions, tagged fields, errors with a text, bytes that end too early) they leave it to the generated ones. They
read `bytes` in machine integers, without `struct` and without views, which takes a third of the time. A test compares them with
the generated ones, request by request, valid and broken.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from mypy_extensions import i64

from ottla.wire.integers import int16_at, int32_at
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    decode_produce_request_v3,
    decode_produce_request_v9,
    decode_produce_request_v13,
    encode_produce_response_v3,
    encode_produce_response_v5,
    encode_produce_response_v8,
    encode_produce_response_v9,
    encode_produce_response_v10,
    encode_produce_response_v13,
)
from ottla.wire.primitives import UV, ZERO_UUID, Buffer, Parts

Decode = Callable[[Buffer, int], tuple[ProduceRequest, int]]
Encode = Callable[[ProduceResponse, Parts], None]
_UUID_BYTES: Final = 16
_FIXED: Final = 6  # the bytes of acks and timeout

# -- requests ----------------------------------------------------------------------------------------------------------


def decode_v3(buf: Buffer, pos: int) -> tuple[ProduceRequest, int]:
    request = read_fixed(buf, pos) if type(buf) is bytes else None
    return decode_produce_request_v3(buf, pos) if request is None else (request, len(buf))


def decode_v9(buf: Buffer, pos: int) -> tuple[ProduceRequest, int]:
    request = read_flexible(buf, pos, by_id=False) if type(buf) is bytes else None
    return decode_produce_request_v9(buf, pos) if request is None else (request, len(buf))


def decode_v13(buf: Buffer, pos: int) -> tuple[ProduceRequest, int]:
    request = read_flexible(buf, pos, by_id=True) if type(buf) is bytes else None
    return decode_produce_request_v13(buf, pos) if request is None else (request, len(buf))


def read_fixed(buf: bytes, pos: i64) -> ProduceRequest | None:
    """Returns the request of v3 to v8 that begins at `pos` and ends with the buffer; None if it is not about one partition."""
    end: i64 = len(buf)
    if end - pos < 2:
        return None
    size: i64 = int16_at(buf, pos)
    pos += 2
    transactional_id: str | None = None
    if size >= 0:
        if size > end - pos:
            return None
        transactional_id = buf[pos : pos + size].decode("utf-8", "replace")
        pos += size
    if end - pos < _FIXED + 6 or int32_at(buf, pos + _FIXED) != 1:
        return None
    acks: i64 = int16_at(buf, pos)
    timeout_ms: i64 = int32_at(buf, pos + 2)
    size = int16_at(buf, pos + _FIXED + 4)
    pos += _FIXED + 6
    if size < 0 or end - pos - size < 12 or int32_at(buf, pos + size) != 1:
        return None
    name = buf[pos : pos + size].decode("utf-8", "replace")
    pos += size
    index: i64 = int32_at(buf, pos + 4)
    size = int32_at(buf, pos + 8)
    pos += 12
    if size < 0 or size != end - pos:
        return None
    topic = TopicProduceData(name, ZERO_UUID, [PartitionProduceData(int(index), buf[pos:end])])
    return ProduceRequest(transactional_id, int(acks), int(timeout_ms), [topic])


def read_flexible(buf: bytes, pos: i64, by_id: bool) -> ProduceRequest | None:
    """Does what `read_fixed` does for v9 and newer ones; with `by_id` the topic has its id in place of its name (v13)."""
    end: i64 = len(buf)
    size, pos = _length(buf, pos, end)
    if size > end - pos:
        return None
    transactional_id: str | None = None
    if size >= 0:
        transactional_id = buf[pos : pos + size].decode("utf-8", "replace")
        pos += size
    if end - pos < _FIXED + 2 or buf[pos + _FIXED] != 2:  # one topic
        return None
    acks: i64 = int16_at(buf, pos)
    timeout_ms: i64 = int32_at(buf, pos + 2)
    pos += _FIXED + 1
    name, topic_id = "", ZERO_UUID
    if by_id:
        size = _UUID_BYTES
    else:
        size, pos = _length(buf, pos, end)
    if size < 0 or end - pos - size < 5 or buf[pos + size] != 2:  # one partition
        return None
    if by_id:
        topic_id = buf[pos : pos + size]
    else:
        name = buf[pos : pos + size].decode("utf-8", "replace")
    pos += size + 1
    index: i64 = int32_at(buf, pos)
    size, pos = _length(buf, pos + 4, end)
    if size < 0 or size + 3 != end - pos or buf[end - 3] or buf[end - 2] or buf[end - 1]:  # tagged fields
        return None
    topic = TopicProduceData(name, topic_id, [PartitionProduceData(int(index), buf[pos : pos + size])])
    return ProduceRequest(transactional_id, int(acks), int(timeout_ms), [topic])


def _length(buf: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Returns the compact length at `at`, -1 for null, and the position after it. One that does not end within four bytes, or
    before `end`, is longer than anything here."""
    value: i64 = 0
    shift: i64 = 0
    while at < end and shift < 28:
        byte: i64 = buf[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value - 1, at
        shift += 7
    return end + 1, end


# -- answers -----------------------------------------------------------------------------------------------------------

_LENGTH: Final = Struct(">h")
_V3: Final = Struct(">iihqqi")
"""The part behind the topic's name: the number of partitions, index and error, offset, time, and the throttle time."""
_V5: Final = Struct(">iihqqqi")
"""The same with the log's start before the throttle time."""
_V8: Final = Struct(">iihqqqihi")
"""The same with the number of records' errors and the length of a text before the throttle time."""
_V9: Final = Struct(">BihqqqBBBBiB")
"""The same with compact lengths, and with the tagged fields of the partition, the topic and the answer."""


def encode_v3(response: ProduceResponse, parts: Parts) -> None:
    if not _put_fixed(response, parts, 3):
        encode_produce_response_v3(response, parts)


def encode_v5(response: ProduceResponse, parts: Parts) -> None:
    if not _put_fixed(response, parts, 5):
        encode_produce_response_v5(response, parts)


def encode_v8(response: ProduceResponse, parts: Parts) -> None:
    if not _put_fixed(response, parts, 8):
        encode_produce_response_v8(response, parts)


def encode_v9(response: ProduceResponse, parts: Parts) -> None:
    if not _put_flexible(response, parts):
        encode_produce_response_v9(response, parts)


def encode_v10(response: ProduceResponse, parts: Parts) -> None:
    if not _put_flexible(response, parts):
        encode_produce_response_v10(response, parts)


def encode_v13(response: ProduceResponse, parts: Parts) -> None:
    if not _put_flexible(response, parts, by_id=True):
        encode_produce_response_v13(response, parts)


def single_answer(response: ProduceResponse) -> PartitionProduceResponse | None:
    """Returns the only answer for a partition, if that is all that the response says and it needs no words."""
    responses = response.responses
    if len(responses) != 1 or response.node_endpoints:
        return None
    answers = responses[0].partition_responses
    if len(answers) != 1:
        return None
    answer = answers[0]
    if answer.record_errors or answer.error_message is not None or answer.current_leader is not None:
        return None
    return answer


def _put_fixed(response: ProduceResponse, parts: Parts, version: i64) -> bool:
    """Appends an answer of v3 to v8; appends nothing and returns False where it is not about one partition alone."""
    answer = single_answer(response)
    if answer is None:
        return False
    name = response.responses[0].name.encode()
    parts.append(b"\0\0\0\1" + _LENGTH.pack(len(name)) + name)  # one topic
    index, code, offset, time_ms = answer.index, answer.error_code, answer.base_offset, answer.log_append_time_ms
    throttle_ms = response.throttle_time_ms
    if version < 5:
        parts.append(_V3.pack(1, index, code, offset, time_ms, throttle_ms))
    elif version < 8:
        parts.append(_V5.pack(1, index, code, offset, time_ms, answer.log_start_offset, throttle_ms))
    else:
        parts.append(_V8.pack(1, index, code, offset, time_ms, answer.log_start_offset, 0, -1, throttle_ms))
    return True


def _put_flexible(response: ProduceResponse, parts: Parts, *, by_id: bool = False) -> bool:
    """Does what `_put_fixed` does for v9 and newer ones; with `by_id` the topic has its id in place of its name (v13)."""
    answer = single_answer(response)
    if answer is None:
        return False
    topic = response.responses[0]
    if by_id:
        parts.append(b"\2" + topic.topic_id)
    else:
        name = topic.name.encode()
        parts.append(b"\2" + UV[len(name) + 1] + name)
    index, code, offset, time_ms = answer.index, answer.error_code, answer.base_offset, answer.log_append_time_ms
    parts.append(_V9.pack(2, index, code, offset, time_ms, answer.log_start_offset, 1, 0, 0, 0, response.throttle_time_ms, 0))
    return True


DECODE_REQUEST: Final[dict[int, Decode]] = {
    **dict.fromkeys(range(3, 9), decode_v3),
    **dict.fromkeys(range(9, 13), decode_v9),
    13: decode_v13,
}
ENCODE_RESPONSE: Final[dict[int, Encode]] = {
    **dict.fromkeys(range(3, 5), encode_v3),
    **dict.fromkeys(range(5, 8), encode_v5),
    8: encode_v8,
    9: encode_v9,
    **dict.fromkeys(range(10, 13), encode_v10),
    13: encode_v13,
}
