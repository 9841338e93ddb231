"""The size prefix, and the one check that a message takes its frame to the last byte."""

from __future__ import annotations

import struct

import pytest

from ottla.wire.frame import MALFORMED, SIZE_BYTES, decode_whole, frame, frame_bytes, frame_size
from ottla.wire.primitives import Buffer


class Region:
    """Stands for a stretch of a file: it has a length and is never joined."""

    def __len__(self) -> int:
        return 1000


def test_a_frame_is_its_size_and_the_same_parts() -> None:
    region = Region()
    parts = [b"abc", memoryview(b"de"), region]
    framed = frame(parts)
    assert framed[0] == (1005).to_bytes(4, "big")
    assert all(a is b for a, b in zip(framed[1:], parts, strict=True))


def test_an_empty_frame() -> None:
    assert frame_bytes([]) == bytes(SIZE_BYTES)


def test_frame_size_reads_what_frame_writes_and_negative_sizes_too() -> None:
    assert frame_size(b"xx" + frame_bytes([b"abc"]), 2) == 3
    assert frame_size(b"\xff\xff\xff\xff") == -1
    with pytest.raises(struct.error):
        frame_size(b"\0\0\0")


def test_decode_whole_wants_the_last_byte() -> None:
    def two_bytes(buf: Buffer, pos: int) -> tuple[int, int]:
        return buf[pos] + buf[pos + 1], pos + 2

    assert decode_whole(two_bytes, b"\1\2") == 3
    assert decode_whole(two_bytes, b"\0\1\2", 1) == 3
    for wrong in (b"\1", b"\1\2\3"):
        with pytest.raises(MALFORMED):
            decode_whole(two_bytes, wrong)
