"""Reading OTLP: every kind of number and attribute, what is unknown, what is cut, and bytes of no meaning at all."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.telemetry.otlp import MOST_FIELDS, Malformed, Point, points
from tests.otlp import field, gauge, metrics_data, point, text, total, varint

GOOD = metrics_data(
    gauge("g", point(1.5), point(-7, {"topic": text("t"), "partition": field(3, 4)})),
    total("d", point(3)),
    total("c", point(2**62), delta=False),
)


def test_gauges_and_sums() -> None:
    assert list(points(GOOD)) == [
        Point("g", (), 1.5, False),
        Point("g", (("partition", "4"), ("topic", "t")), -7, False),
        Point("d", (), 3, True),
        Point("c", (), 2.0**62, False),
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (text("ä"), "ä"),
        (field(2, 1), "true"),
        (field(2, 0), "false"),
        (field(3, 2**64 - 5), "-5"),
        (varint(4 << 3 | 1) + struct.pack("<d", 0.25), "0.25"),
        (field(5, b""), ""),
        (b"", ""),
    ],
)
def test_attributes(value: bytes, shown: str) -> None:
    assert list(points(metrics_data(gauge("g", point(1, {"k": value}))))) == [Point("g", (("k", shown),), 1, False)]


def test_what_is_unknown_is_passed_over() -> None:
    histogram = field(1, b"h") + field(9, field(1, b"\x11" + bytes(8)))
    odd = field(99, b"?") + field(98, 7) + varint(97 << 3 | 5) + bytes(4) + varint(96 << 3 | 1) + bytes(8)
    assert list(points(metrics_data(histogram, gauge("g", point(1) + odd)) + odd)) == [Point("g", (), 1, False)]
    assert list(points(b"")) == []


@pytest.mark.parametrize(
    "data", [b"\x0a\x05abc", b"\x80", b"\x80" * 11, b"\x0b", b"\x0d\0\0", b"\x09" + bytes(7), b"\x0a" + b"\xff" * 9 + b"\x01"]
)
def test_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        list(points(data))


def test_reading_has_an_end() -> None:
    one = gauge("g", *[b""] * (MOST_FIELDS // 3))
    assert len(list(points(metrics_data(one)))) == MOST_FIELDS // 3
    with pytest.raises(Malformed, match="fields"):
        list(points(metrics_data(*[gauge("g")] * MOST_FIELDS)))


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_a_damaged_push_is_read_or_malformed(at: int, byte: int) -> None:
    try:
        list(points(GOOD[:at] + bytes([byte]) + GOOD[at + 1 :]))
        list(points(GOOD[:at]))
    except Malformed:
        pass
