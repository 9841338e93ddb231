"""The conclusions from two hours of samples: the slope of everything that was measured, and whether it may be like that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from scripts.soak.slopes import Point, Slope, blocks, slope

WARM_UP: Final = 0.25
"""The share of the run that is not looked at: caches fill, what expires begins to, and the allocator finds its size."""
BLOCK_S: Final = 120.0
SETTLED_S: Final = 15.0
"""The age, in seconds, up to which a broker is still starting: what it takes until then is left out."""
LEVEL, OPEN, GROWS, MACHINE = "level", "open", "grows", "machine"

Row = dict[str, Any]


@dataclass(frozen=True)
class Bound:
    """The most that a measurement may rise in an hour: in its unit, or as a share of its median."""

    name: str
    unit: str
    most: float
    relative: bool = False
    ruler: str = ""
    """The name of the figure that shows what the machine itself did to the same measurement."""

    def at(self, middle: float) -> float:
        return self.most * middle if self.relative else self.most


MEMORY_BOUND_MIB: Final = 1.0
"""At two rounds a second there are 7,200 rounds an hour with about eleven requests each: 13 bytes a request, less than any object
of Python's takes, so nothing that is kept for each request stays below it. A topic, a group, a connection or a transaction comes
about 200 times an hour: 5 KiB each."""
SHARED: Final = (
    Bound("rss_mib", "MiB", MEMORY_BOUND_MIB),
    Bound("pss_mib", "MiB", MEMORY_BOUND_MIB),
    Bound(
        "descriptors", "", 2.0
    ),  # one that is left by each of the 200 topics, groups or connections an hour would be a hundred times that
    Bound("deleted", "", 2.0),
    Bound("threads", "", 0.5),
    Bound("data_mib", "MiB", 1.0),  # 115 MiB are written in an hour
    Bound("files", "", 10.0),  # about a thousand segments come and go in an hour, with three files each
    Bound("p50_ms", "ms", 0.1, True, "ruler_p50_ms"),  # the interval of two hours on a machine with other work is about as wide
    Bound("p99_ms", "ms", 0.25, True, "ruler_p99_ms"),
)
LASTING: Final = (*SHARED, Bound("cpu_s", "s", 0.05, True))
"""CPU in ten seconds of the same work: what latency would be if the machine were ours alone."""
KILLED: Final = (*SHARED, Bound("start_s", "s", 0.25, True, "ruler_p99_ms"), Bound("start_cpu_s", "s", 0.05, True))


@dataclass(frozen=True)
class Line:
    """A row of the table: a measurement over the part after the warm-up."""

    bound: Bound
    first: float
    middle: float
    last: float
    slope: Slope | None
    verdict: str

    def cells(self) -> list[str]:
        numbers = [f"{value:.3f}" for value in (self.first, self.middle, self.last)]
        name = f"{self.bound.name}"
        if self.slope is None:
            return [name, *numbers, "too few", "", f"{self.bound.at(self.middle):.3f}", self.verdict]
        interval = f"{self.slope.low:+.3f} to {self.slope.high:+.3f}"
        return [name, *numbers, f"{self.slope.value:+.3f}", interval, f"{self.bound.at(self.middle):.3f}", self.verdict]


HEAD: Final = ["", "first", "median", "last", "slope an hour", "95 %", "bound", "verdict"]


def rows_of(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def points_of(rows: Iterable[Row], name: str, warm_up_s: float) -> list[Point]:
    """Returns (hours, median) for each block of time after the warm-up. `start_cpu_s` is the CPU time of the first sample after a
    start, for the start and ten seconds of load.
    """
    late = [row for row in rows if row["t"] >= warm_up_s]
    if name == "start_s":
        taken = [(row["t"], row[name]) for row in late if row["kind"] == "start"]
    elif name == "start_cpu_s":
        taken = [(row["t"], row["cpu_s"]) for row in late if row["kind"] == "sample" and row["age_s"] < SETTLED_S]
    else:
        taken = [(row["t"], row[name]) for row in late if row["kind"] == "sample" and row["age_s"] >= SETTLED_S]
    return [(at / 3600, value) for at, value in blocks(taken, BLOCK_S)]


def lines_of(rows: Sequence[Row], bounds: Iterable[Bound], warm_up_s: float) -> list[Line]:
    """Returns the table of one broker."""
    return [_line(rows, bound, warm_up_s) for bound in bounds]


def _line(rows: Sequence[Row], bound: Bound, warm_up_s: float) -> Line:
    points = points_of(rows, bound.name, warm_up_s)
    values = [value for _, value in points] or [0.0]
    middle = median(values)
    fifth = max(len(values) // 5, 1)
    ends = median(values[:fifth]), middle, median(values[-fifth:])
    try:
        found = slope(points)
    except ValueError:
        return Line(bound, *ends, None, OPEN)
    verdict = found.verdict(bound.at(middle))
    if verdict == GROWS and bound.ruler and _grows_as_well(points_of(rows, bound.ruler, warm_up_s), found.low / middle):
        verdict = MACHINE
    return Line(bound, *ends, found, verdict)


def _grows_as_well(points: Sequence[Point], share: float) -> bool:
    """Returns whether a ruler may have grown by this share of itself an hour."""
    return slope(points).high / median(value for _, value in points) >= share


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]

    def said(row: Sequence[str]) -> str:
        adjust: list[Callable[[str, int], str]] = [str.ljust, *([str.rjust] * (len(row) - 2)), str.ljust]
        return "| " + " | ".join(how(cell, width) for how, cell, width in zip(adjust, row, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([said(head), rule, *map(said, rows)])


def counts_of(rows: Sequence[Row]) -> dict[str, float]:
    """Returns how much was done in one life of a broker, by what it is."""
    kinds = [row["kind"] for row in rows]
    samples = [row for row in rows if row["kind"] == "sample"]
    return {
        "hours": rows[-1]["t"] / 3600 if rows else 0,
        "rounds": samples[-1]["rounds"] if samples else 0,
        "kills": max(kinds.count("start") - 1, 0),
        "checks": kinds.count("check"),
        "promises": sum(row["records"] for row in rows if row["kind"] == "check"),
    }


def summary(title: str, rows: Sequence[Row]) -> str:
    """Returns a line that says how much was done and what failed."""
    counts = counts_of(rows)
    failed = "".join(f"\nFAILED at {row['t']} s: {row['what']}" for row in rows if row["kind"] == "failed")
    return (
        f"{title}: {counts['hours']:.2f} h, {counts['rounds']:,} rounds, {counts['kills']} kills, {counts['checks']} checks of "
        f"{counts['promises']:,} promises{failed}"
    )


def _lines(name: str, rows: Sequence[Row], seconds: float) -> list[Line]:
    return lines_of(rows, KILLED if name == "killed" else LASTING, seconds * WARM_UP)


def slopes_of(files: dict[str, Path], seconds: float) -> Iterator[tuple[str, list[str]]]:
    """Yields the rows of all tables, each with the name of its life; HEAD has the columns of the rest."""
    for name, path in files.items():
        for line in _lines(name, rows_of(path), seconds):
            yield name, line.cells()


def report(files: dict[str, Path], seconds: float) -> tuple[str, list[str]]:
    """Returns (the report, what failed or grew) on the samples of `lasting` and `killed`, or of one of them."""
    parts: list[str] = []
    wrong: list[str] = []
    for name, path in files.items():
        rows = rows_of(path)
        lines = _lines(name, rows, seconds)
        parts += [summary(name, rows), "", table(HEAD, [line.cells() for line in lines]), ""]
        wrong += [f"{name}: {row['what']}" for row in rows if row["kind"] == "failed"]
        wrong += [f"{name}: {line.bound.name} grows" for line in lines if line.verdict == GROWS]
    return "\n".join(parts), wrong
