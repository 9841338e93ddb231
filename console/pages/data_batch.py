"""A batch on disk: the fields of its header with the bytes that hold them, its CRC, what compression gained, its records."""

from __future__ import annotations

import shlex
import time
from typing import Any, Final, NamedTuple

from ottla.commands.log.dump.schemas import TOPICS, Schema
from ottla.commands.log.dump.segment import batch_fields
from ottla.console.ask import MAX_PAGE, Answer, Ask, Page
from ottla.console.disk.batches import aborted_in, mark_aborted, read_indexes, read_part
from ottla.console.disk.directory import Directory, FileEntry, LogFiles, open_file
from ottla.console.disk.pictures import codec_name
from ottla.console.disk.records import MAX_BATCH_BYTES, DiskRecords, section_size
from ottla.console.errors import Missing
from ottla.console.rendering.templates import utc
from ottla.console.rendering.text import hex_lines
from ottla.log.disk.files import OsFile
from ottla.log.opening.search import Window
from ottla.wire.batch import HEADER_SIZE, BatchHeader

SIZE: Final = 100
_MAX_POSITION: Final = 2**62


class Field(NamedTuple):
    """A field of a header: the bytes of the batch that hold it, from `first` to `last`."""

    first: int
    last: int
    name: str
    value: object
    words: str


def batch(ask: Ask, source: Directory, files: LogFiles, file: FileEntry) -> Answer:
    """Shows the batch at `?batch=`, a position in the file, and a page of its records."""
    position = ask.number("batch", 0, 0, _MAX_POSITION)
    path = files.path / file.name
    opened = open_file(path)
    indexes = read_indexes(path, file.base_offset or 0)
    part = read_part(opened, indexes, at=position, count=1, clock=time.monotonic)
    row = part.rows[0] if part.rows else None
    if row is None or row.position != position:
        where = f"; the next one begins at {row.position}" if row is not None else ""
        raise Missing(f"No batch begins at position {position} of {file.name}{where}.")
    values: dict[str, Any] = {
        "files": files,
        "file": file,
        "row": row,
        "after": part.next,
        "remedy": shlex.quote(str(files.path)),
        "codec": codec_name(row.header.codec) if row.header else "",
        "fields": [],
        "records_shown": [],
        "problems": [],
        "raw": None,
        "before": None,
        "later": None,
    }
    window = Window(opened)
    # nothing of the metadata log is shown undecoded, since there are secrets in it
    has_secrets = TOPICS.get(files.log.topic) is Schema.METADATA or file.kind == "checkpoint"
    values["hex"] = (
        "" if has_secrets and row.header is None else hex_lines(bytes(window.view(position, min(HEADER_SIZE, row.size))))
    )
    if row.header is not None:
        values["fields"] = fields_of(row.header, row.crc or 0)
        if not row.why:
            values |= _records(ask, source, files, file, opened, row.position, row.header)
            view = window.view(position, row.size) if row.size <= MAX_BATCH_BYTES else None
            values["raw"] = None if view is None else section_size(view, row.header)
            later = [files.path / one.name for one in files.segments if (one.base_offset or 0) > (file.base_offset or 0)]
            mark_aborted([row], aborted_in(path, later, row.header.base_offset, row.header.next_offset))
    return Page("data_batch.html", values)


def _records(
    ask: Ask, source: Directory, files: LogFiles, file: FileEntry, opened: OsFile, position: int, header: BatchHeader
) -> dict[str, Any]:
    """Returns a page of the batch's records."""
    page = ask.number("page", 1, 1, MAX_PAGE)
    reading = DiskRecords(opened, files.log.topic, source.is_secret, is_snapshot=file.kind == "checkpoint")
    begin = (page - 1) * SIZE
    return {
        "records_shown": reading.of_batch(position, header, begin, SIZE),
        "problems": reading.problems,
        "before": ask.link(page=page - 1) if page > 1 else None,
        "later": ask.link(page=page + 1) if begin + SIZE < header.records_count else None,
    }


def fields_of(header: BatchHeader, crc: int) -> list[Field]:
    """Returns the fields of a header in the order of their bytes, in words where a number says little."""
    flags = batch_fields(0, header, is_sound=crc == header.crc)
    words = ", ".join([codec_name(header.codec), flags["timestamp_type"], *flags["flags"]])
    base_time = "the delete horizon" if header.has_delete_horizon else utc(header.base_timestamp)
    agrees = "equal to what the bytes from 21 on give" if crc == header.crc else f"but the bytes from 21 on give {crc:#010x}"
    return [
        Field(0, 7, "base offset", header.base_offset, ""),
        Field(8, 11, "batch length", header.batch_length, f"{header.size:,} bytes with these first 12"),
        Field(12, 15, "leader epoch", header.partition_leader_epoch, ""),
        Field(16, 16, "magic", header.magic, "the version of the format"),
        Field(17, 20, "CRC-32C", f"{header.crc:#010x}", agrees),
        Field(21, 22, "attributes", f"{header.attributes & 0xFFFF:#06x}", words),
        Field(23, 26, "last offset delta", header.last_offset_delta, f"the last offset is {header.last_offset:,}"),
        Field(27, 34, "base timestamp", header.base_timestamp, base_time),
        Field(35, 42, "greatest timestamp", header.max_timestamp, utc(header.max_timestamp)),
        Field(43, 50, "producer id", header.producer_id, "none" if header.producer_id < 0 else ""),
        Field(51, 52, "producer epoch", header.producer_epoch, ""),
        Field(53, 56, "base sequence", header.base_sequence, _sequences(header)),
        Field(57, 60, "records", header.records_count, _holes(header)),
    ]


def _sequences(header: BatchHeader) -> str:
    return f"to {header.last_sequence:,}" if header.base_sequence >= 0 else ""


def _holes(header: BatchHeader) -> str:
    missing = header.last_offset_delta + 1 - header.records_count
    return f"{missing:,} of its offsets have no record: they were compacted away" if missing > 0 else ""
