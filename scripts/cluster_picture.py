"""Draws docs/cluster.svg: a cluster of ottla and Apache Kafka, and who asks whom. Plain SVG, the same bytes at every run.

    python -m scripts.cluster_picture

Its colours follow the reader's: the picture has two sets, and `prefers-color-scheme` picks one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Final

from scripts.written_pages import main

PICTURE: Final = Path(__file__).resolve().parents[1] / "docs" / "cluster.svg"
WIDTH, HEIGHT = 920, 470
LIGHT: Final = {
    "paper": "#ffffff",
    "ink": "#1b2733",
    "soft": "#5b6b7a",
    "ottla": "#e8f1fa",
    "kafka": "#f3f4f6",
    "leader": "#1f5f99",
    "on-leader": "#ffffff",
    "copy": "#c2571a",
}
DARK: Final = {
    "paper": "#0d1117",
    "ink": "#e6edf3",
    "soft": "#9aa7b3",
    "ottla": "#14283d",
    "kafka": "#20262d",
    "leader": "#79b8ff",
    "on-leader": "#0d1117",
    "copy": "#f0a36b",
}
"""The colours on a dark page, by the same names."""

BROKERS: Final = ((1, "ottla"), (2, "ottla"), (3, "kafka"))
"""Broker id and its kind; broker n leads partition n - 1, and the others follow it."""
NAMES: Final = {"ottla": "ottla", "kafka": "Apache Kafka"}
_LEFT, _STEP, _BOX = 30, 300, 260
_BROKERS_TOP, _ROW, _CHIP = 170, 42, 26


def style(colours: Mapping[str, str]) -> str:
    """Returns the rules of one set of colours."""
    fills = "".join(f".{name}{{fill:{colour}}}" for name, colour in colours.items())
    line = f".line{{fill:none;stroke:{colours['soft']}}}.box{{stroke:{colours['ink']}}}"
    copy = f".copies{{fill:none;stroke:{colours['copy']};stroke-width:1.5}}"
    return f"{fills}{line}{copy}.follower{{fill:none;stroke:{colours['leader']}}}"


def text(x: float, y: float, words: str, *, kind: str = "ink", size: int = 13, weight: int = 400, anchor: str = "middle") -> str:
    place = f'x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind} box" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8"/>'


def arrow(kind: str, end: str, *points: tuple[float, float]) -> str:
    path = " ".join(f"{'L' if number else 'M'}{x:g} {y:g}" for number, (x, y) in enumerate(points))
    return f'<path class="{kind}" d="{path}" marker-end="url(#{end})"/>'


def chip(x: float, y: float, partition: int, leads: bool) -> list[str]:
    """Returns a replica of a partition, as its leader or as a follower."""
    shape = f'<rect class="{"leader" if leads else "follower"}" x="{x:g}" y="{y:g}" width="150" height="{_CHIP}" rx="5"/>'
    words = f"orders-{partition}, {'leader' if leads else 'follower'}"
    return [shape, text(x + 75, y + 18, words, kind="on-leader" if leads else "ink", size=12, weight=600 if leads else 400)]


def broker(index: int) -> list[str]:
    node, kind = BROKERS[index]
    x, middle = _LEFT + _STEP * index, _LEFT + _STEP * index + _BOX / 2
    parts = [box(x, _BROKERS_TOP, _BOX, 175, kind), text(middle, _BROKERS_TOP + 25, f"broker {node}: {NAMES[kind]}", weight=600)]
    for partition in range(len(BROKERS)):
        parts += chip(middle - 75, _BROKERS_TOP + 42 + _ROW * partition, partition, partition == index)
    parts.append(arrow("line", "end", (middle, _BROKERS_TOP - 3), (middle, 107)))
    parts.append(arrow("line", "end", (middle, 405), (middle, _BROKERS_TOP + 178)))
    return parts


def copies() -> Iterable[str]:
    """Yields the arrows along which records are copied: from the leader of each partition to its followers."""
    for partition in range(len(BROKERS)):
        y = _BROKERS_TOP + 42 + _ROW * partition + _CHIP / 2
        for follower in range(len(BROKERS)):
            if follower == partition:
                continue
            way = 1 if follower > partition else -1
            begin = _LEFT + _STEP * partition + _BOX / 2 + way * 77
            end = _LEFT + _STEP * follower + _BOX / 2 - way * 78
            if abs(follower - partition) == 1:
                yield arrow("copies", "copied", (begin, y), (end, y))
            else:  # passes the replica in the middle between two rows
                low = y + _ROW / 2
                yield arrow("copies", "copied", (begin, y + 7), (begin + way * 30, low), (end - way * 30, low), (end, y + 7))


def picture() -> str:
    title = "Controllers of Apache Kafka; brokers of ottla and Apache Kafka, each with a replica of every partition; clients"
    decide = "they decide who leads and who is in sync, and keep topics, settings and access rules"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"'
    font = 'font-family="system-ui, sans-serif"'
    dark = f"@media (prefers-color-scheme: dark){{{style(DARK)}}}"
    marker = '<marker id="{}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    tip = '<path class="{}" d="M0 0L10 5L0 10z"/></marker>'
    markers = "".join(marker.format(name) + tip.format(colour) for name, colour in (("end", "soft"), ("copied", "copy")))
    return "\n".join(
        [
            f"{head} {font}>",
            f"<style>{style(LIGHT)}{dark}</style>",
            f"<defs>{markers}</defs>",
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
            box(_LEFT, 20, 2 * _STEP + _BOX, 84, "kafka"),
            text(WIDTH / 2, 48, "controllers: Apache Kafka's, one or three", size=15, weight=600),
            text(WIDTH / 2, 70, decide, kind="soft"),
            text(WIDTH / 2, 90, "__cluster_metadata", kind="soft", size=12),
            text(
                _LEFT + _BOX / 2 + 12,
                142,
                "registers, sends heartbeats, follows the metadata",
                kind="soft",
                size=12,
                anchor="start",
            ),
            *(part for index in range(len(BROKERS)) for part in broker(index)),
            *copies(),
            box(_LEFT, 408, 2 * _STEP + _BOX, 44, "paper"),
            text(WIDTH / 2, 435, "producers and consumers, each at the leader of its partition", size=14, weight=600),
            text(_LEFT + _BOX / 2 + 12, 382, "Produce, Fetch", kind="soft", size=12, anchor="start"),
            text(
                _LEFT + _STEP + _BOX / 2 + 12,
                382,
                "orange: followers fetch from the leader",
                kind="copy",
                size=12,
                anchor="start",
            ),
            "</svg>",
            "",
        ]
    )


def pages() -> dict[Path, str]:
    """Returns the file with its text."""
    return {PICTURE: picture()}


if __name__ == "__main__":
    sys.exit(main(__doc__, pages))
