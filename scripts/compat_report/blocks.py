"""The blocks that a report is made of, before it is Markdown or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """`mark`: good, bad, part or "" for how it looks; `hint`: shown when pointed at, in HTML only."""

    text: str
    mark: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[Text]]


@dataclass(frozen=True)
class Folded:
    """A block that only some want to see: a title, and the blocks below it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Picture:
    """An SVG file beside the Markdown page; in the HTML page it is drawn in place."""

    file: str
    svg: str
    says: str


Block = Heading | Paragraph | Table | Folded | Picture


def row(*texts: str | Text) -> list[Text]:
    return [text if isinstance(text, Text) else Text(text) for text in texts]
