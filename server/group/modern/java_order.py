"""The order in which Java's hash tables give back their keys.

Kafka's assignors go through members and topics in that order, and who comes first gets the partition that is left over. So the
same members in the same group get the same partitions from Kafka and from us only if we go through them as a java.util.HashMap
would: by the table's slot, and within a slot by insertion. Bins that are so full that they become trees (more than eight keys of
one slot in a table of 64) keep that order too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import iter_unpack, unpack
from typing import Final, TypeVar

K = TypeVar("K")

DEFAULT_CAPACITY: Final = 16
_MASK: Final = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """String.hashCode, unsigned."""
    value: int = 0
    for (unit,) in iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & _MASK
    return value


def uuid_hash(uuid: bytes) -> int:
    """Kafka's Uuid.hashCode, unsigned: both halves folded into one word, the upper part of it sign-extended."""
    high, low = unpack(">QQ", uuid)
    both = high ^ low
    folded: int = ((both >> 32) ^ both) & _MASK
    return folded


def int_hash(value: int) -> int:
    """Integer.hashCode, unsigned."""
    return value & _MASK


def string_key(text: str) -> bytes:
    """Sorts as String.compareTo does: by UTF-16 units, which is not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def uuid_key(uuid: bytes) -> tuple[int, int]:
    """Sorts as Kafka's Uuid.compareTo does: both halves as signed numbers."""
    high, low = unpack(">qq", uuid)
    return high, low


def hash_order(keys: Iterable[K], hash_of: Callable[[K], int], capacity: int = DEFAULT_CAPACITY) -> list[K]:
    """`keys`, each once and in the order of their insertion, as a HashMap of them is iterated.

    `capacity` is the table's first size; it doubles as soon as more than three quarters of it are used.
    """
    listed = list(keys)
    while len(listed) * 4 > capacity * 3:
        capacity *= 2
    mask = capacity - 1

    def slot(key: K) -> int:
        value = hash_of(key)
        return (value ^ (value >> 16)) & mask

    return sorted(listed, key=slot)


def copied_capacity(size: int) -> int:
    """The first size of a HashSet that is made of a collection of `size`."""
    capacity = 1
    while capacity < max(int(size / 0.75) + 1, DEFAULT_CAPACITY):
        capacity *= 2
    return capacity


def partition_order(partitions: Iterable[int]) -> list[int]:
    """Partitions as a HashSet that was copied from a record lists them: ascending, as long as they are small numbers."""
    listed = sorted(partitions)
    return hash_order(listed, int_hash, copied_capacity(len(listed)))
