"""A file of a data directory: segments and metadata snapshots as batches, all others as the items of `ottla log dump`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ottla.commands.log.command import Reader
from ottla.commands.log.dump.segment import Found, Item, Problem
from ottla.console.ask import MAX_PAGE, Answer, Ask, Page
from ottla.console.disk.directory import FileEntry, find, readable
from ottla.console.errors import Missing
from ottla.console.pages import data_batch, data_segment
from ottla.console.pages.data_directory import holding
from ottla.console.rendering.text import MAX_PREVIEW

SIZE: Final = 200
_SEGMENTS: Final = frozenset({"log", "checkpoint"})


def of_log(ask: Ask) -> Answer:
    """Shows a file of a log; of a segment, `?batch=` is the position of one batch, and `?records=1` shows records."""
    source, name = holding(ask, ask.args["log"])
    files = source.log(name)
    file = find(files, ask.args["file"])
    if file.kind in _SEGMENTS:
        if ask.text("batch"):
            return data_batch.batch(ask, source, files, file)
        return data_segment.segment(ask, source, files, file)
    return _items(ask, files.path / file.name, file, source.prefix, files.log.name)


def of_directory(ask: Ask) -> Answer:
    """Shows a small file of the directory itself."""
    source, name = holding(ask, ask.args["file"])
    file = source.file(name)
    return _items(ask, source.path / file.name, file, source.prefix, "")


def _items(ask: Ask, path: Path, file: FileEntry, prefix: str, log: str) -> Answer:
    if file.kind is None:
        raise Missing(f"{file.name} is not a file name that Kafka uses, so nobody knows what is in it.")
    page = ask.number("page", 1, 1, MAX_PAGE)
    begin = (page - 1) * SIZE
    with readable(path):
        found = list(islice(_rows(Reader().read(path)), begin, begin + SIZE + 1))
    shown = found[:SIZE]
    columns: dict[str, None] = {}
    for item in shown:
        if isinstance(item, Item):
            columns |= dict.fromkeys(item.fields)
    return Page(
        "data_file.html",
        {
            "prefix": prefix,
            "log": log,
            "file": file,
            "columns": list(columns),
            "rows": [_cells(item, list(columns)) for item in shown],
            "problems": sum(isinstance(item, Problem) for item in shown),
            "before": ask.link(page=page - 1) if page > 1 else None,
            "after": ask.link(page=page + 1) if len(found) > SIZE else None,
            "first": begin + 1,
        },
    )


def _rows(found: Iterator[Found]) -> Iterator[Found]:
    """Yields the items; of bytes that are only preallocated the page shows under that name how many they are."""
    for item in found:
        yield (
            item if isinstance(item, Problem) or item.kind != "preallocated" else Item("", {"preallocated": item.fields["bytes"]})
        )


def _cells(item: Found, columns: Sequence[str]) -> tuple[str, list[str]]:
    """Returns what is wrong, if that is what the row says, and the cells."""
    if isinstance(item, Problem):
        return f"position {item.position}: {item.text}", []
    return "", [_cell(item.fields.get(name)) for name in columns]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_PREVIEW else f"{text[:MAX_PREVIEW]}…"
