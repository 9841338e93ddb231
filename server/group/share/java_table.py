"""A set or map that is iterated as Java's hash tables are: by slot, and within a slot by when and how the keys came.

Kafka's simple assignor removes from such tables while it walks through them, and what comes first is revoked or assigned first. A
table never shrinks, so the order also depends on how large it once was; java_order.py's `hash_order` is for tables that were
filled and left alone. Java puts a new key at the end of its slot, but one that `computeIfAbsent` brings at its beginning, and
doubles the table when an entry is one too many: after it came, or with computeIfAbsent before the next one does.
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
        self._place: dict[K, int] = {}  # in its slot, beside others of the slot
        self._came = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """The keys there are now; removing some meanwhile does no harm."""
        mask = self._capacity - 1

        def order(key: K) -> tuple[int, int]:
            value = self._hash_of(key)
            return (value ^ (value >> 16)) & mask, self._place[key]

        return iter(sorted(self._entries, key=order))

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def put(self, key: K, value: V) -> None:
        if key not in self._entries:
            self._came += 1
            self._place[key] = self._came
        self._entries[key] = value
        if self._is_full:
            self._capacity *= 2

    def compute_if_absent(self, key: K, make: Callable[[], V]) -> V:
        if key not in self._entries:
            if self._is_full:
                self._capacity *= 2
            self._came += 1
            self._place[key] = -self._came
            self._entries[key] = make()
        return self._entries[key]

    def discard(self, key: K) -> None:
        self._entries.pop(key, None)

    @property
    def _is_full(self) -> bool:
        return len(self._entries) * 4 > self._capacity * 3
