"""Frames: a 4-byte big-endian size, then that many bytes.

Decoders of this package check what they must to stay safe, and no more: a malformed frame surfaces either as one of
MALFORMED or as a final position that is not the frame's end. So the edge needs one `except MALFORMED` and one
comparison, which `decode_whole` shows and tests use; the hot path has them inline.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.wire.primitives import Buffer, Parts

SIZE_BYTES: Final = 4

# IndexError: a byte read behind the end; struct.error: fixed fields behind it; ValueError: a length or a value that cannot be.
MALFORMED: Final = (IndexError, struct.error, ValueError)

_size = struct.Struct(">i")
_T = TypeVar("_T")


def frame(parts: Parts) -> Parts:
    """Returns the same parts with the size prefix in front; anything with len() counts, so regions of files may be among them."""
    return [_size.pack(sum(map(len, parts))), *parts]


def frame_bytes(parts: Parts) -> bytes:
    """One frame in one piece, for parts that are all in memory."""
    return b"".join(frame(parts))


def frame_size(buf: Buffer, pos: int = 0) -> int:
    """Returns the size announced at `pos`, negative ones as they are, for the caller to refuse; raises struct.error if 4 bytes
    are not there."""
    size: int = _size.unpack_from(buf, pos)[0]
    return size


def decode_whole(decode: Callable[[Buffer, int], tuple[_T, int]], buf: Buffer, pos: int = 0) -> _T:
    """Decode a message that must take the buffer to its last byte; ValueError (or another of MALFORMED) if it does not."""
    message, end = decode(buf, pos)
    if end != len(buf):
        raise ValueError(f"message ends at byte {end} of {len(buf)}")
    return message
