"""`ottla log dump FILE...`: prints the content of files in a data directory, ottla's or Apache Kafka's, without a broker.

Files are recognized by the names that Kafka gives them: segments, `.index`, `.timeindex`, `.txnindex`, `.snapshot`, the metadata
log's `.checkpoint`, the checkpoints, `meta.properties`, `partition.metadata`, `quorum-state`. A directory stands for the files in
it. What Kafka appends to a name (`.deleted`, `.cleaned`, `.swap`) is ignored, and so is what a start or a repair appends to the
name of a log that it took out (`.<position>.damaged`), but a directory does not stand for those.

`ottla log verify` and `ottla log repair` are in verify.py and repair.py.

Each item is a line: its kind and `name=value` fields, with times in ISO 8601; with `--json` it is an object. Files are only read.
Damage is reported on standard error with its place in the file, and with `--json` also as an object of type `problem`; the exit
code is then 1.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ottla.commands import output
from ottla.commands.log.dump.forms import Form, decoder_of_forms
from ottla.commands.log.dump.schemas import IsSecret, Schema, decoder_of, every_setting
from ottla.commands.log.dump.segment import Found, Item, Problem, SegmentDump
from ottla.commands.log.dump.small_files import index_sanity, offset_index, time_index, transaction_index, whole
from ottla.commands.log.files import METADATA_SNAPSHOT, SEGMENT_FILE, open_to_read
from ottla.commands.log.repair import repair
from ottla.commands.log.verify import verify
from ottla.commands.output import Failure
from ottla.log.disk.files import File

app = typer.Typer(help="Look into the files of a data directory, without a broker: dump, verify, repair.", no_args_is_help=True)

_SUFFIX: Final = re.compile(r"\.(deleted|cleaned|swap)$|(?<=\.log)\.[0-9]+\.damaged(\.[0-9]+)?$")
_WHOLE: Final = re.compile(
    r"[0-9]{20}\.snapshot|leader-epoch-checkpoint|[a-z-]+-offset-checkpoint"
    r"|meta\.properties|partition\.metadata|quorum-state|\.kafka_cleanshutdown"
)
_PARTITION_DIRECTORY: Final = re.compile(r"(.+)-[0-9]+(?:\.[0-9a-f]{32}-(?:delete|future|stray))?")
_BARE: Final = re.compile(r"[!-<>-~]+")  # a value that needs no quotes
_LARGEST_MS: Final = 253_402_300_799_999  # the end of the year 9999


@app.callback()
def log() -> None:
    """Look into the files of a data directory, without a broker: dump, verify, repair."""


app.command("verify")(verify)
app.command("repair")(repair)


@app.command("dump")
@output.guarded
def dump(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files or directories.", show_default=False)],
    records: Annotated[bool, typer.Option("--records", "-r", help="Show the records of each batch.")] = False,
    decode: Annotated[
        Schema | None, typer.Option(help="Decode records of Kafka's own topics; auto decides by the directory's name.")
    ] = None,
    key_decoder: Annotated[Form, typer.Option(help="How to read keys that have no schema.")] = Form.TEXT,
    value_decoder: Annotated[Form, typer.Option(help="How to read values that have no schema.")] = Form.TEXT,
    skip_record_metadata: Annotated[
        bool, typer.Option("--skip-record-metadata", help="Show only the key and value of each record.")
    ] = False,
    max_bytes: Annotated[int | None, typer.Option(min=0, help="Read only this many bytes of each segment.")] = None,
    index_sanity_check: Annotated[
        bool, typer.Option("--index-sanity-check", help="Only check whether Kafka would accept the indexes.")
    ] = False,
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", help="Only report the wrong entries of indexes.")
    ] = False,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Also show the passwords and SCRAM keys in the metadata log.")
    ] = False,
    as_json: output.Json = False,
) -> None:
    """Show the batches and records of segments, and the content of the files beside them."""
    forms = None if key_decoder is value_decoder is Form.TEXT else (key_decoder, value_decoder)
    reader = Reader(
        records=records or skip_record_metadata or forms is not None or decode not in {None, Schema.NONE},
        decode=decode or Schema.AUTO,
        forms=forms,
        metadata=not skip_record_metadata,
        max_bytes=max_bytes,
        indexes=Indexes.SANITY if index_sanity_check else Indexes.WRONG if verify_index_only else Indexes.ALL,
        is_secret=None if show_secrets else context.obj.is_secret if context.obj else every_setting,
    )
    write = _write_json if as_json else _write_text
    problems = 0
    for path in expanded(files):
        write(path, Item("file", {"path": str(path), "size": path.stat().st_size}))
        for found in reader.read(path):
            if isinstance(found, Item):
                write(path, found)
                continue
            problems += 1
            output.note(f"{path}: position {found.position}: {found.text}")
            if as_json:
                _write_json(path, Item("problem", {"position": found.position, "text": found.text}))
    if problems:
        raise Failure(f"{problems} problem{'s' if problems > 1 else ''} found")


def expanded(files: list[Path]) -> Iterator[Path]:
    """Yields the files, with those in directories. Raises Failure for an unknown kind of file, or a directory without any."""
    for file in files:
        if file.is_dir():
            inside = [path for path in sorted(file.iterdir()) if kind_of(path) is not None and ".damaged" not in path.name]
            if not inside:
                raise Failure(f"{file}: no data files in this directory; name a partition's directory, or files")
            yield from inside
        elif kind_of(file) is None:
            raise Failure(f"{file}: {'not a file name that Kafka uses' if file.exists() else 'No such file or directory'}")
        else:
            yield file


def kind_of(path: Path) -> str | None:
    """Returns what a file is, by its name: `log`, `index`, ..., `checkpoint`, `whole`; None if the name is unknown."""
    name = _SUFFIX.sub("", path.name)
    if found := SEGMENT_FILE.fullmatch(name):
        return found[2]
    if METADATA_SNAPSHOT.fullmatch(name) or name == "bootstrap.checkpoint":
        return "checkpoint"
    if name.endswith(".log"):
        return "log"  # a copy under another name
    return "whole" if _WHOLE.fullmatch(name) else None


def topic_of(path: Path) -> str | None:
    """Returns the topic of the partition whose directory holds the file."""
    found = _PARTITION_DIRECTORY.fullmatch(path.resolve().parent.name)
    return found[1] if found else None


class Indexes(Enum):
    """The part of an index that is shown."""

    ALL = "all"
    WRONG = "wrong"
    SANITY = "sanity"


@dataclass(slots=True, kw_only=True)
class Reader:
    """Reads files of every kind. `forms`: how keys and values are read, if not as text. `max_bytes` limits what is read of each
    segment. `is_secret` says which broker settings are hidden; with None everything is shown, SCRAM keys included.
    """

    records: bool = False
    decode: Schema = Schema.AUTO
    forms: tuple[Form, Form] | None = None
    metadata: bool = True
    max_bytes: int | None = None
    indexes: Indexes = Indexes.ALL
    is_secret: IsSecret | None = every_setting

    def read(self, path: Path) -> Iterator[Found]:
        """Yields the content of a file. Raises Failure or OSError if it cannot be opened."""
        kind = kind_of(path)
        if kind == "whole":
            yield from whole(path)
            return
        base = SEGMENT_FILE.fullmatch(_SUFFIX.sub("", path.name))
        base_offset = int(base[1]) if base else None
        file = open_to_read(path)
        if kind in {"log", "checkpoint"}:
            schema = Schema.METADATA if kind == "checkpoint" and self.decode is Schema.AUTO else self.decode
            yield from self._segment(path, file, base_offset, schema)
        elif kind == "txnindex":
            yield from transaction_index(file)
        elif self.indexes is Indexes.SANITY:
            yield from index_sanity(file, kind == "index")
        else:
            found = self._index(path, file, base_offset or 0, kind == "index")
            yield from (item for item in found if self.indexes is Indexes.ALL or isinstance(item, Problem))

    def _index(self, path: Path, file: File, base_offset: int, of_offsets: bool) -> Iterator[Found]:
        if not of_offsets:
            return time_index(file, base_offset)
        beside = path.with_suffix(".log")
        return offset_index(file, base_offset, open_to_read(beside) if beside.exists() else None)

    def _segment(self, path: Path, file: File, base_offset: int | None, schema: Schema) -> Iterator[Found]:
        with ExitStack() as stack:
            advance: Callable[[int], object] = int
            if not sys.stdout.isatty():
                advance = stack.enter_context(output.progress(path.name, file.size, in_bytes=True))
            decoder = decoder_of(schema, topic_of(path), self.is_secret)
            if decoder is None and self.forms is not None:
                decoder = decoder_of_forms(*self.forms)
            yield from SegmentDump(
                file,
                base_offset=base_offset,
                records=self.records,
                decoder=decoder,
                advance=advance,
                metadata=self.metadata,
                max_bytes=self.max_bytes,
            )


# Lines


def _write_json(path: Path, item: Item) -> None:
    output.write_json({"type": item.kind, "file": str(path), **item.fields})


def _write_text(_: Path, item: Item) -> None:
    indent = {"file": "", "record": "    "}.get(item.kind, "  ")
    fields = (f"{name}={_text(name, value)}" for name, value in item.fields.items())
    sys.stdout.write(f"{indent}{item.kind} {' '.join(fields)}\n")


def _text(name: str, value: Any) -> str:
    if value is None:
        return output.NOTHING
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value != output.NOTHING else json.dumps(value, ensure_ascii=False)
    if name.endswith("timestamp") and type(value) is int and 0 <= value <= _LARGEST_MS:
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if name == "flags":
        return ",".join(value) or output.NOTHING
    return json.dumps(value, ensure_ascii=False)
