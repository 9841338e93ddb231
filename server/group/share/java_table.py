"""A set or map that is iterated as Java's hash tables are: by slot, and within a slot in the order of insertion.

Kafka's simple assignor removes from such tables while it walks through them, and what comes first is revoked or assigned first. A
table never shrinks, so the order also depends on how large it once was; java_order.py's `hash_order` is for tables that were
filled and left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

DEFAULT_CAPACITY: Final = 16


def capacity_for(count: int) -> int:
    """Of a table that the assignors make for so many entries."""
    wanted = int((count + 1) / 0.75 + 1.0)
    capacity = 1
    while capacity < wanted:
        capacity *= 2
    return capacity


class JavaTable(Generic[K, V]):
    """As far as the assignor needs it; a set has the value None everywhere."""

    def __init__(self, hash_of: Callable[[K], int], capacity: int = DEFAULT_CAPACITY) -> None:
        self._hash_of = hash_of
        self._capacity = capacity
        self._entries: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """The keys there are now; removing some meanwhile does no harm."""
        mask = self._capacity - 1

        def slot(key: K) -> int:
            value = self._hash_of(key)
            return (value ^ (value >> 16)) & mask

        return iter(sorted(self._entries, key=slot))

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        if len(self._entries) * 4 > self._capacity * 3:
            self._capacity *= 2

    def get_or_put(self, key: K, make: Callable[[], V]) -> V:
        if key not in self._entries:
            self.put(key, make())
        return self._entries[key]

    def discard(self, key: K) -> None:
        self._entries.pop(key, None)
