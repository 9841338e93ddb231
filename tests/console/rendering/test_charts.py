"""Tests of where the points of a chart are, and the table of the same numbers."""

from __future__ import annotations

import pytest

from ottla.console.rendering.charts import MAX_ROWS, Point, amount, chart


def test_points_and_ticks() -> None:
    made = chart("Title", "offsets/s", [("a", [Point(0, 0), Point(1000, 50), Point(2000, 100)]), ("b", [Point(1000, 25)])])
    assert made is not None
    assert made.lines[0].points == "74.0,194.0 482.0,104.0 890.0,14.0"
    assert made.lines[1].points == "482.0,149.0"
    assert [(tick.y, tick.text) for tick in made.ticks] == [
        *((194.0, "0"), (149.0, "25"), (104.0, "50"), (59.0, "75"), (14.0, "100")),
    ]
    assert made.rows == [(2000, [100, None]), (1000, [50, 25]), (0, [0, None])]


def test_too_little_to_draw_and_nothing_but_zero() -> None:
    assert chart("t", "u", []) is None
    assert chart("t", "u", [("a", [Point(5, 1)])]) is None
    made = chart("t", "u", [("a", [Point(time_ms, 0) for time_ms in range(600)])])
    assert made is not None
    assert made.ticks[-1].text == "1"
    assert len(made.rows) == MAX_ROWS


@pytest.mark.parametrize(("value", "top"), [(1, "1"), (1.1, "2"), (3, "5"), (51, "100"), (0.04, "0.05"), (7001, "10,000")])
def test_the_top_is_a_round_number(value: float, top: str) -> None:
    made = chart("t", "u", [("a", [Point(0, value), Point(1, 0)])])
    assert made is not None
    assert made.ticks[-1].text == top


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (5, ["0", "1", "2", "3", "4", "5"]),
        (50, ["0", "10", "20", "30", "40", "50"]),
        (0.05, ["0", "0.01", "0.02", "0.03", "0.04", "0.05"]),
        (20, ["0", "5", "10", "15", "20"]),
        (10, ["0", "2.5", "5", "7.5", "10"]),
        (0.1, ["0", "0.025", "0.05", "0.075", "0.1"]),
    ],
)
def test_what_a_tick_says_is_where_it_is(value: float, texts: list[str]) -> None:
    """A quarter of 5 is 1.25, for which there is no room."""
    made = chart("t", "u", [("a", [Point(0, value), Point(1, 0)])])
    assert made is not None
    assert [tick.text for tick in made.ticks] == texts


def test_amounts() -> None:
    assert [amount(value) for value in (0, 0.25, 3, 12.6, 123456)] == ["0", "0.25", "3", "13", "123,456"]


def test_a_narrow_chart() -> None:
    made = chart("t", "u", [("a", [Point(0, 0), Point(1000, 1)])], width=520)
    assert made is not None
    assert made.lines[0].points == "74.0,194.0 510.0,14.0"
    assert (made.left, made.right) == (74, 510)
