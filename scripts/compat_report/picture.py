"""The picture of the report: a bar for each proof, and the matrix of clients below it. Plain SVG, drawn by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, Protocol

from scripts.compat_report.matrix import CAPABILITIES, Cell

_WIDTH: Final = 960
_LEFT: Final = 440
_ROW: Final = 26
_GOOD, _BAD, _NONE, _INK, _PALE = "#2e8b57", "#c0392b", "#d9d9d9", "#222222", "#666666"


_SAYS: Final = "passed, out of what Apache Kafka 4.4.0 passes or was compared with"
_LEGEND: Final = (
    "A number: so many tests, all passed with ottla and with Apache Kafka. –: not tested with this client. Grey: not run."
)


class Proof(Protocol):
    """sections.Line: (good, of), or None where it was not run."""

    part: str
    ottla: tuple[int, int] | None


def draw(lines: Sequence[Proof], clients: Mapping[str, Mapping[str, Cell]]) -> str:
    parts = [
        _text(16, 30, "Is ottla Kafka?", size=20),
        _text(16, 50, _SAYS, ink=_PALE),
    ]
    y = 70
    for line in lines:
        parts += _bar(line, y)
        y += _ROW
    y += 40
    width = (_WIDTH - 220 - 16) // len(CAPABILITIES)
    for n, name in enumerate(CAPABILITIES):
        middle = 220 + width * n + width / 2
        above, below = _halves(name)
        parts += [_text(middle, y - 13, above, size=11, anchor="middle"), _text(middle, y, below, size=11, anchor="middle")]
    y += 10
    for client, cells in clients.items():
        parts.append(_text(16, y + 16, client))
        parts += [_cell(cells[name], 220 + width * n, y, width) for n, name in enumerate(CAPABILITIES)]
        y += _ROW
    y += 24
    parts.append(_text(16, y, _LEGEND, ink=_PALE))
    y += 16
    size = f'width="{_WIDTH}" height="{y}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {y}" font-family="system-ui, sans-serif">'
        f'<rect {size} fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _halves(name: str) -> tuple[str, str]:
    """Returns a heading on two lines, the last word or two below."""
    words = name.split()
    half = len(words) // 2
    return " ".join(words[:half]), " ".join(words[half:])


def _text(x: float, y: float, text: str, *, size: int = 13, ink: str = _INK, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{ink}" text-anchor="{anchor}">{escape(text)}</text>'


def _rect(x: float, y: float, width: float, fill: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="18" rx="3" fill="{fill}"/>'


def _bar(line: Proof, y: int) -> list[str]:
    whole = _WIDTH - _LEFT - 150
    bar = [_text(16, y + 14, line.part), _rect(_LEFT, y, whole, _NONE)]
    if line.ottla is None:
        return [*bar, _text(_LEFT + whole + 10, y + 14, "not run", ink=_PALE)]
    good, of = line.ottla
    if good < of:
        bar.append(_rect(_LEFT, y, whole, _BAD))
    return [*bar, _rect(_LEFT, y, whole * good / of, _GOOD), _text(_LEFT + whole + 10, y + 14, f"{good:,} of {of:,}")]


def _cell(cell: Cell, x: int, y: int, width: int) -> str:
    fill = {"good": _GOOD, "bad": _BAD, "part": _NONE}[cell.mark]
    if cell.why:
        return _text(x + width / 2, y + 15, "–", ink=_PALE, anchor="middle")
    passed, of = cell.counts("ottla")
    label = (str(of) if cell.holds else f"{passed} of {of}") if cell.tests else ""
    return _rect(x + 2, y + 2, width - 4, fill) + _text(
        x + width / 2, y + 15, label, size=11, ink=_INK if cell.mark == "part" else "#ffffff", anchor="middle"
    )
