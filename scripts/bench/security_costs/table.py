"""The table of costs: what is measured pair by pair becomes medians, and ratios of what was measured side by side.

A ratio is the median of the pairs' ratios, not the ratio of medians: what else the machine did in a pair falls on both.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

Figures = dict[tuple[str, str], list[float]]
"""(who, figure) -> a value a pair"""


@dataclass(frozen=True)
class Row:
    """A line of the table: `figure` of `who`, beside that of `to`. A target is a ratio to that one, or an absolute number."""

    title: str
    who: str
    figure: str
    unit: str
    to: str = ""
    at_most: float | None = None
    at_least: float | None = None
    absolute: float | None = None


def in_turn(measured: Sequence[T], pair: int) -> Sequence[T]:
    """Returns who is measured in a pair, in order: the one that begins changes from pair to pair."""
    return measured[:: 1 if pair % 2 else -1]


def median(found: Mapping[tuple[str, str], Sequence[float]], who: str, figure: str) -> float | None:
    values = found.get((who, figure))
    return statistics.median(values) if values else None


def ratios(found: Mapping[tuple[str, str], Sequence[float]], row: Row) -> list[float]:
    """Returns the ratios of the pairs; none where one of the two has no figure."""
    own, other = found.get((row.who, row.figure), ()), found.get((row.to, row.figure), ())
    return [one / two for one, two in zip(own, other, strict=False) if two]


def holds(found: Mapping[tuple[str, str], Sequence[float]], row: Row) -> bool | None:
    """Returns whether the target is met; None where there is none, or nothing was measured."""
    own, times = median(found, row.who, row.figure), ratios(found, row)
    if row.absolute is not None and own is not None:
        return own <= row.absolute
    if not times:
        return None
    if row.at_most is not None:
        return statistics.median(times) <= row.at_most
    return None if row.at_least is None else statistics.median(times) >= row.at_least


def line(found: Mapping[tuple[str, str], Sequence[float]], row: Row) -> str:
    """Returns a row of a markdown table: both figures, their ratio with the smallest and largest of the pairs, the target."""
    times = ratios(found, row)
    ratio = f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})" if times else ""
    target = f"at most {row.at_most:g} ×" if row.at_most is not None else ""
    target = f"at least {row.at_least:g} ×" if row.at_least is not None else target
    target = f"at most {row.absolute:g} {row.unit}" if row.absolute is not None else target
    if holds(found, row) is False:
        target += " **missed**"
    cells = [_number(median(found, who, row.figure), row.unit) for who in (row.who, row.to)]
    return f"| {row.title} | {cells[0]} | {cells[1]} | {ratio} | {target} |"


def table(found: Mapping[tuple[str, str], Sequence[float]], rows: Sequence[Row], own: str, other: str) -> str:
    """Returns the rows that were measured as a markdown table, with these names of its two columns of figures."""
    shown = [line(found, row) for row in rows if (row.who, row.figure) in found]
    return "\n".join([f"| load | {own} | {other} | ratio | target |", "|---|---|---|---|---|", *shown])


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{digits} {unit}" if unit[:1] != "/" else f"{digits}{unit}"
