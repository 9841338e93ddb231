"""The data directory beside the cluster, or instead of it: whose it is, its logs a page at a time, its small files."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.commands.check_directory import CHECKPOINTS
from ottla.console.ask import Answer, Ask, Page, paged
from ottla.console.directory import Directory, LogName
from ottla.console.missing import Missing
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


def needed(ask: Ask) -> Directory:
    """Returns the data directory. Raises Missing with what would bring one."""
    if ask.directory is None:
        raise Missing("This console looks at no data directory; start it with --data-dir DIR to see logs, segments and batches.")
    return ask.directory


def directory(ask: Ask) -> Answer:
    """Shows the directory. `?q=` is a part of a log's name."""
    source = needed(ask)
    contents = source.contents()
    wanted = ask.text("q")
    page = paged(ask, [one for one in contents.logs if wanted.lower() in one.name.lower()], SIZE)
    about = source.about()
    files = [one for one in contents.files if one.size or one.name in _NAMED]
    return Page(
        "data_directory.html",
        {
            "path": str(source.path),
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
