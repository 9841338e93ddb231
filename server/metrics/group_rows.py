"""Counts the groups that this broker coordinates, by protocol and by state, in rows for server/metrics/table.py.

Names and labels are those of Kafka's group-coordinator-metrics. A state without groups has a row of 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ottla.server.group.kind import Kind
from ottla.server.metrics.rows import Row, Rows
from ottla.server.metrics.sources import Sources

_COORDINATOR: Final = "kafka_server_groupcoordinatormetrics_"
_STATES: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.CLASSIC: ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    Kind.CONSUMER: ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    Kind.SHARE: ("Empty", "Stable", "Dead"),
    Kind.STREAMS: ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
}


def _rows_by_protocol(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    shards = sources.group_shards()
    counts = Counter(group.kind for shard in shards for group in shard.groups.values())
    for kind in Kind:
        yield (kind.value,), counts[kind]


def _rows_by_state(kind: Kind) -> Rows:
    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        shards = sources.group_shards()
        counts = Counter(group.state_name for shard in shards for group in shard.groups.values() if group.kind is kind)
        for state in _STATES[kind]:
            yield (state,), counts[state]

    return rows


GROUP_ROWS: Final[tuple[Row, ...]] = (
    (f"{_COORDINATOR}group_count", "gauge", ("protocol",), "Groups of each protocol.", _rows_by_protocol),
    *(
        (
            f"{_COORDINATOR}{kind.value}_group_count",
            "gauge",
            ("state",),
            f"Groups of type {kind.value} in each state.",
            _rows_by_state(kind),
        )
        for kind in Kind
    ),
)
