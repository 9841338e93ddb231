"""How answers list what there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def bounded(name: str, elements: Sequence[T], limit: int, describe: Any) -> dict[str, Any]:
    """Returns an answer with the first elements, each as `describe` has it, and how many were `left_off`."""
    return {name: [describe(each) for each in elements[:limit]], "left_off": max(0, len(elements) - limit)}


def ascending(partitions: Iterable[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    """Yields partitions as JSON has them, in order."""
    for topic, partition in sorted(partitions):
        yield {"topic": topic, "partition": partition}
