"""Sets right what no fuzzer guesses: the length and the CRC of a batch. Everything else stays as it is."""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

_LENGTH_AT: Final = 8
_LENGTH_END: Final = 12
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_CRC_END: Final = 21
_HEADER_BYTES: Final = 61


def with_right_length(batch: bytes) -> bytes:
    """Returns the batch with magic 2 and its true length, if it has a whole header."""
    if len(batch) < _HEADER_BYTES:
        return batch
    length = (len(batch) - _LENGTH_END).to_bytes(4, "big")
    return batch[:_LENGTH_AT] + length + batch[_LENGTH_END:_MAGIC_AT] + b"\2" + batch[_CRC_AT:]


def with_right_crc(batch: bytes) -> bytes:
    """Returns the batch with the CRC of the bytes that are there, or of as many as its length says, if these are fewer."""
    if len(batch) < _HEADER_BYTES:
        return batch
    declared = int.from_bytes(batch[_LENGTH_AT:_LENGTH_END], "big", signed=True) + _LENGTH_END
    end = declared if _HEADER_BYTES <= declared <= len(batch) else len(batch)
    return batch[:_CRC_AT] + crc32c(batch[_CRC_END:end]).to_bytes(4, "big") + batch[_CRC_END:]
