"""Blocks as Markdown and as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from scripts.compat_report.blocks import Block, Folded, Heading, Paragraph, Picture, Table, Text

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border: 1px solid #8884; padding: .2rem .5rem; text-align: left; vertical-align: top; }
th { background: #8882; }
td.good { background: #2a93; } td.bad { background: #d336; font-weight: 600; } td.part { background: #da33; }
code { font-size: .9em; } summary { cursor: pointer; margin: .5rem 0; } svg { max-width: 100%; height: auto; }
"""


def markdown(blocks: Iterable[Block]) -> str:
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            return text
        case Picture(file, _, says):
            return f"![{says}]({file})"
        case Folded(title, inner):
            return f"<details><summary>{title}</summary>\n\n" + "\n\n".join(map(_markdown, inner)) + "\n\n</details>"
        case Table(head, rows):
            lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
            lines += ["| " + " | ".join(_cell(text) for text in each) + " |" for each in rows]
            return "\n".join(lines)


def _cell(text: Text) -> str:
    return text.text.replace("|", "\\|").replace("\n", " ")


def html(title: str, blocks: Iterable[Block]) -> str:
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style></head>\n<body>\n{html_of(blocks)}\n</body>\n</html>\n"
    )


def html_of(blocks: Iterable[Block]) -> str:
    return "\n".join(_html(block) for block in blocks)


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_with_code(text)}</p>"
        case Picture(_, svg, _):
            return svg
        case Folded(title, inner):
            return f"<details><summary>{_with_code(title)}</summary>\n" + "\n".join(map(_html, inner)) + "\n</details>"
        case Table(head, rows):
            top = "".join(f"<th>{escape(text)}</th>" for text in head)
            return f"<table><thead><tr>{top}</tr></thead>\n<tbody>" + "\n".join(map(_row, rows)) + "</tbody></table>"


def _row(texts: Sequence[Text]) -> str:
    def one(text: Text) -> str:
        kind = f' class="{text.mark}"' if text.mark else ""
        hint = f' title="{escape(text.hint)}"' if text.hint else ""
        return f"<td{kind}{hint}>{_with_code(text.text)}</td>"

    return "<tr>" + "".join(map(one, texts)) + "</tr>"


def _with_code(text: str) -> str:
    """Returns the text as HTML, with code for what is between back quotes, which is the only Markdown inside texts."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
