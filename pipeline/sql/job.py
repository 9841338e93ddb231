"""Reads the file of a job of `ottla pipeline run`: a header in TOML, and SQL statements with their lines.

The header is a comment block (`--` in SQL, `#` in Python), so that the file is still a normal one to every other tool:

    -- /// job
    -- checkpoint = "checkpoints/flights"
    -- bootstrap = "127.0.0.1:9092"
    -- [streams.flights]
    -- topic = "flights"
    -- schema = "origin STRING, time_hour TIMESTAMP"
    -- watermark = "time_hour 2 hours"
    -- [sinks.hourly]
    -- topic = "hourly"
    -- key = "origin"
    -- [spark]
    -- "spark.sql.shuffle.partitions" = 4
    -- ///

Streams and sinks may be in the header or be statements; everything else is Spark's own SQL and is passed to Spark unchanged:

    CREATE STREAM name [(columns)] FROM TOPIC topic [WATERMARK column DELAY OF INTERVAL 2 HOURS] [WITH (option = 'value', ...)];
    CREATE TABLE name [(columns)] FROM TOPIC topic [WITH (...)];                   what the topic holds at the start
    CREATE SINK name TO TOPIC topic [WITH (...)];
    CREATE SINK name TO PARQUET | DELTA | ICEBERG | JSON | CSV 'path' [WITH (...)];
    INSERT INTO name SELECT ...;                                                   a streaming query into that sink

Everything here is text processing without Spark. A mistake is a JobError that names the file's line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.pipeline.errors import PipelineError

FILES: Final = ("parquet", "delta", "iceberg", "json", "csv")
"""The kinds of sinks besides topics."""

STREAM_OPTIONS: Final = {"format", "from", "rows_per_batch", "bad_records", "watermark", "schema_file"}
TOPIC_OPTIONS: Final = {"format", "key", "timestamp", "delivery", "partitions", "mode"}
FILE_OPTIONS: Final = {"partition_by", "mode"}
OWN_KAFKA: Final = {f"kafka.{name}" for name in ("transactional.id", "group.id", "isolation.level", "enable.auto.commit")}
"""The options that a sink which writes exactly once sets itself."""
JOB_KEYS: Final = {"name", "bootstrap", "checkpoint", "streams", "tables", "sinks", "spark"}

_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_OPEN: Final = re.compile(r"^(?:--|#)\s*/// job\s*$")
_CLOSE: Final = re.compile(r"^(?:--|#)\s*///\s*$")
_NAME: Final = r"(`[^`]+`|[\w.-]+|'[^']+')"
_CREATE: Final = re.compile(r"CREATE\s+(STREAM|TABLE)\s+(\w+)\s*", re.IGNORECASE)
_FROM: Final = re.compile(rf"FROM\s+TOPIC\s+{_NAME}\s*", re.IGNORECASE)
_WATERMARK: Final = re.compile(r"WATERMARK\s+(\w+)\s+DELAY\s+OF\s+INTERVAL\s+(?:'([^']+)'|(\d+\s+\w+))\s*", re.IGNORECASE)
_WITH: Final = re.compile(r"WITH\s*(?=\()", re.IGNORECASE)
_SINK: Final = re.compile(rf"CREATE\s+SINK\s+(\w+)\s+TO\s+(\w+)\s+{_NAME}\s*", re.IGNORECASE)
_INSERT: Final = re.compile(r"INSERT\s+INTO\s+(\w+)\s+(?=SELECT\b|WITH\b|\()", re.IGNORECASE)
_OPTION: Final = re.compile(r"\s*([\w.]+|'[^']+')\s*=\s*('(?:[^']|'')*'|[\w.-]+)\s*(,|$)")
_TOKEN: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|.", re.DOTALL)


class JobError(PipelineError):
    """Something is wrong with a job, in the given line of its file (None: in no particular line)."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True)
class Stream:
    """A topic as a table of all records that come, or, if `is_table`, of those that exist at the start. `schema` is Spark's DDL,
    None for bare records."""

    name: str
    topic: str
    schema: str | None = None
    watermark: tuple[str, str] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    is_table: bool = False
    line: int | None = None


@dataclass(frozen=True)
class Sink:
    """A target of queries: `kind` is topic or one of FILES, `place` is the topic's name, the path, or Iceberg's table."""

    name: str
    kind: str
    place: str
    options: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None


@dataclass(frozen=True)
class Insert:
    """A streaming query into a sink. The line is that of its SELECT, from which Spark counts lines."""

    sink: str
    select: str
    line: int


@dataclass(frozen=True)
class Statement:
    """An SQL statement for Spark."""

    text: str
    line: int


@dataclass
class Job:
    """The content of a job's file. `source` is its text if it is Python, otherwise None. `steps` are in the order of the file."""

    path: Path
    name: str
    bootstrap: str | None
    checkpoint: str | None
    spark: dict[str, str]
    steps: list[Stream | Sink | Insert | Statement]
    source: str | None = None


def read_job(path: Path, variables: Mapping[str, str] | None = None) -> Job:
    """Reads a job's file, with `${name}` replaced by the variable of that name. Raises JobError if it is not a valid job.

    In Python only those in the header are replaced, because `${name}` means something else in an f-string.
    """
    if path.suffix not in {".sql", ".py"}:
        raise JobError("a job is a file named .sql or .py")
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise JobError(f"cannot be read: {reason}") from None
    is_python = path.suffix == ".py"
    if not is_python:
        text = filled_in(text, variables or {})
    header, first = read_header(text, (variables or {}) if is_python else None)
    if unknown := sorted(set(header) - JOB_KEYS):
        raise JobError(f"the header has an unknown key {unknown[0]}; there are {', '.join(sorted(JOB_KEYS))}", first)
    spark = {key: str(value) for key, value in _flat(header.get("spark", {}))}
    job = Job(path, str(header.get("name", path.stem)), header.get("bootstrap"), header.get("checkpoint"), spark, [])
    job.steps += declared(header, first)
    if is_python:
        job.source = text
    else:
        job.steps += [read_statement(part, line) for part, line in statements(text)]
    return job


def filled_in(text: str, variables: Mapping[str, str], first: int = 1) -> str:
    """Returns the text with the values of variables filled in. `first` is the number of its first line. Raises JobError if a
    variable is not given."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise JobError(f"${{{match[1]}}} is not given: --set {match[1]}=VALUE", first + text.count("\n", 0, match.start()))
        return variables[match[1]]

    return _VARIABLE.sub(value, text)


def read_header(text: str, variables: Mapping[str, str] | None = None) -> tuple[dict[str, Any], int]:
    """Returns the header, parsed as TOML with variables filled in, and the line with which it begins; an empty one if there is
    none."""
    lines = text.splitlines()
    begin = next((number for number, line in enumerate(lines, 1) if _OPEN.match(line)), None)
    if begin is None:
        return {}, 1
    inner = []
    for text_line in lines[begin:]:
        if _CLOSE.match(text_line):
            break
        inner.append(re.sub(r"^(--|#) ?", "", text_line))
    else:
        raise JobError("the header is not closed by a line with /// alone", begin)
    block = "\n".join(inner)
    if variables is not None:
        block = filled_in(block, variables, begin + 1)
    try:
        return tomllib.loads(block), begin
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        raise JobError(f"the header is not TOML: {error}", begin + (int(at[1]) if at else 0)) from None


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the settings in `[spark]`, which may be written as "spark.x.y" = 1 in quotes or as nested tables."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value).lower() if isinstance(value, bool) else value


def declared(header: Mapping[str, Any], line: int) -> Iterator[Stream | Sink]:
    """Yields the streams, tables and sinks of a header."""
    for kind in ("streams", "tables"):
        for name, given in header.get(kind, {}).items():
            options = _options_of(name, given, line)
            topic, schema = options.pop("topic", name), options.pop("schema", None)
            column, _, delay = options.pop("watermark", "").partition(" ")
            yield _checked(Stream(name, topic, schema, (column, delay) if delay else None, options, kind == "tables", line))
    for name, given in header.get("sinks", {}).items():
        options = _options_of(name, given, line)
        kinds = [kind for kind in ("topic", *FILES) if kind in options]
        if len(kinds) != 1:
            raise JobError(f"sink {name} needs one of topic, {', '.join(FILES)}", line)
        yield _checked_sink(Sink(name, kinds[0], options.pop(kinds[0]), options, line))


def _options_of(name: str, given: Any, line: int) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise JobError(f"{name} in the header is a table of options", line)
    return {key: str(value) for key, value in _flat(given)}


def statements(text: str) -> Iterator[tuple[str, int]]:
    """Yields the statements between semicolons, each from its first word on, with the line of that word."""
    start: int | None = None
    for token in _TOKEN.finditer(text):
        piece = token[0]
        if piece == ";":
            if start is not None:
                yield text[start : token.start()].rstrip(), text.count("\n", 0, start) + 1
            start = None
        elif start is None and not piece.isspace() and not piece.startswith(("--", "/*")):
            start = token.start()
    if start is not None:
        yield text[start:].rstrip(), text.count("\n", 0, start) + 1


def read_statement(text: str, line: int) -> Stream | Sink | Insert | Statement:
    if match := _INSERT.match(text):
        return Insert(match[1], text[match.end() :], line + text.count("\n", 0, match.end()))
    if (match := _CREATE.match(text)) and (match[1].upper() == "STREAM" or _names_a_topic(text[match.end() :])):
        return _read_stream(text, line, match)
    if match := re.match(r"CREATE\s+SINK\b", text, re.IGNORECASE):
        return _read_sink(text, line)
    return Statement(text, line)


def _names_a_topic(rest: str) -> bool:
    """Returns whether this rest of a CREATE TABLE belongs to a statement of ours, and not of Spark's."""
    columns = _balanced(rest) if rest.startswith("(") else ""
    return columns is not None and _FROM.match(rest[len(columns) :].lstrip()) is not None


def _read_stream(text: str, line: int, head: re.Match[str]) -> Stream:
    rest, schema = text[head.end() :], None
    if rest.startswith("("):
        columns = _balanced(rest)
        if columns is None:
            raise JobError("the list of columns has no end", line)
        schema, rest = columns[1:-1].strip(), rest[len(columns) :].lstrip()
    topic = _FROM.match(rest)
    if topic is None:
        raise JobError(f"FROM TOPIC is expected where it says {_begin(rest)}", line + text[: len(text) - len(rest)].count("\n"))
    rest = rest[topic.end() :]
    watermark = None
    if match := _WATERMARK.match(rest):
        watermark = (match[1], match[2] or match[3])
        rest = rest[match.end() :]
    options = _read_options(rest, text, line)
    return _checked(Stream(head[2], _plain(topic[1]), schema, watermark, options, head[1].upper() == "TABLE", line))


def _read_sink(text: str, line: int) -> Sink:
    match = _SINK.match(text)
    if match is None:
        raise JobError("a sink is CREATE SINK name TO TOPIC topic, or TO PARQUET 'path'", line)
    options = _read_options(text[match.end() :], text, line)
    return _checked_sink(Sink(match[1], match[2].lower(), _plain(match[3]), options, line))


def _read_options(rest: str, text: str, line: int) -> dict[str, str]:
    """Reads `WITH (...)` up to the end of the statement; returns no options if there is none. Raises JobError."""
    at = line + text[: len(text) - len(rest)].count("\n")
    if not rest.strip():
        return {}
    match = _WITH.match(rest)
    inner = _balanced(rest[match.end() :]) if match else None
    if match is None or inner is None or rest[match.end() + len(inner) :].strip():
        raise JobError(f"WITH (option = 'value', ...) is expected where it says {_begin(rest)}", at)
    found: dict[str, str] = {}
    body, place = inner[1:-1].strip(), 0
    while place < len(body):
        option = _OPTION.match(body, place)
        if option is None:
            raise JobError(f"option = 'value' is expected where it says {_begin(body[place:])}", at)
        found[_plain(option[1])] = _plain(option[2]).replace("''", "'")
        place = option.end()
    return found


def _balanced(text: str) -> str | None:
    """Returns the text from the opening parenthesis at its beginning to the closing one, or None if that is missing."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0:
            return text[: token.end()]
    return None


def _plain(name: str) -> str:
    return name[1:-1] if name[:1] in {"`", "'"} else name


def _begin(text: str) -> str:
    return repr(" ".join(text.split())[:30]) if text.strip() else "nothing more"


def _checked(stream: Stream) -> Stream:
    _check_options(stream.name, stream.options, STREAM_OPTIONS, stream.line)
    if stream.options.get("bad_records", "fail") not in {"fail", "null"}:
        raise JobError(f"{stream.name}: bad_records is 'fail' or 'null'", stream.line)
    if stream.is_table:
        if stream.watermark is not None or "rows_per_batch" in stream.options:
            raise JobError(f"{stream.name}: a table has neither watermark nor rows_per_batch; streams have", stream.line)
        if pinned := [key for key in stream.options if key.lower().startswith(("spark.starting", "spark.ending"))]:
            raise JobError(f"{stream.name}: {pinned[0]} is not for a table, which has `from`", stream.line)
    return stream


def _checked_sink(sink: Sink) -> Sink:
    if sink.kind != "topic" and sink.kind not in FILES:
        raise JobError(f"sink {sink.name}: {sink.kind} is not one of topic, {', '.join(FILES)}", sink.line)
    _check_options(sink.name, sink.options, TOPIC_OPTIONS if sink.kind == "topic" else FILE_OPTIONS, sink.line)
    if sink.options.get("delivery", "exactly-once") not in {"exactly-once", "at-least-once"}:
        raise JobError(f"sink {sink.name}: delivery is 'exactly-once' or 'at-least-once'", sink.line)
    if not sink.options.get("partitions", "1").isdecimal():
        raise JobError(f"sink {sink.name}: partitions is a number", sink.line)
    for option in sink.options:
        if why_not := _why_without_effect(sink, option):
            raise JobError(f"sink {sink.name}: {option} has no effect, {why_not}", sink.line)
    return sink


def is_exactly_once(step: Stream | Sink | Insert | Statement) -> bool:
    """Returns whether a step is a topic that a query writes in transactions of ours."""
    return isinstance(step, Sink) and step.kind == "topic" and step.options.get("delivery") != "at-least-once"


def _why_without_effect(sink: Sink, option: str) -> str | None:
    if sink.kind != "topic":
        return f"{sink.kind} is not a topic" if option.startswith("kafka.") else None
    if option.startswith("spark."):
        return "a topic's sink has no settings but kafka.*"
    if is_exactly_once(sink):
        return "for it is the sink's own with delivery = 'exactly-once'" if option in OWN_KAFKA else None
    return "for Spark's own sink sets no times: delivery = 'exactly-once' does" if option == "timestamp" else None


def _check_options(name: str, given: Mapping[str, str], known: set[str], line: int | None) -> None:
    """Raises JobError for an unknown option. Options that begin with `kafka.` or `spark.` are passed to Spark's source or
    sink."""
    unknown = sorted(key for key in given if key not in known and not key.startswith(("kafka.", "spark.")))
    if unknown:
        raise JobError(f"{name} has no option {unknown[0]}; there are {', '.join(sorted(known))}", line)
