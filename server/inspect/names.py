"""Builds the lists in answers: of bounded length, and partitions in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import Any, TypeVar

T = TypeVar("T")


def bounded(
    name: str, elements: Sequence[T], limit: int, describe: Callable[[T], Any], *, key: Callable[[T], Any] | None = None
) -> dict[str, Any]:
    """Returns an answer with the first elements, each as `describe` has it, and how many were `left_off`. They are in the order
    of `key`, in which no more than these are put, or else as they come."""
    first = elements[:limit] if key is None else nsmallest(limit, elements, key)
    return {name: [describe(each) for each in first], "left_off": max(0, len(elements) - limit)}


def ascending(partitions: Iterable[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    """Yields partitions as JSON has them, in order."""
    for topic, partition in sorted(partitions):
        yield {"topic": topic, "partition": partition}
