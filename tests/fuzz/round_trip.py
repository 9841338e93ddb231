"""What every generated codec promises for any bytes: it refuses them as malformed, or what it read can be written and read again.

The bytes need not come out as they went in. A varint may be longer than it must be, unknown tagged fields are skipped, and what
is no UTF-8 is read with replacement characters. But what was read is written in one form, and that form is read as the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ottla.wire.frame import MALFORMED, decode_whole

Decode: TypeAlias = Callable[[Any, int], tuple[Any, int]]
Encode: TypeAlias = Callable[[Any, list[Any]], None]


def encoded(encode: Encode, message: Any) -> bytes:
    parts: list[Any] = []
    encode(message, parts)
    return b"".join(parts)


def read(decode: Decode, frame: bytes | memoryview, at: int = 0) -> Any | None:
    """Returns the message that begins at `at` and ends with the frame, or None if it is malformed."""
    try:
        return decode_whole(decode, frame, at)
    except MALFORMED:
        return None


def round_trip(decode: Decode, encode: Encode, frame: bytes, at: int = 0) -> Any | None:
    """Does what `read` does, and checks that the same is read from a view, and from what is written again."""
    message = read(decode, frame, at)
    view = read(decode, memoryview(frame), at)
    assert (message is None) == (view is None), "bytes and a view of them are read differently"
    if message is None:
        return None
    written = encoded(encode, message)
    assert encoded(encode, view) == written, f"bytes and a view of them are read differently: {message} and {view}"
    again = read(decode, written)
    assert again is not None, f"what was written cannot be read: {message}"
    assert encoded(encode, again) == written, f"what was written is read as something else: {message} and {again}"
    return message
