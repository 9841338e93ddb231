"""The orders in which three of Java's collections give their elements back, where Kafka's task assignor lets them decide.

Members with nothing to tell them apart get their tasks in the order in which the group's table happens to list them, and
processes with the same load in the order in which a PriorityQueue happens to hold them. A group that moves between a Kafka and
this broker must not be reshuffled for that. modern/java_order.py has HashMap's order; here are that of one that was filled by
computeIfAbsent (`computed_map_order`), Kafka's own table of a group's members (`timeline_map_order`) and java.util.PriorityQueue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from ottla.server.group.modern.java_order import string_hash

T = TypeVar("T")

LOAD_FACTOR = 0.75
_FIBONACCI = -7046029254386353131 & 0xFFFFFFFFFFFFFFFF
_SMALLEST_TIMELINE_TABLE = 2


def timeline_map_order(keys: Sequence[str]) -> list[str]:
    """How Kafka's TimelineHashMap lists `keys` that were put into it in this order; the later of a slot come first.

    Its table never shrinks, so one that had more keys before may list them differently.
    """
    bits = 1
    size = _SMALLEST_TIMELINE_TABLE
    while len(keys) * LOAD_FACTOR > size:
        bits += 1
        size *= 2
    latest_first = list(keys)[::-1]
    return sorted(latest_first, key=lambda key: _timeline_slot(key, bits))


def computed_map_order(calls: Iterable[str], expected: int) -> list[str]:
    """How a HashMap made for `expected` keys lists those that computeIfAbsent was called with, in this order.

    Unlike put, that call makes the table larger before it looks for the key and not after it adds it, and adds it in front.
    """
    capacity = 1
    while capacity < expected:
        capacity *= 2
    keys: dict[str, None] = {}
    for key in calls:
        if len(keys) > int(capacity * LOAD_FACTOR):
            capacity *= 2
        keys[key] = None
    latest_first = list(keys)[::-1]
    return sorted(latest_first, key=lambda key: _slot(key, capacity))


def _slot(key: str, capacity: int) -> int:
    value = string_hash(key)
    return (value ^ value >> 16) & (capacity - 1)


def _timeline_slot(key: str, bits: int) -> int:
    value = string_hash(key)
    if value >= 1 << 31:
        value -= 1 << 32
    return (value * _FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> (64 - bits)


class PriorityQueue(Generic[T]):
    """A binary heap by `key`, least first, that moves its elements exactly as Java's does.

    An element's key may change while it is not in the queue, not while it is.
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
        """Take the least element out; None of an empty queue."""
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
