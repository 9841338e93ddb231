"""The data directory beside the cluster, or instead of it: whose it is, its logs a page at a time, its small files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.commands.log.checks.directory import CHECKPOINTS
from ottla.console.ask import Answer, Ask, Page, paged
from ottla.console.disk.directory import Directory, LogName
from ottla.console.errors import Missing
from ottla.log.disk.checkpoint import CLEAN_SHUTDOWN, META_PROPERTIES

SIZE: Final = 200
_NAMED: Final = frozenset({*CHECKPOINTS, META_PROPERTIES, CLEAN_SHUTDOWN})


class LogRow(NamedTuple):
    """A log in the list. What is None could not be read."""

    log: LogName
    segments: int | None = None
    size_bytes: int | None = None
    first_offset: int | None = None
    modified_ms: int | None = None


def needed(ask: Ask) -> Sequence[Directory]:
    """Returns the data directories. Raises Missing with what would bring one."""
    if not ask.directories:
        raise Missing("This console looks at no data directory; start it with --data-dir DIR to see logs, segments and batches.")
    return ask.directories


def holding(ask: Ask, key: str) -> tuple[Directory, str]:
    """Returns the directory that a part of an address is about, and the name in it: `orders-0`, or `2:orders-0` where there are
    several. Raises Missing."""
    for one in needed(ask):
        if key.startswith(one.prefix):
            return one, key.removeprefix(one.prefix)
    raise Missing(f"There is no data directory of {key}; the list of files has all of them.")


def directory(ask: Ask) -> Answer:
    """Shows a directory, of several the one with the number `?dir=`. `?q=` is a part of a log's name."""
    all_of_them = needed(ask)
    number = ask.number("dir", 1, 1, len(all_of_them))
    source = all_of_them[number - 1]
    contents = source.contents()
    wanted = ask.text("q")
    page = paged(ask, [one for one in contents.logs if wanted.lower() in one.name.lower()], SIZE)
    about = source.about()
    files = [one for one in contents.files if one.size or one.name in _NAMED]
    return Page(
        "data_directory.html",
        {
            "path": str(source.path),
            "prefix": source.prefix,
            "number": number,
            "directories": [str(one.path) for one in all_of_them],
            "meta": about.meta,
            "clean": about.clean,
            "held": source.is_held(),
            "problems": [f"{one.path}: {one.what}; {one.remedy}" for one in about.findings],
            "page": page,
            "rows": [_row(source, one) for one in page.shown],
            "total": len(contents.logs),
            "q": wanted,
            "files": files[:SIZE],
            "more_files": max(0, len(files) - SIZE),
            "strange": contents.strange[:SIZE],
        },
    )


def _row(source: Directory, log: LogName) -> LogRow:
    try:
        files = source.files_of(log)
    except Missing:
        return LogRow(log)
    return LogRow(
        log,
        len(files.segments),
        files.size_bytes,
        files.segments[0].base_offset if files.segments else None,
        max((one.modified_ms for one in files.segments), default=None),
    )
