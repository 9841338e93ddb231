"""pipeline/data_source/filters.py: each comparison is held against the numbers and times that it is to let through."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest

from ottla.pipeline.data_source.filters import Pushed
from ottla.pipeline.data_source.segments import MAX_OFFSET, MIN_TIMESTAMP, Wanted

COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def filter_of(kind: str, column: str, value: Any) -> Any:
    """Returns a filter as Spark 4.1 hands it over."""
    return type(kind, (SimpleNamespace,), {})(attribute=(column,), value=value)


def pushed(*filters: Any) -> Wanted:
    """Returns what is left of a partition by filters that are all accepted."""
    found = Pushed()
    assert all(map(found.take, filters))
    return found.narrow(Wanted())


@pytest.mark.parametrize("around_ms", [0, 5, -5, 1_795_251_600_000])
@pytest.mark.parametrize("kind", COMPARISONS)
def test_a_time_within_a_millisecond_is_compared_as_it_is(kind: str, around_ms: int) -> None:
    """Records have whole milliseconds, and Spark's timestamps microseconds."""
    for micros in (*range(-2, 3), 499, 500, 501, 998, 999, 1000, 1001, -999, -1000, -1001):
        value = around_ms * 1000 + micros
        wanted = pushed(filter_of(kind, "timestamp", EPOCH + timedelta(microseconds=value)))
        for ms in range(around_ms - 4, around_ms + 5):
            is_left = wanted.earliest <= ms < wanted.latest
            assert is_left == COMPARISONS[kind](ms * 1000, value), (kind, value, ms)


@pytest.mark.parametrize("kind", COMPARISONS)
def test_an_offset_is_compared_as_it_is(kind: str) -> None:
    for value in (0, 1, 17, -1):
        wanted = pushed(filter_of(kind, "offset", value))
        for offset in range(20):
            assert (wanted.low <= offset < wanted.high) == COMPARISONS[kind](offset, value), (value, offset)


@pytest.mark.parametrize("column", ["offset", "timestamp"])
def test_a_comparison_leaves_its_other_end_open(column: str) -> None:
    value = 7 if column == "offset" else EPOCH + timedelta(milliseconds=7)
    above, below = pushed(filter_of("GreaterThan", column, value)), pushed(filter_of("LessThan", column, value))
    if column == "offset":
        assert (above, below) == (Wanted(low=8), Wanted(high=7))
    else:
        assert (above, below) == (Wanted(earliest=8), Wanted(latest=7))
    assert (Wanted().high, Wanted().earliest, Wanted().latest) == (MAX_OFFSET, MIN_TIMESTAMP, MAX_OFFSET)


def test_filters_narrow_each_other_and_what_the_options_want() -> None:
    found = Pushed()
    for kind, value in (("GreaterThan", 3), ("GreaterThanOrEqual", 6), ("LessThan", 90), ("LessThanOrEqual", 80)):
        assert found.take(filter_of(kind, "offset", value))
        assert found.take(filter_of(kind, "timestamp", EPOCH + timedelta(milliseconds=value)))
    assert found.narrow(Wanted()) == Wanted(6, 81, 6, 81)
    assert found.narrow(Wanted(10, 70, 20, 60, committed=True)) == Wanted(10, 70, 20, 60, committed=True)
    assert found.narrow(Wanted(1, 100, 1, 100)) == Wanted(6, 81, 6, 81)


def test_topics_and_partitions_are_what_all_filters_leave() -> None:
    found = Pushed()
    assert not found.excludes("t", 0)
    assert found.take(filter_of("In", "topic", ("t", "u")))
    assert found.take(filter_of("In", "partition", (0, 1)))
    assert (found.excludes("t", 0), found.excludes("v", 0), found.excludes("t", 2)) == (False, True, True)
    assert found.take(filter_of("EqualTo", "topic", "u"))
    assert found.take(filter_of("EqualTo", "partition", 1))
    assert (found.excludes("u", 1), found.excludes("t", 1), found.excludes("u", 0)) == (False, True, True)


@pytest.mark.parametrize("column", ["topic", "partition", "offset", "timestamp", "timestampType"])
def test_columns_that_are_never_null(column: str) -> None:
    assert pushed(filter_of("IsNotNull", column, None)) == Wanted()
    assert not Pushed().take(filter_of("IsNull", column, None))
