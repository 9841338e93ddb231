"""Both versions of both headers, and ApiVersions, whose answer keeps the oldest one."""

from __future__ import annotations

import pytest

from ottla.wire.api import APIS
from ottla.wire.frame import MALFORMED
from ottla.wire.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    is_flexible,
    read_request_header,
)

API_VERSIONS, PRODUCE, SASL_HANDSHAKE = 18, 0, 17


@pytest.mark.parametrize("client_id", [None, "", "a-client", "größe"])
@pytest.mark.parametrize(("api_key", "version"), [(PRODUCE, 8), (PRODUCE, 9), (API_VERSIONS, 0), (API_VERSIONS, 3), (999, 5)])
def test_request_headers_come_back(api_key: int, version: int, client_id: str | None) -> None:
    raw = encode_request_header(api_key, version, -7, client_id)
    wanted = RequestHeader(api_key, version, -7, client_id)
    for buffer in (raw, bytearray(raw), memoryview(raw)):
        header, pos = decode_request_header(buffer, 0)
        assert header == wanted
        assert isinstance(header, RequestHeader)
        assert header.client_id == client_id
        assert pos == len(raw)


def test_headers_of_frames_are_read_as_anywhere() -> None:
    """Valid and cut short, with tags and without, and with bytes that are no UTF-8."""
    frames = [
        encode_request_header(key, version, correlation_id, client_id)
        for key, version in ((PRODUCE, 8), (PRODUCE, 13), (API_VERSIONS, 3), (SASL_HANDSHAKE, 1), (999, 5), (-1, -1))
        for correlation_id in (-7, 2**31 - 1)
        for client_id in (None, "", "a-client", "größe")
    ]
    frames += [frames[0][:10] + b"\xff" * 4, encode_request_header(0, 9, 5, "ab")[:-1] + b"\1\0\3xyz", b"\0" * 8 + b"\0\5ab"]
    for frame in frames:
        for end in range(len(frame) + 1):
            try:
                header, pos = decode_request_header(frame[:end] + b"", 0)
            except MALFORMED as error:
                with pytest.raises(type(error)):
                    read_request_header(frame[:end])
            else:
                assert read_request_header(frame[:end]) == (*header, pos)


def test_bytes_of_both_header_versions() -> None:
    assert encode_request_header(0, 8, 5, "ab") == bytes.fromhex("0000 0008 00000005 0002") + b"ab"
    assert encode_request_header(0, 9, 5, "ab") == bytes.fromhex("0000 0009 00000005 0002") + b"ab" + b"\0"
    assert encode_request_header(0, 9, 5, None) == bytes.fromhex("0000 0009 00000005 ffff 00")


def test_tags_of_a_request_header_are_stepped_over() -> None:
    raw = encode_request_header(0, 9, 5, "ab")[:-1] + b"\1\0\3xyz"
    header, pos = decode_request_header(b"\xff" + raw + b"body", 1)
    assert (header.correlation_id, pos) == (5, 1 + len(raw))


def test_a_truncated_request_header_is_malformed_or_ends_beyond() -> None:
    raw = encode_request_header(0, 9, 5, "ab")
    for cut in range(len(raw)):
        with pytest.raises(MALFORMED):
            decode_request_header(raw[:cut], 0)


def test_invalid_utf_8_in_a_client_id_is_replaced() -> None:
    raw = encode_request_header(0, 8, 5, "ab")[:-2] + b"\xff\xfe"
    assert decode_request_header(raw, 0)[0].client_id == "\ufffd\ufffd"


def test_response_headers() -> None:
    assert encode_response_header(PRODUCE, 8, 5) == b"\0\0\0\5"
    assert encode_response_header(PRODUCE, 9, 5) == b"\0\0\0\5\0"
    for version in (8, 9):
        raw = encode_response_header(PRODUCE, version, 5)
        assert decode_response_header(PRODUCE, version, raw, 0) == (5, len(raw))
    assert decode_response_header(PRODUCE, 9, b"\0\0\0\5\1\0\1x", 0) == (5, 8)


def test_api_versions_always_answers_with_the_oldest_header() -> None:
    assert is_flexible(API_VERSIONS, 3)
    assert encode_response_header(API_VERSIONS, 3, 5) == b"\0\0\0\5"
    assert decode_response_header(API_VERSIONS, 3, b"\0\0\0\5", 0) == (5, 4)


def test_flexibility_follows_the_table() -> None:
    for api in APIS.values():
        assert not is_flexible(api.key, api.flexible_from - 1)
        assert is_flexible(api.key, api.flexible_from)
    assert not is_flexible(SASL_HANDSHAKE, 1)
    assert not is_flexible(12345, 3)
