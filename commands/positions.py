"""Places in a topic as a user writes them (`--from`, `--until`), and the offsets that they stand for in each partition.

| written | the offset in a partition |
|---|---|
| `beginning` or `earliest`, `end` or `latest` | its first offset, the next one to be written |
| `17` | 17, or the nearest that it has |
| `-5` | five before its end |
| `2026-11-21T09:00`, `2026-11-21T09:00:00Z`, `@1795251600000` | its first record then or later; its end if there is none |

A time without a zone is in the computer's own. Milliseconds since 1970 need the `@`, since a plain number is an offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from ottla.commands.clients.client import Cluster
from ottla.commands.clients.partition import Partition

if TYPE_CHECKING:
    from confluent_kafka import IsolationLevel
    from confluent_kafka.admin import AdminClient

MAX_INT64: Final = 2**63 - 1
_SYNTAX: Final = "write earliest, latest, an offset (17), the last so many (-5), a time (2026-11-21T09:00) or @milliseconds"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = re.compile(r"@(\d{1,19})", re.ASCII)
_WHOLE: Final = re.compile(r"-?\d{1,19}", re.ASCII)


class Kind(Enum):
    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    TAIL = "tail"
    TIME = "time"


_WORDS: Final = {"beginning": Kind.BEGINNING, "earliest": Kind.BEGINNING, "end": Kind.END, "latest": Kind.END}
"""The names of places, as in kcat and as in Kafka's own tools."""


class Position(NamedTuple):
    """A place in any partition. `number` is the offset, the count of records before the end, or ms since 1970."""

    kind: Kind
    number: int = 0


class Span(NamedTuple):
    """The offsets that a partition has: `begin` is the first, `end` the one after the last."""

    begin: int
    end: int


def parse_time_ms(text: str) -> int | None:
    """Parses an ISO 8601 time or `@milliseconds` to ms since 1970, rounded up: the records of the millisecond in which the time
    lies are earlier than it. Returns None if it is neither.
    """
    if found := _MS.fullmatch(text):
        return int(found[1])
    if text.isdecimal():
        return None  # fromisoformat would read 20261121 as a date
    try:
        since = datetime.fromisoformat(text).astimezone(UTC) - _EPOCH
    except (ValueError, OverflowError, OSError):
        return None
    return -(-since // timedelta(milliseconds=1))


def parse_position(text: str, option: str) -> Position:
    """Parses what the user wrote after `option`. Raises BadParameter if it is not in the table above."""
    if text in _WORDS:
        return Position(_WORDS[text])
    if _WHOLE.fullmatch(text):
        number = int(text)
        if abs(number) > MAX_INT64:
            raise typer.BadParameter(f"{text} is beyond any offset", param_hint=option)
        return Position(Kind.TAIL, -number) if text.startswith("-") else Position(Kind.OFFSET, number)
    time_ms = parse_time_ms(text)
    if time_ms is None or not 0 <= time_ms <= MAX_INT64:
        raise typer.BadParameter(f"{text!r} is not a place in a topic; {_SYNTAX}", param_hint=option)
    return Position(Kind.TIME, time_ms)


def spans(
    cluster: Cluster, admin: AdminClient, partitions: Iterable[Partition], isolation: IsolationLevel
) -> dict[Partition, Span]:
    """Returns the first and the end offset of each partition. Raises KafkaException for the cluster's errors."""
    offset_spec = _offset_spec()
    wanted = list(partitions)
    begins = _list_offsets(cluster, admin, dict.fromkeys(wanted, offset_spec.earliest()), isolation)
    ends = _list_offsets(cluster, admin, dict.fromkeys(wanted, offset_spec.latest()), isolation)
    return {partition: Span(begins[partition], ends[partition]) for partition in wanted}


def resolve(
    cluster: Cluster, admin: AdminClient, position: Position, have: Mapping[Partition, Span], isolation: IsolationLevel
) -> dict[Partition, int]:
    """Returns the offset of the position in each partition, always within its span."""
    kind, number = position
    if kind is Kind.BEGINNING:
        found = {partition: span.begin for partition, span in have.items()}
    elif kind is Kind.END:
        found = {partition: span.end for partition, span in have.items()}
    elif kind is Kind.OFFSET:
        found = dict.fromkeys(have, number)
    elif kind is Kind.TAIL:
        found = {partition: span.end - number for partition, span in have.items()}
    else:
        at_time = _list_offsets(cluster, admin, dict.fromkeys(have, _offset_spec().for_timestamp(number)), isolation)
        found = {partition: have[partition].end if offset < 0 else offset for partition, offset in at_time.items()}
    return {partition: min(max(offset, have[partition].begin), have[partition].end) for partition, offset in found.items()}


def _offset_spec() -> Any:
    """Returns librdkafka's OffsetSpec class, which its stub does not type."""
    from confluent_kafka.admin import OffsetSpec

    return OffsetSpec


def _list_offsets(
    cluster: Cluster, admin: AdminClient, wanted: Mapping[Partition, Any], isolation: IsolationLevel
) -> dict[Partition, int]:
    from confluent_kafka import TopicPartition

    if not wanted:
        return {}
    specs = {TopicPartition(partition.topic, partition.number): spec for partition, spec in wanted.items()}
    futures = admin.list_offsets(specs, isolation_level=isolation, request_timeout=cluster.timeout_s)
    return {Partition(asked.topic, asked.partition): cluster.result(future).offset for asked, future in futures.items()}
