"""A segment on disk, or a snapshot of the metadata: its batches as a strip with what the indexes say of them, or its records.

What is damaged is shown as what it is. Whether it is a torn tail or corruption, and the remedy, is what `ottla log verify` finds:
for a segment that is not too large at once, else on demand.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import Any, Final

from ottla.commands.log.checks.findings import Finding
from ottla.commands.log.files import OFFSET_ENTRY, SEGMENT_FILE, TIME_ENTRY, Entries
from ottla.console.ask import Answer, Ask, Page
from ottla.console.disk.batches import Indexes, Part, aborted_in, earlier, mark_aborted, read_indexes, read_part
from ottla.console.disk.directory import Directory, FileEntry, LogFiles, open_file, readable
from ottla.console.disk.pictures import codec_name, of_batches, of_places
from ottla.console.disk.records import DiskRecords
from ottla.log.disk.files import OsFile

CHECKED_BYTES: Final = 16 << 20
"""A segment of up to so many bytes is checked whenever it is looked at, which takes about a tenth of a second."""
CHECK_S: Final = 8.0
_MAX_POSITION: Final = 2**62
_MANY: Final = 100
_RECORDS: Final = 50


class _TooLong(Exception):
    """Raised where a check takes longer than a page may."""


def segment(ask: Ask, source: Directory, files: LogFiles, file: FileEntry) -> Answer:
    """Shows a part of a segment: `?at=` is a position where it begins, `?offset=` an offset that it begins with."""
    path = files.path / file.name
    opened = open_file(path)
    indexes = read_indexes(path, file.base_offset or 0) if not file.state and file.kind == "log" else _no_indexes(file)
    at = ask.number("at", 0, 0, _MAX_POSITION)
    offset = ask.number("offset", -1, 0, _MAX_POSITION) if ask.text("offset") else None
    part = read_part(opened, indexes, at=at, offset=offset, clock=time.monotonic)
    aborted = []
    if part.rows and not file.state and (headers := [row.header for row in part.rows if row.header is not None]):
        later = [files.path / one.name for one in files.segments if (one.base_offset or 0) > indexes.base_offset]
        aborted = aborted_in(path, later, headers[0].base_offset, max(one.next_offset for one in headers))
        mark_aborted(part.rows, aborted)
    is_checked = file.is_segment and (file.size <= CHECKED_BYTES or ask.text("check") == "1")
    findings, is_whole = _findings(source, files, file) if is_checked else ([], True)
    values: dict[str, Any] = {
        "files": files,
        "file": file,
        "part": part,
        "aborted": aborted[:_MANY],
        "more_aborted": max(0, len(aborted) - _MANY),
        "is_active": bool(files.segments) and file == files.segments[-1],
        "has_index": len(indexes.offsets) > 0,
        "places": of_places(opened.size, indexes.places(opened.size), part.start, part.end) if opened.size else None,
        "before": ask.link(at=earlier(part, indexes), offset=None) if part.start > 0 else None,
        "after": ask.link(at=part.next, offset=None) if part.next is not None else None,
        "is_checked": is_checked,
        "is_whole": is_whole,
        "findings": findings[:_MANY],
        "remedy": shlex.quote(str(files.path)),
        "damaged": sum(bool(row.why) for row in part.rows),
        "offset": ask.query.get("offset", ""),
    }
    if ask.text("records") == "1":
        return Page("data_records.html", values | _records(ask, source, files, file, opened, part))
    return Page("data_segment.html", values | {"picture": of_batches(part.rows), "codec_name": codec_name})


def _no_indexes(file: FileEntry) -> Indexes:
    """Returns empty indexes: what is out of use may have those of another file beside it."""
    return Indexes(file.base_offset or 0, Entries(OFFSET_ENTRY, b""), Entries(TIME_ENTRY, b""))


def _records(ask: Ask, source: Directory, files: LogFiles, file: FileEntry, opened: OsFile, part: Part) -> dict[str, Any]:
    """Returns the records of the part's batches, as many as a page takes."""
    reading = DiskRecords(opened, files.log.topic, source.is_secret, is_snapshot=file.kind == "checkpoint")
    shown, upto = reading.of_batches(part.rows, _RECORDS)
    more = part.rows[upto].position if upto < len(part.rows) else part.next
    return {
        "shown": shown,
        "problems": reading.problems,
        "after": ask.link(at=more, offset=None) if more is not None else None,
    }


def _findings(source: Directory, files: LogFiles, file: FileEntry) -> tuple[list[Finding], bool]:
    """Returns what `ottla log verify` finds in this segment, and whether it came to the end."""
    found = SEGMENT_FILE.fullmatch(file.name)
    if found is None or files.log.state:
        return [], True
    with readable(files.path):
        try:
            check = source.about().check_partition(
                files.path, deep=False, advance=_until(time.monotonic() + CHECK_S), bases=[int(found[1])]
            )
        except _TooLong:
            return [], False
    return check.findings, True


def _until(deadline: float) -> Callable[[int], object]:
    def advance(_: int) -> None:
        if time.monotonic() > deadline:
            raise _TooLong

    return advance
