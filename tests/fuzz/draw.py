"""Reads values off the bytes that a fuzzer makes, and puts such bytes together for seeds.

Behind the end everything is zero, so any bytes mean something, and a fuzzer that cuts or lengthens them changes only the tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_LONG: Final = 255
"""The first byte of a block that says that its length takes two bytes more."""


class Draw:
    """Hands out the bytes of one input from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """Returns so many bytes, or those that are left."""
        taken = self._data[self._at : self._at + size]
        self._at += len(taken)
        return taken

    def rest(self) -> bytes:
        return self.take(self.left)

    def number(self, size: int) -> int:
        """Returns a signed big-endian integer of so many bytes."""
        return int.from_bytes(self.take(size).ljust(size, b"\0"), "big", signed=True)

    def byte(self) -> int:
        return self.number(1) & 0xFF

    def below(self, count: int) -> int:
        """Returns a number from 0 to below `count`, which is at most 256."""
        return self.byte() % count

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def block(self) -> bytes:
        """Returns what `block` has packed."""
        size = self.byte()
        return self.take(self.number(2) & 0xFFFF if size == _LONG else size)


def block(data: bytes) -> bytes:
    """Packs bytes for `Draw.block`: a length of one byte, or 255 and two bytes, and then the bytes."""
    return bytes([len(data)]) + data if len(data) < _LONG else bytes([_LONG]) + len(data).to_bytes(2, "big") + data
