"""Responses of all APIs in all their versions, which our own clients and commands read: an input is an API, a version, a frame.

The header and the body are refused as malformed (wire/frame.py) or are read, from bytes as from a view, and what was read is
written and read again as the same.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any

from ottla.wire.api import APIS, Api
from ottla.wire.frame import MALFORMED
from ottla.wire.header import decode_response_header, encode_response_header
from tests.fuzz.draw import Draw
from tests.fuzz.round_trip import encoded, round_trip


@functools.cache
def _apis() -> list[Api]:
    return sorted(APIS.values())


def _versions(api: Api) -> range:
    return range(api.min_version, api.max_version + 1)


def check(data: bytes) -> None:
    draw = Draw(data)
    api = draw.one_of(_apis())
    version = draw.one_of(_versions(api))
    frame = draw.rest()
    try:
        correlation_id, at = decode_response_header(api.key, version, frame, 0)
    except MALFORMED:
        return
    written = encode_response_header(api.key, version, correlation_id)
    assert decode_response_header(api.key, version, written, 0) == (correlation_id, len(written))
    module = importlib.import_module(f"ottla.wire.messages.{api.module}")
    round_trip(module.DECODE_RESPONSE[version], module.ENCODE_RESPONSE[version], frame, at)


def seeds() -> Iterator[bytes]:
    for number, api in enumerate(_apis()):
        module = importlib.import_module(f"ottla.wire.messages.{api.module}")
        message = _filled(getattr(module, f"{api.name}Response"))
        for index, version in enumerate(_versions(api)):
            header = encode_response_header(api.key, version, 1)
            yield bytes((number, index)) + header + encoded(module.ENCODE_RESPONSE[version], message)


def _filled(kind: type[Any]) -> Any:
    """Returns an answer with one element in each list of structs."""
    message = kind()
    for name, inner, is_list in kind.NESTED:
        setattr(message, name, [_filled(inner)] if is_list else _filled(inner))
    return message
