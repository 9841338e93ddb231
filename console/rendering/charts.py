"""Lines over time as SVG: this computes where everything is, and the template `chart.html` draws it, escaped like all else.

A chart has a title, and a table of the same numbers for who cannot see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

WIDTH: Final = 900
HEIGHT: Final = 220
_LEFT: Final = 74
_RIGHT: Final = 10
_TOP: Final = 14
_BOTTOM: Final = 26
MAX_ROWS: Final = 60
"""The number of newest points in the table."""


class Point(NamedTuple):
    time_ms: int
    value: float


class Line(NamedTuple):
    """A line as SVG's `points`, and as the points that it is made of."""

    name: str
    points: str
    values: Sequence[Point]


class Tick(NamedTuple):
    """A line across the chart, and what is written beside it."""

    y: float
    text: str


class Chart(NamedTuple):
    title: str
    unit: str
    lines: Sequence[Line]
    ticks: Sequence[Tick]
    first_ms: int
    last_ms: int
    rows: Sequence[tuple[int, Sequence[float | None]]]
    """The newest points by time, with a value of each line or None."""
    width: int

    @property
    def left(self) -> int:
        """Returns where the first point is."""
        return _LEFT

    @property
    def right(self) -> int:
        """Returns where the last point is."""
        return self.width - _RIGHT


def chart(title: str, unit: str, lines: Sequence[tuple[str, Sequence[Point]]], *, width: int = WIDTH) -> Chart | None:
    """Returns the chart of up to a few lines that share their times; None if there are fewer than two points to draw."""
    times = sorted({point.time_ms for _, points in lines for point in points})
    if len(times) < 2:
        return None
    first, last = times[0], times[-1]
    top, steps = _scale(max(point.value for _, points in lines for point in points))

    def x(time_ms: int) -> float:
        return round(_LEFT + (width - _LEFT - _RIGHT) * (time_ms - first) / (last - first), 1)

    def y(value: float) -> float:
        return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / top, 1)

    drawn = [Line(name, " ".join(f"{x(at)},{y(value)}" for at, value in points), points) for name, points in lines]
    ticks = [Tick(y(top * step / steps), amount(top * step / steps)) for step in range(steps + 1)]
    by_time = [dict(points) for _, points in lines]
    rows = [(at, [one.get(at) for one in by_time]) for at in reversed(times[-MAX_ROWS:])]
    return Chart(title, unit, drawn, ticks, first, last, rows, width)


def _scale(value: float) -> tuple[float, int]:
    """Returns 1, 2 or 5 times a power of ten that is not less, and into how many steps of at most two digits it is divided."""
    if value <= 0:
        return 1.0, 4
    power = 1.0
    while power < value:
        power *= 10
    while power / 10 >= value:
        power /= 10
    return next((power * part, steps) for part, steps in ((0.2, 4), (0.5, 5), (1.0, 4)) if power * part >= value)


def amount(value: float) -> str:
    """Returns a number with separators, and if it is small with as many digits behind the point as make two."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"
