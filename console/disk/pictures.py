"""Pictures of files: a log as a strip of segments, a segment as a strip of batches. Their geometry; pictures.html draws it.

A bar is as high as its file or batch is large. What it is, is told by its pattern and its title, never by its colour alone. A bar
may be a link; who cannot see or point at it has the same in the table below the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from ottla.commands.log.dump.segment import CODECS
from ottla.commands.output import counted
from ottla.commands.topic_rows import human_bytes
from ottla.console.disk.batches import Row
from ottla.console.disk.directory import FileEntry
from ottla.console.rendering.templates import segment

_HEIGHT: Final = 120
_LEAST: Final = 9
"""A bar is never lower, or its pattern could not be seen."""
_BATCH_WIDTH: Final = 10
_FILE_WIDTH: Final = 34
_TICKS: Final = 18
_LEAST_WIDTH: Final = 260


class Bar(NamedTuple):
    """A rectangle in pixels. `pattern` is one of pictures.html; `link` is an address or empty."""

    x: int
    y: int
    width: int
    height: int
    pattern: str
    title: str
    link: str = ""


class Tick(NamedTuple):
    """A mark below a bar: a triangle for the offset index, a circle for the time index, a cross for missing offsets."""

    x: int
    y: int
    shape: str


class Picture(NamedTuple):
    """`patterns` and `shapes` are those that occur, for the legend."""

    width: int
    height: int
    label: str
    bars: list[Bar]
    ticks: list[Tick]
    patterns: list[str]
    shapes: list[str]


def codec_name(codec: int) -> str:
    return CODECS[codec] if codec < len(CODECS) else f"unknown codec {codec}"


def of_batches(rows: Sequence[Row]) -> Picture:
    """Returns the picture of some batches; each bar leads to `?batch=` and its position."""
    most = max((row.size for row in rows), default=1)
    bars, ticks = [], []
    for at, row in enumerate(rows):
        x, height = at * _BATCH_WIDTH, _scaled(row.size, most)
        bars.append(Bar(x, _HEIGHT - height, _BATCH_WIDTH - 1, height, pattern_of(row), _words(row), f"?batch={row.position}"))
        middle = x + _BATCH_WIDTH // 2
        if row.is_indexed:
            ticks.append(Tick(middle, _HEIGHT + 5, "offset"))
        if row.is_timed:
            ticks.append(Tick(middle, _HEIGHT + 12, "time"))
        if row.missing:
            ticks.append(Tick(x, 4, "missing"))
    return _picture(bars, ticks, f"{counted(len(rows), 'batch', 'batches')}, the higher the larger")


def pattern_of(row: Row) -> str:
    """Returns the pattern of a batch: that it is damaged, aborted, or a control batch, counts more than its codec."""
    if row.header is None or row.why:
        return "damage"
    if row.header.is_control:
        return "control"
    return codec_name(row.header.codec) if row.header.codec < len(CODECS) else "other"


def _words(row: Row) -> str:
    """Returns a batch in one line."""
    if row.header is None:
        return f"no batch: {row.why}"
    parts = [
        f"offsets {row.header.base_offset} to {row.header.last_offset}",
        human_bytes(row.size),
        row.control or codec_name(row.header.codec),
    ]
    return ", ".join([*parts, *(["aborted"] if row.is_aborted else []), *([row.why] if row.why else [])])


def of_log(segments: Sequence[FileEntry], others: Sequence[FileEntry], due: int, *, is_end: bool, link: str) -> Picture:
    """Returns the picture of a log's segments, then of what is out of use. The first `due` are what retention takes next, and
    with `is_end` the last is active. `link` is the address in front of a file's name."""
    most = max((one.size for one in (*segments, *others)), default=1)
    bars = []
    for at, one in enumerate((*segments, *others)):
        is_active = is_end and at == len(segments) - 1
        kind = one.state or ("active" if is_active else "next" if at < due else "segment")
        height = _scaled(one.size, most)
        words = {"next": "retention takes it next", "segment": ""}.get(kind, kind)
        title = f"{one.name}, {human_bytes(one.size)}{f', {words}' if words else ''}"
        bars.append(Bar(at * _FILE_WIDTH, _HEIGHT - height, _FILE_WIDTH - 4, height, kind, title, f"{link}{segment(one.name)}"))
    return _picture(bars, [], f"{counted(len(bars), 'file')} of the log, the higher the larger")


def of_places(size: int, places: Sequence[tuple[int, int]], start: int, end: int) -> Picture:
    """Returns a whole segment as one bar, with links to places in it; the part from `start` to `end` is what a page shows."""
    width = 600
    edges = [(0, 0), *((offset, position) for offset, position in places), (0, size)]
    bars = []
    for (offset, position), (_, following) in pairwise(edges):
        left, right = position * width // size, following * width // size
        is_here = position < end and start < following
        title = f"position {position}{f', about offset {offset}' if position else ''}{', shown here' if is_here else ''}"
        bars.append(Bar(left, 0, max(1, right - left - 1), 16, "here" if is_here else "segment", title, f"?at={position}"))
    return Picture(width, 16, f"The whole segment, {human_bytes(size)}", bars, [], [], [])


class Mark(NamedTuple):
    """An offset with its name, and where it lies in a bar from 0 to 600."""

    name: str
    offset: int
    x: int


def of_offsets(marks: Sequence[tuple[str, int | None]]) -> list[Mark]:
    """Returns the offsets of a partition in ascending order, laid out between the first and the last."""
    known = sorted(((name, offset) for name, offset in marks if offset is not None), key=lambda one: one[1])
    if not known:
        return []
    first, last = known[0][1], known[-1][1]
    return [Mark(name, offset, (offset - first) * 600 // max(1, last - first)) for name, offset in known]


def _scaled(size: int, most: int) -> int:
    return max(_LEAST, size * _HEIGHT // max(1, most))


def _picture(bars: list[Bar], ticks: list[Tick], label: str) -> Picture:
    width = max(_LEAST_WIDTH, max((bar.x + bar.width + 1 for bar in bars), default=0))
    patterns, shapes = list(dict.fromkeys(bar.pattern for bar in bars)), list(dict.fromkeys(tick.shape for tick in ticks))
    return Picture(width, _HEIGHT + (_TICKS if ticks else 1), label, bars, ticks, patterns, shapes)
