"""Decodes the metrics that clients push: OpenTelemetry's `MetricsData` (OTLP 1.x) in protobuf's encoding, read without a library.

    MetricsData      1 ResourceMetrics*
    ResourceMetrics  2 ScopeMetrics*            (1, the resource, describes the client, which its connection has done already)
    ScopeMetrics     2 Metric*
    Metric           1 name, 5 Gauge or 7 Sum   (clients of Kafka push nothing else; other kinds are skipped)
    Gauge, Sum       1 NumberDataPoint*; of a Sum also 2 temporality: 1 is delta
    NumberDataPoint  7 KeyValue*, 4 a double or 6 a signed integer of 64 bits
    KeyValue         1 key, 2 AnyValue: 1 text, 2 true or false, 3 an integer, 4 a double

A field is a varint `number << 3 | wire type` and its value: 0 varint, 1 eight bytes, 2 a length and that many bytes, 5 four
bytes. Unknown fields are skipped. Numbers are little-endian. Reading stops at MOST_FIELDS, which take a thread some 200 ms; a
push of a Java client has some thousands of fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

VARINT: Final = 0
EIGHT_BYTES: Final = 1
LENGTH: Final = 2
FOUR_BYTES: Final = 5
DELTA: Final = 1
MOST_FIELDS: Final = 100_000

_DOUBLE: Final = struct.Struct("<d")
_INT64: Final = struct.Struct("<q")
_LONGEST_VARINT: Final = 10

Value = int | bytes


class Malformed(Exception):
    """The bytes are not a MetricsData."""


class Point(NamedTuple):
    """One number of a metric. `attributes` are sorted by key. A delta is relative to the push before; otherwise it is the
    value."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    is_delta: bool


def points(data: bytes) -> Iterator[Point]:
    """Yields the points in a push. Raises Malformed, perhaps after some points."""
    return _Reader().points(data)


class _Reader:
    """Reads one push, and counts its fields."""

    def __init__(self) -> None:
        self._left = MOST_FIELDS

    def points(self, data: bytes) -> Iterator[Point]:
        for resource in self._messages(data, 1):
            for scope in self._messages(resource, 2):
                for metric in self._messages(scope, 2):
                    yield from self._of_metric(metric)

    def _of_metric(self, metric: bytes) -> Iterator[Point]:
        name = ""
        for number, _, value in self._fields(metric):
            if number == 1 and isinstance(value, bytes):
                name = _text(value)
            elif number in (5, 7) and isinstance(value, bytes):
                fields = list(self._fields(value))
                is_delta = number == 7 and (2, VARINT, DELTA) in fields
                for inner, _, point in fields:
                    if inner == 1 and isinstance(point, bytes):
                        yield self._point(name, point, is_delta)

    def _point(self, name: str, data: bytes, is_delta: bool) -> Point:
        attributes: dict[str, str] = {}
        number = 0.0
        for field, kind, value in self._fields(data):
            if field == 7 and isinstance(value, bytes):
                key, text = self._attribute(value)
                attributes[key] = text
            elif field in (4, 6) and kind == EIGHT_BYTES and isinstance(value, bytes):
                number = float((_DOUBLE if field == 4 else _INT64).unpack(value)[0])
        return Point(name, tuple(sorted(attributes.items())), number, is_delta)

    def _attribute(self, data: bytes) -> tuple[str, str]:
        key, text = "", ""
        for field, _, value in self._fields(data):
            if field == 1 and isinstance(value, bytes):
                key = _text(value)
            elif field == 2 and isinstance(value, bytes):
                for kind, _, inner in self._fields(value):
                    text = _attribute_value(kind, inner)
        return key, text

    def _messages(self, data: bytes, wanted: int) -> Iterator[bytes]:
        return (value for number, _, value in self._fields(data) if number == wanted and isinstance(value, bytes))

    def _fields(self, data: bytes) -> Iterator[tuple[int, int, Value]]:
        """Yields (number, wire type, value) of each field of a message. Raises Malformed."""
        at = 0
        while at < len(data):
            self._left -= 1
            if self._left < 0:
                raise Malformed(f"a push has more than {MOST_FIELDS} fields")
            key, at = _varint(data, at)
            number, kind = key >> 3, key & 7
            if kind == VARINT:
                value, at = _varint(data, at)
                yield number, kind, value
                continue
            if kind == LENGTH:
                size, at = _varint(data, at)
            elif kind in (EIGHT_BYTES, FOUR_BYTES):
                size = 8 if kind == EIGHT_BYTES else 4
            else:
                raise Malformed(f"field {number} has the wire type {kind}")
            if size > len(data) - at:
                raise Malformed(f"field {number} ends beyond its message")
            yield number, kind, data[at : at + size]
            at += size


def _attribute_value(kind: int, value: Value) -> str:
    if kind == 1 and isinstance(value, bytes):
        return _text(value)
    if kind == 2:
        return "true" if value else "false"
    if kind == 3 and isinstance(value, int):
        return str(value - (1 << 64) if value >> 63 else value)
    if kind == 4 and isinstance(value, bytes) and len(value) == _DOUBLE.size:
        return repr(_DOUBLE.unpack(value)[0])
    return ""


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the varint that begins at `at`, and where it ends. Raises Malformed."""
    value = 0
    for shift, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at + shift + 1
    raise Malformed("a number does not end")
