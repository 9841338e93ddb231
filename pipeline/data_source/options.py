"""Parses the options of `format("ottla")`, with one clear line for each mistake.

Names and meanings are those of Spark's kafka source if it has the option:

    paths                  what Spark makes of a list of paths, in place of path
    topic, subscribe       topics, with commas; subscribePattern: a regular expression for the whole name. Without any: all topics
                           at the path, but internal ones (`__…`) only if they are named
    partitions             numbers with commas: these partitions only
    startingOffsets        earliest, latest, a number for all partitions, or {"topic": {"0": 42, "1": -2}}: -2 earliest, -1 latest
    endingOffsets          the same; exclusive; batch only
    startingTimestamp      ms since 1970: from the first record on that is not earlier, a matter of offsets as in the kafka source
    endingTimestamp        the same; exclusive; batch only
    fromTimestamp          ms since 1970 or ISO 8601: only records that are not earlier, whatever their offset
    untilTimestamp         the same; exclusive
    columns                names with commas: make only these columns. A schema given to the reader does the same
    includeHeaders         true: the column headers, too
    isolation.level        read_uncommitted (default) or read_committed; also as kafka.isolation.level
    maxOffsetsPerTrigger   streams only, from Spark 4.2 on: the most offsets that a micro-batch takes, over all partitions
    failOnDataLoss         false: go on where offsets were removed before they were read
    splitBytes             about how many bytes of a segment file one task reads
    maxDecompressedBatchBytes  the most bytes to which one batch may decompress; the default is the broker's
    pushFilters            true: filters on topic, partition, offset and timestamp reach the indexes (Spark 4.1 and later, with
                           spark.sql.python.filterPushdown.enabled=true; Spark refuses the hook where that is false)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ottla.pipeline.data_source.segments import MAX_BATCH_BYTES, MAX_OFFSET, MIN_TIMESTAMP, SourceError
from ottla.pipeline.times import ceil_ms
from ottla.wire.compression import MAX_DECOMPRESSED_BYTES

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
EARLIEST: Final = -2
LATEST: Final = -1
SPLIT_BYTES: Final = 256 * 1024 * 1024

KNOWN: Final = frozenset(
    {
        "path",
        "paths",
        "topic",
        "subscribe",
        "subscribePattern",
        "partitions",
        "startingOffsets",
        "endingOffsets",
        "startingTimestamp",
        "endingTimestamp",
        "fromTimestamp",
        "untilTimestamp",
        "columns",
        "includeHeaders",
        "isolation.level",
        "kafka.isolation.level",
        "failOnDataLoss",
        "maxOffsetsPerTrigger",
        "splitBytes",
        MAX_BATCH_BYTES,
        "pushFilters",
    }
)
_LOWER: Final = {name.lower(): name for name in KNOWN}


@dataclass(frozen=True)
class Offsets:
    """Offsets of partitions: those in `given`, and `default` for all others; EARLIEST or LATEST may stand for a number."""

    default: int
    given: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def offset_of(self, topic: str, partition: int) -> int:
        return self.given.get((topic, partition), self.default)


@dataclass(frozen=True)
class Options:
    path: str
    columns: tuple[str, ...]
    topics: frozenset[str] | None
    pattern: re.Pattern[str] | None
    partitions: frozenset[int] | None
    starting: Offsets | None
    ending: Offsets | None
    starting_timestamp: int | None
    ending_timestamp: int | None
    earliest: int
    latest: int
    committed: bool
    fail_on_data_loss: bool
    split_bytes: int
    max_batch_bytes: int
    max_offsets: int | None
    push_filters: bool

    def wants_topic(self, topic: str) -> bool:
        if self.topics is not None:
            return topic in self.topics
        if self.pattern is not None:
            return self.pattern.fullmatch(topic) is not None
        return not topic.startswith("__")

    def wants_partition(self, partition: int) -> bool:
        return self.partitions is None or partition in self.partitions


def parse(options: Mapping[str, str]) -> Options:
    """Parses the options. Raises SourceError."""
    given: dict[str, str] = {}
    for name, text in options.items():
        known = _LOWER.get(name.lower())
        if known is None:
            raise SourceError(f"option {name!r} is not known; there are {', '.join(sorted(KNOWN))}")
        given[known] = text
    if "paths" in given:
        given["path"] = _joined(given["paths"])
    if not given.get("path"):
        raise SourceError('a path is missing: load("<log directory>"), or one partition of it, or "<log directory>/<topic>"')
    isolation = given.get("isolation.level", given.get("kafka.isolation.level", "read_uncommitted"))
    if isolation not in ("read_committed", "read_uncommitted"):
        raise SourceError(f"isolation.level is {isolation!r}; it may be read_committed or read_uncommitted")
    named = [given[name] for name in ("topic", "subscribe", "subscribePattern") if name in given]
    if len(named) > 1:
        raise SourceError("only one of topic, subscribe and subscribePattern may be given")
    names = given.get("topic", given.get("subscribe"))
    return Options(
        path=given["path"],
        columns=_columns(given),
        topics=None if names is None else frozenset(_words(names)),
        pattern=_pattern(given.get("subscribePattern")),
        partitions=_partitions(given.get("partitions")),
        starting=_offsets("startingOffsets", given.get("startingOffsets")),
        ending=_offsets("endingOffsets", given.get("endingOffsets")),
        starting_timestamp=_time("startingTimestamp", given.get("startingTimestamp")),
        ending_timestamp=_time("endingTimestamp", given.get("endingTimestamp")),
        earliest=_or(_time("fromTimestamp", given.get("fromTimestamp")), MIN_TIMESTAMP),
        latest=_or(_time("untilTimestamp", given.get("untilTimestamp")), MAX_OFFSET),
        committed=isolation == "read_committed",
        fail_on_data_loss=_flag("failOnDataLoss", given.get("failOnDataLoss", "true")),
        max_offsets=None if (most := given.get("maxOffsetsPerTrigger")) is None else _number("maxOffsetsPerTrigger", most, 1),
        split_bytes=_number("splitBytes", given.get("splitBytes", str(SPLIT_BYTES)), 1),
        max_batch_bytes=_number(MAX_BATCH_BYTES, given.get(MAX_BATCH_BYTES, str(MAX_DECOMPRESSED_BYTES)), 1),
        push_filters=_flag("pushFilters", given.get("pushFilters", "false")),
    )


def _joined(text: str) -> str:
    """Returns the list of paths that Spark was given, as one path."""
    try:
        paths = json.loads(text)
    except ValueError:
        paths = None
    if not isinstance(paths, list) or not all(isinstance(one, str) for one in paths):
        raise SourceError(f"paths is {text!r}; it must be a list of paths in JSON, as Spark makes it of load([...])")
    return ",".join(paths)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise SourceError(f"{name} is {text!r}; it may be true or false")
    return text.lower() == "true"


def _number(name: str, text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least or value > MAX_OFFSET:
        raise SourceError(f"{name} is {text!r}; it must be a whole number from {least} on")
    return value


def _columns(given: Mapping[str, str]) -> tuple[str, ...]:
    headers = _flag("includeHeaders", given.get("includeHeaders", "false"))
    if "columns" not in given:
        return COLUMNS if headers else COLUMNS[:-1]
    lower = {name.lower(): name for name in COLUMNS}
    found = [lower.get(word.lower(), "") for word in _words(given["columns"])]
    if not found or "" in found or len(set(found)) < len(found):
        raise SourceError(f"columns is {given['columns']!r}; it may name each of {', '.join(COLUMNS)} once")
    return tuple(found)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise SourceError(f"subscribePattern {text!r} is not a regular expression: {error}") from None


def _partitions(text: str | None) -> frozenset[int] | None:
    return None if text is None else frozenset(_number("partitions", word, 0) for word in _words(text))


def _offsets(name: str, text: str | None) -> Offsets | None:
    if text is None:
        return None
    fallback = EARLIEST if name == "startingOffsets" else LATEST
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Offsets(EARLIEST if word == "earliest" else LATEST)
    try:
        parsed = json.loads(text)
        if isinstance(parsed, int):
            return Offsets(_checked(parsed))
        given = {(topic, int(number)): _checked(at) for topic, ats in parsed.items() for number, at in ats.items()}
    except (ValueError, AttributeError):
        forms = 'earliest, latest, a number, or {"topic": {"0": 42}} with -2 for earliest, -1 for latest'
        raise SourceError(f"{name} is {text!r}; it may be {forms}") from None
    return Offsets(fallback, given)


def _checked(offset: object) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or not EARLIEST <= offset <= MAX_OFFSET:
        raise ValueError(offset)
    return offset


def _time(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise SourceError(f"{name} is {text!r}; it must be milliseconds since 1970 or a date and time as in ISO 8601") from None
    if when.tzinfo is None:
        raise SourceError(f"{name} is {text!r}, and says no time zone; append Z for UTC")
    return ceil_ms(when)
