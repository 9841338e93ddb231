"""Reproduces the orders in which Java's collections are iterated.

Kafka's assignors iterate over members, topics and processes in these orders, and whichever comes first gets the partition that is
left over. Only if ottla iterates in the same orders does a group get the same assignment from both, and is not reshuffled when it
moves between them:

    hash_order            a HashMap or HashSet that was filled and then left alone: by slot, and within a slot by insertion. This
                          also holds for bins that become trees (more than eight keys of one slot in a table of 64)
    JavaTable             a HashMap from which keys are removed, or to which computeIfAbsent adds them, during the iteration
    timeline_map_order    Kafka's own table of a group's members
    PriorityQueue         java.util.PriorityQueue, when several elements are equally small
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import iter_unpack, unpack
from typing import Final, Generic, TypeVar

codecs.lookup("utf-16-be")  # loads the codec now, as java_hash.py explains

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

DEFAULT_CAPACITY: Final = 16
_MASK: Final = 0xFFFFFFFF
_MASK_OF_LONG: Final = 0xFFFFFFFFFFFFFFFF
_FIBONACCI: Final = -7046029254386353131 & _MASK_OF_LONG
_SMALLEST_TIMELINE_TABLE: Final = 2


def string_hash(text: str) -> int:
    """Returns String.hashCode as an unsigned number."""
    value: int = 0
    for (unit,) in iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & _MASK
    return value


def uuid_hash(uuid: bytes) -> int:
    """Returns Kafka's Uuid.hashCode as an unsigned number: the exclusive or of both halves, and of the halves of that."""
    high, low = unpack(">QQ", uuid)
    both = high ^ low
    folded: int = ((both >> 32) ^ both) & _MASK
    return folded


def int_hash(value: int) -> int:
    """Returns Integer.hashCode as an unsigned number."""
    return value & _MASK


def string_key(text: str) -> bytes:
    """Returns a key that sorts as String.compareTo does: by UTF-16 code units, which differs from the order of code points."""
    return text.encode("utf-16-be", "surrogatepass")


def uuid_key(uuid: bytes) -> tuple[int, int]:
    """Returns a key that sorts as Kafka's Uuid.compareTo does: by both halves as signed numbers."""
    high, low = unpack(">qq", uuid)
    return high, low


def hash_order(keys: Iterable[K], hash_of: Callable[[K], int], capacity: int = DEFAULT_CAPACITY) -> list[K]:
    """Returns `keys` in the order in which a HashMap iterates over them. They must be distinct and in the order of insertion.

    `capacity` is the table's first size; it doubles as soon as more than three quarters of it are used.
    """
    listed = list(keys)
    while _is_full(len(listed), capacity):
        capacity *= 2
    return sorted(listed, key=lambda key: _slot(hash_of(key), capacity))


def _is_full(size: int, capacity: int) -> bool:
    return size * 4 > capacity * 3


def _slot(value: int, capacity: int) -> int:
    return (value ^ (value >> 16)) & (capacity - 1)


def capacity_of(wanted: int) -> int:
    """Returns the first size of a table that is created with the capacity `wanted`: the next power of two."""
    capacity = 1
    while capacity < wanted:
        capacity *= 2
    return capacity


def copied_capacity(size: int) -> int:
    """Returns the first size of a HashSet that is created from a collection of `size` elements."""
    return capacity_of(max(int(size / 0.75) + 1, DEFAULT_CAPACITY))


def partition_order(partitions: Iterable[int]) -> list[int]:
    """Returns partitions in the order of a HashSet that was created from a record: ascending, as long as they are small
    numbers.
    """
    listed = sorted(partitions)
    if len(listed) < 2:  # as with most topics
        return listed
    return hash_order(listed, int_hash, copied_capacity(len(listed)))


def computed_map_order(calls: Iterable[str], expected: int) -> list[str]:
    """Returns the order of a HashMap of capacity `expected` to which computeIfAbsent was applied with these keys, in
    this order.
    """
    table: JavaTable[str, None] = JavaTable(string_hash, capacity_of(expected))
    for key in calls:
        table.compute_if_absent(key, lambda: None)
    return list(table)


class JavaTable(Generic[K, V]):
    """A HashMap that changes, as far as assignors need it; for a set all values are None.

    A table never shrinks, so the order depends on how large it once was. Java puts a new key at the end of its slot, but at the
    beginning if `computeIfAbsent` adds it. It doubles a table that is too full after the entry was put, or with the next call of
    computeIfAbsent, whatever key that has.
    """

    def __init__(self, hash_of: Callable[[K], int], capacity: int = DEFAULT_CAPACITY) -> None:
        self._hash_of = hash_of
        self._capacity = capacity
        self._entries: dict[K, V] = {}
        self._place: dict[K, int] = {}  # the order within a slot
        self._came = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """Iterates over the keys that are there now; they may be removed during the iteration."""
        return iter(sorted(self._entries, key=lambda key: (_slot(self._hash_of(key), self._capacity), self._place[key])))

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def put(self, key: K, value: V) -> None:
        if key not in self._entries:
            self._came += 1
            self._place[key] = self._came
        self._entries[key] = value
        self._grow_if_full()

    def compute_if_absent(self, key: K, make: Callable[[], V]) -> V:
        self._grow_if_full()
        if key not in self._entries:
            self._came += 1
            self._place[key] = -self._came
            self._entries[key] = make()
        return self._entries[key]

    def discard(self, key: K) -> None:
        self._entries.pop(key, None)

    def _grow_if_full(self) -> None:
        if _is_full(len(self._entries), self._capacity):
            self._capacity *= 2


def timeline_map_order(keys: Sequence[str]) -> list[str]:
    """Returns the order of Kafka's TimelineHashMap after `keys` were put into it in this order; later keys of a slot come first.

    Its table never shrinks, so one that had more keys before may have another order.
    """
    bits, capacity = 1, _SMALLEST_TIMELINE_TABLE
    while _is_full(len(keys), capacity):
        bits, capacity = bits + 1, capacity * 2
    latest_first = list(reversed(keys))
    return sorted(latest_first, key=lambda key: _timeline_slot(key, bits))


def _timeline_slot(key: str, bits: int) -> int:
    value = string_hash(key)
    if value >= 1 << 31:
        value -= 1 << 32
    return (value * _FIBONACCI & _MASK_OF_LONG) >> (64 - bits)


class PriorityQueue(Generic[T]):
    """A binary heap by `key`, least first, that moves its elements exactly as Java's does.

    An element's key must not change while it is in the queue.
    """

    def __init__(self, key: Callable[[T], float], items: Iterable[T] = ()) -> None:
        self._key = key
        self._heap: list[T] = []
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: T) -> None:
        heap, key = self._heap, self._key
        at = len(heap)
        heap.append(item)
        weight = key(item)
        while at > 0:
            parent = (at - 1) // 2
            if weight >= key(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = item

    def poll(self) -> T | None:
        """Removes the least element and returns it, or None if the queue is empty."""
        heap, key = self._heap, self._key
        if not heap:
            return None
        least = heap[0]
        last = heap.pop()
        if not heap:
            return least
        weight = key(last)
        at = 0
        while at < len(heap) // 2:
            child = 2 * at + 1
            right = child + 1
            if right < len(heap) and key(heap[child]) > key(heap[right]):
                child = right
            if weight <= key(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
        return least
