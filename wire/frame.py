"""Malformed frames, and how they show. A frame is a 4-byte big-endian size, and then that many bytes.

The decoders of this package check only what they must to stay safe: a malformed frame shows either as one of MALFORMED or as a
final position that is not the frame's end. So the caller needs one `except MALFORMED` and one comparison, as in `decode_whole`;
the hot path has them inline.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.wire.primitives import Buffer

# IndexError: a byte behind the end was read; struct.error: fixed fields were; ValueError: a length or a value is impossible.
MALFORMED: Final = (IndexError, struct.error, ValueError)

_T = TypeVar("_T")


def decode_whole(decode: Callable[[Buffer, int], tuple[_T, int]], buf: Buffer, pos: int = 0) -> _T:
    """Decodes a message that must end with the buffer's last byte. Raises ValueError (or another of MALFORMED) if it does not."""
    message, end = decode(buf, pos)
    if end != len(buf):
        raise ValueError(f"message ends at byte {end} of {len(buf)}")
    return message
