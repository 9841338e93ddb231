"""Turns a cluster's answers into what `ottla topic` shows: plain values in, rows and JSON out. Nothing is requested here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.commands.output import Cell, counted

LIST_COLUMNS: Final = ("Topic", "Partitions", "Replicas")
PARTITION_COLUMNS: Final = ("Topic", "Partition", "Leader", "Replicas", "In sync", "First offset", "End offset", "Bytes")
LAG_COLUMN: Final = "Lag"
UNKNOWN: Final = "?"
SETTING_COLUMNS: Final = ("Setting", "Value", "Source")


@dataclass(frozen=True)
class PartitionState:
    """One partition as the cluster described it. Brokers are given by id; None means that there is none, or that it is not known.

    `first_offset` is the first one there, `end_offset` the next to be written; `size_bytes` is the size of the leader's log.
    `lags` say how many offsets each follower's log is behind the leader's.
    """

    number: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    first_offset: int | None = None
    end_offset: int | None = None
    size_bytes: int | None = None
    lags: Mapping[int, int | None] = field(default_factory=dict)

    @property
    def offsets_held(self) -> int | None:
        if self.first_offset is None or self.end_offset is None:
            return None
        return self.end_offset - self.first_offset

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True)
class Setting:
    name: str
    value: str | None  # None if there is none, or if it is a secret
    source: str


@dataclass(frozen=True)
class TopicState:
    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionState, ...]
    settings: tuple[Setting, ...] = field(default=())  # the topic's own

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def size_bytes(self) -> int | None:
        return total(partition.size_bytes for partition in self.partitions)

    @property
    def offsets_held(self) -> int | None:
        """The number of offsets from the first to the end: that of the records, unless some were compacted or are markers."""
        return total(partition.offsets_held for partition in self.partitions)


def total(numbers: Iterable[int | None]) -> int | None:
    """Returns the sum, or None if one of the numbers is not known."""
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)


def list_rows(topics: Mapping[str, Any], names: Sequence[str]) -> list[tuple[Cell, ...]]:
    """Returns rows of topics. `topics` are librdkafka's TopicMetadata by name."""
    return [
        (name, len(topics[name].partitions), max((len(one.replicas) for one in topics[name].partitions.values()), default=0))
        for name in names
    ]


def partition_rows(topic: TopicState) -> list[tuple[Cell, ...]]:
    return [
        (
            topic.name,
            partition.number,
            partition.leader,
            numbers(partition.replicas),
            numbers(partition.in_sync),
            partition.first_offset,
            partition.end_offset,
            partition.size_bytes,
        )
        for partition in topic.partitions
    ]


def has_followers(topics: Iterable[TopicState]) -> bool:
    """Returns whether a column with lags has anything to say."""
    return any(partition.lags for topic in topics for partition in topic.partitions)


def lag_cells(topic: TopicState) -> list[str | None]:
    """Returns, for each partition, `broker:offsets` of each follower, or None if there are none."""
    return [
        ",".join(f"{broker}:{UNKNOWN if lag is None else lag}" for broker, lag in partition.lags.items()) or None
        for partition in topic.partitions
    ]


def numbers(values: Iterable[int]) -> str | None:
    return ",".join(map(str, values)) or None


def summary(topic: TopicState) -> str:
    """Returns the line above a topic's table."""
    parts = [counted(len(topic.partitions), "partition"), f"replication factor {topic.replication_factor}"]
    if topic.offsets_held is not None:
        parts.append(counted(topic.offsets_held, "record"))
    if topic.size_bytes is not None:
        parts.append(human_bytes(topic.size_bytes))
    if topic.is_internal:
        parts.append("internal")
    return f"{topic.name}: {', '.join(parts)}; id {topic.topic_id}"


def human_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def as_object(topic: TopicState) -> dict[str, Any]:
    """Returns the topic as JSON; docs/commands.md describes it for users."""
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "replication_factor": topic.replication_factor,
        "size_bytes": topic.size_bytes,
        "partitions": [
            {
                "partition": partition.number,
                "leader": partition.leader,
                "replicas": list(partition.replicas),
                "in_sync": list(partition.in_sync),
                "first_offset": partition.first_offset,
                "end_offset": partition.end_offset,
                "size_bytes": partition.size_bytes,
                **({"lag": {str(broker): lag for broker, lag in partition.lags.items()}} if partition.lags else {}),
            }
            for partition in topic.partitions
        ],
        "settings": {setting.name: setting.value for setting in topic.settings},
    }
