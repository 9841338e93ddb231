"""Big-endian signed integers in `bytes`, read as machine integers: compiled, one takes a few nanoseconds, and `struct` a hundred.

Bytes behind the end raise IndexError, one of frame.MALFORMED.
"""

from __future__ import annotations

from types import FunctionType
from typing import Final

from mypy_extensions import i64


def int8_at(buf: bytes, at: i64) -> i64:
    """Returns the signed byte at `at`."""
    value: i64 = buf[at]
    return value - 256 if value > 127 else value


def int16_at(buf: bytes, at: i64) -> i64:
    """Returns the integer of two bytes that begins at `at`."""
    value: i64 = (buf[at] << 8) | buf[at + 1]
    return value - 65536 if value > 32767 else value


def int32_at(buf: bytes, at: i64) -> i64:
    """Returns the integer of four bytes that begins at `at`."""
    value: i64 = (buf[at] << 24) | (buf[at + 1] << 16) | (buf[at + 2] << 8) | buf[at + 3]
    return value - 4294967296 if value > 2147483647 else value


def int64_at(buf: bytes, at: i64) -> i64:
    """Returns the integer of eight bytes that begins at `at`."""
    low: i64 = (buf[at + 4] << 24) | (buf[at + 5] << 16) | (buf[at + 6] << 8) | buf[at + 7]
    return (int32_at(buf, at) << 32) | low


COMPILED: Final = type(int64_at) is not FunctionType
"""True if this module was compiled. If not, `struct` is the quicker way."""
