"""The partition of a record with a key: the one where Java's clients put it, by MurmurHash2 of the key.

The hash is Austin Appleby's, for 32 bits, with the seed that all clients of Kafka have agreed upon.
"""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_WORD: Final = 4


def partition_of(key: bytes, partitions: int) -> int:
    """Returns the partition of a key, in a topic with so many partitions."""
    return (murmur2(key) & _POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """Returns the hash of some bytes, between 0 and 2**32 - 1."""
    state = _SEED ^ len(data)
    whole = len(data) // _WORD * _WORD
    for at in range(0, whole, _WORD):
        word = int.from_bytes(data[at : at + _WORD], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        state = state * _MULTIPLIER & _MASK ^ word
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    return state ^ state >> 15
