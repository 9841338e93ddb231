"""Draws docs/pipeline.svg, the pipeline, and docs/flights.svg, what comes out of it: plain SVG, the same bytes at every run.

    python -m scripts.pipeline_picture

The second is made of the hours that scripts/flights_pipeline.py proves the job to have written: how late flights left New York in
2013, by the hour of the day and with the wind.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from zoneinfo import ZoneInfo

from compat_tests.flights_pipeline import Row, expected, flights_and_weather
from scripts.written_pages import main

DOCS = Path(__file__).resolve().parents[1] / "docs"
FONT = 'font-family="system-ui, sans-serif"'
INK, SOFT, PAPER = "#1b2733", "#5b6b7a", "#ffffff"
COLOURS = {"EWR": "#1f77b4", "JFK": "#d62728", "LGA": "#2ca02c"}
NEW_YORK = ZoneInfo("America/New_York")
WINDS = ((0, 8, "calm"), (8, 16, "breeze"), (16, 200, "wind"))
"""From and to, in miles an hour."""


def text(
    x: float, y: float, words: str, *, size: int = 14, anchor: str = "middle", colour: str = INK, weight: str = "400"
) -> str:
    style = f'{FONT} font-size="{size}" font-weight="{weight}" fill="{colour}" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, title: str, lines: Sequence[str], fill: str) -> str:
    middle = x + width / 2
    parts = [f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" stroke="{INK}"/>']
    parts.append(text(middle, y + 24, title, size=15, weight="600"))
    parts += [text(middle, y + 44 + 18 * number, line, size=12, colour=SOFT) for number, line in enumerate(lines)]
    return "\n".join(parts)


def arrow(points: Sequence[tuple[float, float]], words: str = "", at: tuple[float, float] = (0, 0)) -> str:
    path = " ".join(f"{'M' if number == 0 else 'L'}{x:g} {y:g}" for number, (x, y) in enumerate(points))
    drawn = f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="1.5" marker-end="url(#end)"/>'
    return drawn + ("\n" + text(*at, words, size=12, colour=INK, weight="600") if words else "")


def document(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
    end = f'<path d="M0 0L10 5L0 10z" fill="{INK}"/>'
    marker = (
        f'<marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">{end}</marker>'
    )
    paper = f'<rect width="{width}" height="{height}" fill="{PAPER}"/>'
    return "\n".join([head, f"<defs>{marker}</defs>", paper, *parts, "</svg>", ""])


def pipeline() -> str:
    topics, spark, tables, broker = "#e8f1fa", "#fdf1e3", "#e9f6ec", "#f3f4f6"
    return document(
        920,
        400,
        "Topics, Spark and tables: archive, replay, run, audit, and segments read without a broker",
        [
            box(20, 20, 270, 200, "ottla, or any Kafka", ["topics over the Kafka protocol"], broker),
            box(45, 85, 220, 50, "flights", [], topics),
            box(45, 150, 220, 50, "joined, hourly", [], topics),
            box(20, 300, 245, 80, "segment files", ["a data directory of ottla's or Kafka's", "needs no broker"], broker),
            box(380, 20, 200, 360, "Spark", ["local[*], or a cluster", "spark-submit"], spark),
            box(670, 20, 230, 200, "tables", ["Parquet by date, Delta, Iceberg", "exactly once across kill -9"], tables),
            box(670, 300, 230, 80, "a verdict", ["no gap, nothing twice, same sums;", "exit code 1 on any difference"], tables),
            arrow([(155, 222), (155, 298)]),
            arrow([(265, 100), (378, 100)], "archive", (322, 92)),
            arrow([(582, 100), (668, 100)], "archive", (625, 92)),
            arrow([(265, 120), (378, 120)], "run", (322, 136)),
            arrow([(378, 175), (267, 175)], "run, replay", (322, 167)),
            arrow([(582, 135), (668, 135)], "run", (625, 151)),
            arrow([(668, 175), (582, 175)], "replay", (625, 191)),
            arrow([(267, 340), (378, 340)], 'format("ottla")', (321, 330)),
            arrow([(582, 340), (668, 340)], "audit", (625, 332)),
        ],
    )


def mean_delays(hours: Iterable[Row]) -> dict[str, dict[int, float]]:
    """Returns how many minutes late departures are on average, by airport and hour of the day in New York."""
    total: dict[tuple[str, int], float] = defaultdict(float)
    count: dict[tuple[str, int], float] = defaultdict(float)
    for row in hours:
        key = (row["origin"], datetime.fromisoformat(row["hour"]).astimezone(NEW_YORK).hour)
        total[key] += row["delay_min"] or 0
        count[key] += row["departed"]
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for (origin, hour), departed in sorted(count.items()):
        if departed >= 100:  # an hour with a handful of flights says nothing
            found[origin][hour] = total[origin, hour] / departed
    return found


def delays_by_wind(hours: Iterable[Row]) -> list[tuple[str, float]]:
    known = [row for row in hours if row["wind_speed"] is not None and row["delay_min"] is not None]
    found = []
    for low, high, name in WINDS:
        among = [row for row in known if low <= row["wind_speed"] < high]
        found.append((f"{name}, {low}-{high} mph" if high < 100 else f"{name}, {low} mph or more",
                      sum(row["delay_min"] for row in among) / sum(row["departed"] for row in among)))  # fmt: skip
    return found


def output(hours: Sequence[Row]) -> str:
    """Returns the picture: lines by the hour of the day, and three bars by the wind."""
    left, right, bottom, top, most = 70, 560, 330, 60, 40
    delays = mean_delays(hours)

    def place(hour: float, minutes: float) -> tuple[float, float]:
        return left + (hour - 5) / 18 * (right - left), bottom - minutes / most * (bottom - top)

    parts = [text(left - 40, 30, "Minutes late leaving New York in 2013, by the hour", size=16, anchor="start", weight="600")]
    for minutes in range(0, most + 1, 10):
        _, y = place(5, minutes)
        parts.append(f'<path d="M{left} {y:g}L{right} {y:g}" stroke="#d7dde3"/>')
        parts.append(text(left - 10, y + 4, str(minutes), size=12, anchor="end", colour=SOFT))
    parts += [text(place(hour, 0)[0], bottom + 20, f"{hour}:00", size=12, colour=SOFT) for hour in range(5, 24, 3)]
    for number, (origin, by_hour) in enumerate(delays.items()):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(hour, late) for hour, late in by_hour.items()))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[origin]}" stroke-width="2.5"/>')
        parts.append(text(left + 30, top + 20 + 20 * number, origin, anchor="start", colour=COLOURS[origin], weight="600"))
    parts.append(text(610, 30, "and by the wind of the hour", size=16, anchor="start", weight="600"))
    for number, (name, late) in enumerate(delays_by_wind(hours)):
        y = 70 + 80 * number
        parts.append(text(610, y, name, size=13, anchor="start", colour=SOFT))
        parts.append(f'<rect x="610" y="{y + 10}" width="{late * 10:.1f}" height="26" fill="#8a6fb0"/>')
        parts.append(text(610 + late * 10 + 8, y + 28, f"{late:.1f}", size=13, anchor="start"))
    note = f"{len(hours):,} hours in the table that the job writes"
    parts.append(text(610, bottom + 20, note, size=12, anchor="start", colour=SOFT))
    return document(920, 370, "Delays by the hour of the day and by the wind", parts)


def pages() -> dict[Path, str]:
    """Returns both files with their texts."""
    _departures, hours = expected(*flights_and_weather(None))
    return {DOCS / "pipeline.svg": pipeline(), DOCS / "flights.svg": output(hours)}


if __name__ == "__main__":
    sys.exit(main(__doc__, pages))
