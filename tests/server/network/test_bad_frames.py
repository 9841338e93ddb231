"""Other protocols are recognised by their first four bytes, taken for the size of a frame."""

from __future__ import annotations

import pytest

from ottla.server.network.bad_frames import describe_bad_size


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        (b"\x16\x03\x01\x02", "TLS"),
        (b"\x16\x03\x03\x00", "TLS"),
        (b"GET ", "HTTP"),
        (b"POST", "HTTP"),
        (b"OPTI", "HTTP"),
        (b"\x00\x00\x00\x00", "a frame of 0 bytes"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
    ],
)
def test_the_reason_names_what_it_is(begin: bytes, reason: str) -> None:
    assert reason in describe_bad_size(int.from_bytes(begin, "big", signed=True))
