"""A fault that nobody finds by chance, for the test of the fuzzer itself: four bytes, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

FAULT = b"\xf3\x07!Z"


def check(data: bytes) -> None:
    for index, byte in enumerate(FAULT):
        if data[index : index + 1] != bytes([byte]):
            return
    raise AssertionError("the planted fault was found")


def seeds() -> Iterator[bytes]:
    yield b"nothing"
