"""The one check that a message takes its frame to the last byte."""

from __future__ import annotations

import pytest

from ottla.wire.frame import MALFORMED, decode_whole
from ottla.wire.primitives import Buffer


def test_decode_whole_wants_the_last_byte() -> None:
    def two_bytes(buf: Buffer, pos: int) -> tuple[int, int]:
        return buf[pos] + buf[pos + 1], pos + 2

    assert decode_whole(two_bytes, b"\1\2") == 3
    assert decode_whole(two_bytes, b"\0\1\2", 1) == 3
    for wrong in (b"\1", b"\1\2\3"):
        with pytest.raises(MALFORMED):
            decode_whole(two_bytes, wrong)
