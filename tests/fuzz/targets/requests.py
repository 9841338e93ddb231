"""Requests of all APIs in all versions, with the header: an input is a frame, whose API and version are made ones that exist.

- The header and the body are malformed (wire/frame.py) or are read, from bytes as from a view, and what was read is written and
  read again as the same.
- The elements of a request that can be read are counted without an error, to the frame's end, and there are no more in its lists
  than were counted; one fewer allowed, and it is refused (wire/items.py).
"""

from __future__ import annotations

import functools
import importlib
import struct
from collections.abc import Iterator
from typing import Any, Final

from ottla.wire.api import APIS, Api
from ottla.wire.frame import MALFORMED
from ottla.wire.header import decode_request_header, encode_request_header
from ottla.wire.items import Layout, List, Nullable, Shape, TooManyItems, count_items, layout_of
from ottla.wire.primitives import WireStruct
from tests.fuzz.round_trip import round_trip

_KEY_AND_VERSION: Final = struct.Struct(">hh")
_MANY: Final = 1 << 30


@functools.cache
def _keys() -> list[int]:
    return sorted(APIS)


def _known(key: int, version: int) -> tuple[Api, int]:
    """Returns the API and version that these numbers mean, or ones that exist for numbers that mean none."""
    api = APIS.get(key) or APIS[_keys()[key % len(APIS)]]
    if api.min_version <= version <= api.max_version:
        return api, version
    return api, api.min_version + version % (api.max_version - api.min_version + 1)


def check(data: bytes) -> None:
    if len(data) < _KEY_AND_VERSION.size:
        return
    api, version = _known(*_KEY_AND_VERSION.unpack_from(data))
    frame = _KEY_AND_VERSION.pack(api.key, version) + data[_KEY_AND_VERSION.size :]
    try:
        header, at = decode_request_header(frame, 0)
    except MALFORMED:
        return
    assert decode_request_header(encode_request_header(*header), 0)[0] == header
    module = importlib.import_module(f"ottla.wire.messages.{api.module}")
    message = round_trip(module.DECODE_REQUEST[version], module.ENCODE_REQUEST[version], frame, at)
    layout = layout_of(api.key, version)
    if message is None or layout is None:
        return
    count, end = count_items(layout, frame, at, _MANY)
    assert end == len(frame), f"elements are counted up to byte {end} of {len(frame)}"
    assert _elements(message) <= count, f"{_elements(message)} elements where {count} were counted: {message}"
    if count:
        try:
            count_items(layout, frame, at, count - 1)
        except TooManyItems:
            return
        raise AssertionError(f"{count} elements are taken where {count - 1} are allowed")


def _elements(value: Any) -> int:
    """Returns the number of elements in the lists of a decoded message."""
    if isinstance(value, list):
        return len(value) + sum(map(_elements, value))
    if isinstance(value, WireStruct):
        return sum(_elements(getattr(value, name)) for name in value.__slots__)
    return 0


def seeds() -> Iterator[bytes]:
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            layout = layout_of(api.key, version)
            if layout is not None:
                yield encode_request_header(api.key, version, 1, "c") + _sample(layout)


def _sample(layout: Layout) -> bytes:
    """Returns a request with one element in each list."""
    return b"".join(_parts(layout.shape, layout.flexible))


def _parts(shape: Shape, flexible: bool) -> Iterator[bytes]:
    for sign in shape:
        if isinstance(sign, int):
            yield bytes(sign)
        elif isinstance(sign, List):
            yield b"\2" if flexible else b"\0\0\0\1"
            yield from _parts(sign.element, flexible)
        elif isinstance(sign, Nullable):
            yield b"\1"
            yield from _parts(sign.struct, flexible)
        elif sign == "t":
            yield b"\0"
        elif sign == "s":
            yield b"\2a" if flexible else b"\0\1a"
        else:
            yield b"\2b" if flexible else b"\0\0\0\1b"
