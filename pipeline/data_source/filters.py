"""Turns filters that Spark pushes down (4.1 and later) into bounds of offsets and times, and into topics and partitions.

A filter is accepted only if the bounds mean exactly the same; then Spark does not evaluate it again. Filters are recognised by
the names of their classes (`pyspark.sql.datasource.EqualTo` and so on), so that this file does not need Spark; Spark 4.0 has none
of them. A filter has `attribute`, the path of a column, and `value`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ottla.pipeline.data_source.segments import MAX_OFFSET, MIN_TIMESTAMP, Wanted
from ottla.pipeline.times import micros_since_1970

_COMPARISONS: Final = ("EqualTo", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")


class Pushed:
    """The part of the source that all filters together leave."""

    def __init__(self) -> None:
        self.topics: set[str] | None = None
        self.partitions: set[int] | None = None
        self.low = 0
        self.high = MAX_OFFSET
        self.earliest = MIN_TIMESTAMP
        self.latest = MAX_OFFSET

    def take(self, one: Any) -> bool:
        """Adds a filter; returns whether the bounds now express it exactly, so that Spark need not evaluate it."""
        kind, column = type(one).__name__, getattr(one, "attribute", None)
        value: Any = getattr(one, "value", None)
        if column is None or len(column) != 1:
            return False
        if kind == "IsNotNull":
            return column[0] in ("topic", "partition", "offset", "timestamp", "timestampType")
        if kind in ("EqualTo", "In") and column[0] in ("topic", "partition"):
            values: set[Any] = {value} if kind == "EqualTo" else set(value)
            if column[0] == "topic":
                self.topics = values if self.topics is None else self.topics & values
            else:
                self.partitions = values if self.partitions is None else self.partitions & values
            return True
        if kind not in _COMPARISONS:
            return False
        if column[0] == "offset" and isinstance(value, int):
            low, high = _bounds(kind, value)
            self.low, self.high = max(self.low, low), min(self.high, high)
            return True
        if column[0] == "timestamp" and isinstance(value, datetime):
            low, high = _times(kind, value)
            self.earliest, self.latest = max(self.earliest, low), min(self.latest, high)
            return True
        return False

    def excludes(self, topic: str, partition: int) -> bool:
        """Returns whether no row of the partition is wanted."""
        return (self.topics is not None and topic not in self.topics) or (
            self.partitions is not None and partition not in self.partitions
        )

    def narrow(self, wanted: Wanted) -> Wanted:
        return replace(
            wanted,
            low=max(wanted.low, self.low),
            high=min(wanted.high, self.high),
            earliest=max(wanted.earliest, self.earliest),
            latest=min(wanted.latest, self.latest),
        )


def _bounds(kind: str, value: int) -> tuple[int, int]:
    """Returns the range of numbers that pass a filter, as its first number and the first number after it."""
    low = value if kind in ("EqualTo", "GreaterThanOrEqual") else value + 1 if kind == "GreaterThan" else 0
    high = value + 1 if kind in ("EqualTo", "LessThanOrEqual") else value if kind == "LessThan" else MAX_OFFSET
    return low, high


def _times(kind: str, value: datetime) -> tuple[int, int]:
    """Returns what `_bounds` returns, in ms, for records whose time is in whole milliseconds."""
    micros = micros_since_1970(value)
    floor, ceil = micros // 1000, -(-micros // 1000)
    if kind == "EqualTo":
        return (floor, floor + 1) if floor == ceil else (MAX_OFFSET, MIN_TIMESTAMP)
    if kind == "GreaterThan":
        return floor + 1, MAX_OFFSET
    if kind == "GreaterThanOrEqual":
        return ceil, MAX_OFFSET
    return MIN_TIMESTAMP, ceil if kind == "LessThan" else floor + 1
