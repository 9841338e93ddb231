"""Frames: a 4-byte big-endian size, then that many bytes.

The decoders of this package check only what they must to stay safe: a malformed frame shows either as one of MALFORMED or as a
final position that is not the frame's end. So the caller needs one `except MALFORMED` and one comparison, as in `decode_whole`,
which tests use; the hot path has them inline.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.wire.primitives import Buffer, Parts

SIZE_BYTES: Final = 4

# IndexError: a byte behind the end was read; struct.error: fixed fields were; ValueError: a length or a value is impossible.
MALFORMED: Final = (IndexError, struct.error, ValueError)

_size = struct.Struct(">i")
_T = TypeVar("_T")


def frame(parts: Parts) -> Parts:
    """Returns the same parts with the size prefix in front. Parts need only have a len(), so regions of files may be among
    them."""
    return [_size.pack(sum(map(len, parts))), *parts]


def frame_bytes(parts: Parts) -> bytes:
    """Returns a frame as one bytes object. All parts must be in memory."""
    return b"".join(frame(parts))


def frame_size(buf: Buffer, pos: int = 0) -> int:
    """Returns the size announced at `pos`, even if it is negative, which the caller refuses. Raises struct.error if there are
    fewer than 4 bytes."""
    size: int = _size.unpack_from(buf, pos)[0]
    return size


def decode_whole(decode: Callable[[Buffer, int], tuple[_T, int]], buf: Buffer, pos: int = 0) -> _T:
    """Decodes a message that must end with the buffer's last byte. Raises ValueError (or another of MALFORMED) if it does not."""
    message, end = decode(buf, pos)
    if end != len(buf):
        raise ValueError(f"message ends at byte {end} of {len(buf)}")
    return message
