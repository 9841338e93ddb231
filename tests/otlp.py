"""Writes metrics as clients push them: OTLP in protobuf's encoding (server/telemetry/otlp.py says which fields)."""

from __future__ import annotations

import struct
from collections.abc import Mapping


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: bytes | int) -> bytes:
    """A message, a text or bytes, or a varint."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def point(value: float, attributes: Mapping[str, bytes] | None = None) -> bytes:
    """An integer or a double; attributes are encoded AnyValues."""
    number = (
        varint(6 << 3 | 1) + struct.pack("<q", value) if isinstance(value, int) else varint(4 << 3 | 1) + struct.pack("<d", value)
    )
    named = b"".join(field(7, field(1, key.encode()) + field(2, any_value)) for key, any_value in (attributes or {}).items())
    return varint(3 << 3 | 1) + bytes(8) + number + named


def text(value: str) -> bytes:
    return field(1, value.encode())


def gauge(name: str, *points: bytes) -> bytes:
    return field(1, name.encode()) + field(3, b"1") + field(5, b"".join(field(1, each) for each in points))


def total(name: str, *points: bytes, delta: bool = True) -> bytes:
    temporality = field(2, 1 if delta else 2)
    return field(1, name.encode()) + field(7, b"".join(field(1, each) for each in points) + temporality + field(3, 1))


def metrics_data(*metrics: bytes) -> bytes:
    scope = b"".join(field(2, metric) for metric in metrics)
    return field(1, field(1, field(1, field(1, b"k") + field(2, text("v")))) + field(2, field(1, field(1, b"scope")) + scope))
