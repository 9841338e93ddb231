"""`ottla log dump FILE...`: what is in the files of a data directory, ours or Apache Kafka's, with no broker running.

A file is known by its name, as Kafka gives it: segments, `.index`, `.timeindex`, `.txnindex`, `.snapshot`, the metadata log's
`.checkpoint`, the checkpoints, `meta.properties`, `partition.metadata`, `quorum-state`. A directory stands for the files in it.
What Kafka appends to a name (`.deleted`, `.cleaned`, `.swap`) is passed over.

`ottla log verify` and `ottla log repair` are in log_verify.py and log_repair.py.

A line an item: its kind and `name=value` fields, times as ISO 8601; with `--json` an object. Files are only read. What is damaged
is said on standard error with its place in the file, as an object of type `problem` in JSON too, and the exit code is 1.
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
from ottla.commands.dump_forms import Form, decoder_of_forms
from ottla.commands.dump_schemas import IsSecret, Schema, decoder_of, every_setting
from ottla.commands.dump_segment import Found, Item, Problem, SegmentDump
from ottla.commands.dump_small import index_sanity, offset_index, time_index, transaction_index, whole
from ottla.commands.kafka_files import METADATA_SNAPSHOT, SEGMENT_FILE, open_to_read
from ottla.commands.log_repair import repair
from ottla.commands.log_verify import verify
from ottla.commands.output import Failure
from ottla.log.disk.files import File

app = typer.Typer(help="Files of a data directory, no broker needed: dump, verify, repair.", no_args_is_help=True)

_SUFFIX: Final = re.compile(r"\.(deleted|cleaned|swap)$")
_WHOLE: Final = re.compile(
    r"[0-9]{20}\.snapshot|leader-epoch-checkpoint|[a-z-]+-offset-checkpoint"
    r"|meta\.properties|partition\.metadata|quorum-state|\.kafka_cleanshutdown"
)
_PARTITION_DIRECTORY: Final = re.compile(r"(.+)-[0-9]+(?:\.[0-9a-f]{32}-(?:delete|future|stray))?")
_BARE: Final = re.compile(r"[!-<>-~]+")  # a value that needs no quotes
_LARGEST_MS: Final = 253_402_300_799_999  # the end of the year 9999


@app.callback()
def log() -> None:
    """Files of a data directory, no broker needed: dump, verify, repair."""


app.command("verify")(verify)
app.command("repair")(repair)


@app.command("dump")
@output.guarded
def dump(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files or directories.", show_default=False)],
    records: Annotated[bool, typer.Option("--records", "-r", help="Show the records of each batch.")] = False,
    decode: Annotated[
        Schema | None, typer.Option(help="Read records as those of Kafka's own topics; auto goes by the directory's name.")
    ] = None,
    key_decoder: Annotated[Form, typer.Option(help="How keys are read that belong to no schema.")] = Form.TEXT,
    value_decoder: Annotated[Form, typer.Option(help="How values are read that belong to no schema.")] = Form.TEXT,
    skip_record_metadata: Annotated[
        bool, typer.Option("--skip-record-metadata", help="Of each record only key and value.")
    ] = False,
    max_bytes: Annotated[int | None, typer.Option(min=0, help="Only the first bytes of each segment.")] = None,
    index_sanity_check: Annotated[
        bool, typer.Option("--index-sanity-check", help="Of indexes only whether Kafka would take them.")
    ] = False,
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", help="Of indexes only the entries that are wrong.")
    ] = False,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Show passwords and SCRAM keys of the metadata log, too.")
    ] = False,
    as_json: output.Json = False,
) -> None:
    """Show batches and records of segments, and what the files beside them say."""
    forms = None if key_decoder is value_decoder is Form.TEXT else (key_decoder, value_decoder)
    reader = Reader(
        records=records or skip_record_metadata or forms is not None or decode not in {None, Schema.NONE},
        decode=decode or Schema.AUTO,
        forms=forms,
        metadata=not skip_record_metadata,
        max_bytes=max_bytes,
        indexes=Indexes.SANITY if index_sanity_check else Indexes.WRONG if verify_index_only else Indexes.ALL,
        is_secret=None if show_secrets else context.obj or every_setting,
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
    """The files, those in directories included. Failure for one of no known kind, or a directory without any."""
    for file in files:
        if file.is_dir():
            inside = [path for path in sorted(file.iterdir()) if kind_of(path) is not None]
            if not inside:
                raise Failure(f"{file}: no file of a data directory is in it; give a partition's directory, or files")
            yield from inside
        elif kind_of(file) is None:
            raise Failure(f"{file}: {'is no name that Kafka gives' if file.exists() else 'No such file or directory'}")
        else:
            yield file


def kind_of(path: Path) -> str | None:
    """What a file is, by its name: `log`, `index`, ..., `checkpoint`, `whole`; None for a stranger."""
    name = _SUFFIX.sub("", path.name)
    if found := SEGMENT_FILE.fullmatch(name):
        return found[2]
    if METADATA_SNAPSHOT.fullmatch(name) or name == "bootstrap.checkpoint":
        return "checkpoint"
    if name.endswith(".log"):
        return "log"  # a copy under another name
    return "whole" if _WHOLE.fullmatch(name) else None


def topic_of(path: Path) -> str | None:
    """The topic whose partition's directory holds the file."""
    found = _PARTITION_DIRECTORY.fullmatch(path.resolve().parent.name)
    return found[1] if found else None


class Indexes(Enum):
    """What is said of an index."""

    ALL = "all"
    WRONG = "wrong"
    SANITY = "sanity"


@dataclass(slots=True, kw_only=True)
class Reader:
    """Reads files of every kind. `forms`: how keys and values are read, if not as text; `max_bytes`: of each segment;
    `is_secret`: which settings of brokers are not shown, None shows all and SCRAM keys, too.
    """

    records: bool = False
    decode: Schema = Schema.AUTO
    forms: tuple[Form, Form] | None = None
    metadata: bool = True
    max_bytes: int | None = None
    indexes: Indexes = Indexes.ALL
    is_secret: IsSecret | None = every_setting

    def read(self, path: Path) -> Iterator[Found]:
        """What a file holds. Failure or OSError if it cannot be opened."""
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
