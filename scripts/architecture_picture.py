"""Draws the rooms of the tree, floor upon floor, from its imports: docs/architecture.svg and the figures in ARCHITECTURE.md.

    python -m scripts.architecture_picture

A room is a folder of `server/` or another folder at the top of the tree, and stands one floor above the highest room that it
imports. Of the arrows only those are drawn that no other way down implies; the figures count all. The same imports give the same
bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import NamedTuple

from scripts.import_graph import (
    FOLDERS,
    ROOT,
    Graph,
    arrows_up,
    graph,
    package_circles,
    reachable,
    room,
    room_arrows,
    room_order,
)
from scripts.written_pages import main

PICTURE = Path("docs/architecture.svg")
PAGE = Path("ARCHITECTURE.md")
BEGIN, END = "<!-- figures: scripts/architecture_picture.py -->", "<!-- end of figures -->"

FONT = 'font-family="system-ui, sans-serif"'
INK, SOFT, PAPER = "#1b2733", "#9aa7b3", "#ffffff"
COLOURS = {
    "server": "#e8f0fa",
    "log": "#e6f4e6",
    "wire": "#fdf3dc",
    "commands": "#f3e8fa",
    "pipeline": "#fbe9e7",
    "security": "#e6f2f2",
    "console": "#eef3dc",
}
WIDTH, MARGIN, BOX_HEIGHT, FLOOR_HEIGHT, GAP = 900, 70, 44, 76, 26

Arrows = Mapping[str, set[str]]
"""Room -> the rooms that it imports."""


class House(NamedTuple):
    """The house that is drawn and counted."""

    floors: list[list[str]]
    """The rooms of each floor, the lowest floor first."""
    sizes: Mapping[str, int]
    """Room -> its modules, not counting `__init__`."""
    arrows: Arrows
    up: int
    circles: int


def floors(arrows: Arrows) -> list[list[str]]:
    """Returns the rooms by floor, the lowest first. The arrows must not form a circle."""
    height: dict[str, int] = {}

    def climb(name: str) -> int:
        if name not in height:
            height[name] = 1 + max((climb(below) for below in arrows[name]), default=-1)
        return height[name]

    for name in arrows:
        climb(name)
    return [sorted(name for name in arrows if height[name] == floor) for floor in range(max(height.values()) + 1)]


def drawn(arrows: Arrows) -> list[tuple[str, str]]:
    """Returns the arrows that no longer way implies, as (upper room, lower room)."""
    below = {name: reachable(arrows, name) for name in arrows}
    return sorted(
        (name, target)
        for name, targets in arrows.items()
        for target in targets
        if not any(target in below[other] for other in targets if other != target)
    )


def house(edges: Graph) -> House:
    """Builds the house of the graph: the rooms of the product. Arrows that run up are counted, and left out of the floors. The
    circles are those of the whole graph."""
    up = set(arrows_up(edges, room_order()))
    found = room_arrows(edges)
    rooms = [name for name in room_order() if name in found and name.partition("/")[0] in FOLDERS]
    arrows = {
        name: {target for target, pairs in found[name].items() if target in rooms and not up.issuperset(pairs)} for name in rooms
    }
    sizes = dict.fromkeys(arrows, 0)
    for module in edges:
        if room(module) in sizes and not any(other.startswith(f"{module}.") for other in edges):
            sizes[room(module)] += 1
    raised = {(room(module), room(target)) for module, target in up}
    return House(floors(arrows), sizes, arrows, len(raised), len(package_circles(edges)))


def figures(drawing: House) -> str:
    """Returns the figures as a table of Markdown."""
    at_root = ", ".join(f"{folder}/ {len(modules_at(folder))}" for folder in FOLDERS)
    rows = [
        ("rooms", str(len(drawing.sizes))),
        ("floors", str(len(drawing.floors))),
        ("arrows from room to room", str(sum(map(len, drawing.arrows.values())) + drawing.up)),
        ("of these, arrows up", str(drawing.up)),
        ("circles of modules or packages, tests and scripts, late and type-only imports included", str(drawing.circles)),
        ("modules at the root of a folder", at_root),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def modules_at(folder: str) -> list[str]:
    """Returns the names of the modules that stand in a top folder itself, in no room of it."""
    return sorted(path.stem for path in (ROOT / folder).glob("*.py") if path.stem != "__init__")


def places(drawing: House) -> dict[str, tuple[float, float, float]]:
    """Returns the (left, top, width) of each room's box. Rooms of a floor stand near the middle of what they rest on."""
    found: dict[str, tuple[float, float, float]] = {}
    rests = {name: [low for high, low in drawn(drawing.arrows) if high == name] for name in drawing.arrows}
    for number, rooms in enumerate(drawing.floors):
        top = MARGIN + (len(drawing.floors) - 1 - number) * FLOOR_HEIGHT

        def pull(name: str) -> float:
            middles = [found[low][0] + found[low][2] / 2 for low in rests[name]]
            return sum(middles) / len(middles) if middles else WIDTH / 2

        ordered = sorted(rooms, key=lambda name: (round(pull(name)), name))
        widths = [28 + 9.0 * len(name) for name in ordered]
        left = (WIDTH - sum(widths) - GAP * (len(widths) - 1)) / 2 + 20
        for name, width in zip(ordered, widths, strict=True):
            found[name] = (left, top, width)
            left += width + GAP
    return found


def picture(drawing: House) -> str:
    """Returns the house as SVG."""
    boxes = places(drawing)
    height = 2 * MARGIN + (len(drawing.floors) - 1) * FLOOR_HEIGHT + BOX_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>',
        f'<text x="{WIDTH / 2:g}" y="36" {FONT} font-size="16" font-weight="600" fill="{INK}" text-anchor="middle">'
        "Rooms and floors: each room imports only what stands below it</text>",
    ]
    for high, low in drawn(drawing.arrows):
        (x1, y1, w1), (x2, y2, w2) = boxes[high], boxes[low]
        start, end, bend = x1 + w1 / 2, x2 + w2 / 2, (y2 - y1 - BOX_HEIGHT) / 2
        path = (
            f"M{start:.0f} {y1 + BOX_HEIGHT:g} C{start:.0f} {y1 + BOX_HEIGHT + bend:g} {end:.0f} {y2 - bend:g} {end:.0f} {y2:g}"
        )
        parts.append(f'<path d="{path}" fill="none" stroke="{SOFT}" stroke-width="1.4"/>')
    for number in range(len(drawing.floors)):
        y = MARGIN + (len(drawing.floors) - 1 - number) * FLOOR_HEIGHT + BOX_HEIGHT / 2 + 5
        parts.append(f'<text x="24" y="{y:g}" {FONT} font-size="13" fill="{SOFT}">{number}</text>')
    for name, (x, y, width) in boxes.items():
        size = f"{drawing.sizes[name]} module{'s' if drawing.sizes[name] != 1 else ''}"
        fill = COLOURS[name.partition("/")[0]]
        words = f'{FONT} fill="{INK}" text-anchor="middle"'
        parts += [
            f'<rect x="{x:.0f}" y="{y:g}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="6" fill="{fill}" stroke="{INK}"/>',
            f'<text x="{x + width / 2:.0f}" y="{y + 19:g}" font-size="14" {words}>{escape(name)}</text>',
            f'<text x="{x + width / 2:.0f}" y="{y + 36:g}" font-size="11" {words}>{size}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def with_figures(page: str, table: str) -> str:
    """Returns the page with the table between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def pages() -> dict[Path, str]:
    """Returns what the two files should say."""
    drawing = house(graph())
    page = ROOT / PAGE
    return {ROOT / PICTURE: picture(drawing), page: with_figures(page.read_text(), figures(drawing))}


if __name__ == "__main__":
    sys.exit(main(__doc__, pages))
