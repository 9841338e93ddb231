"""Integers in bytes, against struct."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from ottla.wire.integers import int8_at, int16_at, int32_at, int64_at


@pytest.mark.parametrize(("read", "kind"), [(int8_at, "b"), (int16_at, "h"), (int32_at, "i"), (int64_at, "q")])
def test_integers_are_what_struct_reads(read: Callable[[bytes, int], int], kind: str) -> None:
    seeded, layout = random.Random(kind), struct.Struct(f">{kind}")
    edges = [b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff"]
    values = [first * layout.size for first in edges] + [first + b"\0" * (layout.size - 1) for first in edges]
    for value in values + [seeded.randbytes(layout.size) for _ in range(200)]:
        assert read(b"###" + value + b"#", 3) == layout.unpack(value)[0]
    with pytest.raises(IndexError):
        read(bytes(layout.size + 2), 3)
