"""The few primitives that the generated codecs use: varints, tagged fields, uuids, and the base of every message class.

The generated functions read fixed-width fields with `struct` on their own; what is here is off the fast path, except the table
UV. Malformed bytes raise one of the exceptions in `ottla.wire.frame.MALFORMED`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from mypy_extensions import mypyc_attr

Buffer: TypeAlias = bytes | bytearray | memoryview


class Region(Protocol):
    """Bytes that are not in memory: a part of a file, which the kernel sends (log.disk.files.FileSlice)."""

    def __len__(self) -> int: ...

    def read(self) -> bytes: ...


# What an encoder appends to: buffers, and regions for fields that hold one. `Any`, because list is invariant.
Parts: TypeAlias = list[Any]
Put: TypeAlias = Callable[[Any], object]  # the bound append of Parts

LONGEST_STRING: Final = 32_767
"""The most bytes of a string whose length is an int16, as in the keys and values of internal topics; strings of flexible versions
of requests may be longer."""
ZERO_UUID: Final = bytes(16)
# Stands for a default that is a fresh list or struct, and is known by its identity. A list, because compiled code checks types.
EMPTY: Final[Any] = []
MOST_TAGS: Final = 1000
"""The most unknown tagged fields of one struct or header. No message defines more than a few, and a frame of nothing else, which
would take seconds to skip, is no message."""


@mypyc_attr(allow_interpreted_subclasses=True)  # setup.py compiles this module, and few of the messages
class WireStruct:
    """The base of generated message classes and similar ones: equality and repr over __slots__. They are mutable, hence not
    hashable."""

    __slots__: ClassVar[tuple[str, ...]] = ()
    NESTED: ClassVar[tuple[tuple[str, type[WireStruct], bool], ...]] = ()
    """For answers: name, class and whether it is a list, for each field that is a struct or a list of structs."""
    __hash__: ClassVar[None]  # type: ignore[assignment]  # Python's way to say that it has none

    def __eq__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


# -- varints -----------------------------------------------------------------------------------------------------------


def uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Decodes an unsigned varint of at most 5 bytes; returns (value, next position)."""
    value = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift > 28:
            raise ValueError("varint is longer than 5 bytes")


def compact_length(buf: Buffer, pos: int) -> tuple[int, int]:
    """Decodes a compact length where null is not allowed; returns (length + 1 as it is, next position)."""
    value, pos = uvarint(buf, pos)
    if not value:
        raise negative_length(-1)
    return value, pos


def varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Decodes a zigzag varint of at most 5 bytes; returns (value, next position)."""
    value, pos = uvarint(buf, pos)
    return (value >> 1) ^ -(value & 1), pos


def varlong(buf: Buffer, pos: int) -> tuple[int, int]:
    """Decodes a zigzag varint of at most 10 bytes; returns (value, next position)."""
    value = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
        if shift > 63:
            raise ValueError("varlong is longer than 10 bytes")


def encode_uvarint(value: int) -> bytes:
    """Encodes an unsigned varint of any size."""
    assert value >= 0, value
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """Encodes a zigzag varint; a varlong has the same bytes."""
    return encode_uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


class _Uvarints(dict[int, bytes]):
    """A cache of encoded unsigned varints, filled as they are needed: a hit is one dict lookup in C.

    Only those of one and two bytes are kept, 16384 entries at most. Three bytes, as most records fields need, are encoded each
    time.
    """

    def __missing__(self, value: int) -> bytes:
        if 1 << 14 <= value < 1 << 21:
            return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
        made = encode_uvarint(value)
        if value < 1 << 14:
            self[value] = made
        return made


UV: Final = _Uvarints()

# -- tagged fields -----------------------------------------------------------------------------------------------------


def skip_tags(buf: Buffer, pos: int, count: int) -> int:
    """Skips tagged fields that this version does not define; returns the next position. `count` is the section's first byte,
    which the caller has read."""
    if count > 127:
        count, pos = uvarint(buf, pos - 1)
        if count > MOST_TAGS:
            raise ValueError(f"{count} tagged fields in one place")
    for _ in range(count):
        _, pos = uvarint(buf, pos)
        size, pos = uvarint(buf, pos)
        pos += size
    return pos


def put_tag(parts: Parts, tag: int, body: Parts) -> None:
    """Appends one tagged field whose value is `body`, and empties `body` for the next."""
    data = b"".join(body)
    body.clear()
    parts.append(UV[tag] + UV[len(data)] + data)


# -- errors in the input, made here so that generated code stays short ----------------------------------------------------


def negative_length(length: int) -> ValueError:
    return ValueError(f"length {length} where null is not allowed")


def too_long(count: int) -> ValueError:
    return ValueError(f"{count} elements do not fit into what is left of the frame")


def wrong_tag_size(tag: int, size: int) -> ValueError:
    return ValueError(f"tagged field {tag} does not have the {size} bytes that it announces")


# -- uuids -------------------------------------------------------------------------------------------------------------


def uuid_to_text(uuid: bytes) -> str:
    """Returns a uuid in Kafka's form: 22 characters of url-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def uuid_from_text(text: str) -> bytes:
    """Returns the 16 bytes of a uuid in Kafka's form. Raises ValueError if the text is not one."""
    if len(text) > 24:
        raise ValueError(f"uuid of {len(text)} characters")
    raw = base64.b64decode(text.rstrip("=") + "==", altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"uuid of {len(raw)} bytes, not 16")
    return raw
