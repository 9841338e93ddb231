"""Makes the rows of the metrics about the tie between a broker and its controllers, for server/metrics/table.py.

A broker that is its own controller has none of them, but for the lag of its event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.server.metrics.rows import Row, Rows
from ottla.server.metrics.sources import Sources

if TYPE_CHECKING:
    from ottla.server.metadata.cluster import Tie


_METADATA: Final = "kafka_server_brokermetadatametrics_last_applied_record_"


def _of_tie(value: Callable[[Sources, Tie], float]) -> Rows:
    """Makes a row of a figure of the tie, where there is one."""

    def rows(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
        tie = sources.cluster.tie() if sources.cluster is not None else None
        if tie is not None:
            yield (), value(sources, tie)

    return rows


def _loop_lag(sources: Sources) -> Iterator[tuple[tuple[str, ...], float]]:
    if sources.loop_lag is not None:
        yield (), sources.loop_lag.longest_s


CLUSTER_ROWS: Final[tuple[Row, ...]] = (
    (
        "ottla_heartbeat_age_seconds",
        "gauge",
        (),
        "Time since a controller last answered a heartbeat; after broker.session.timeout.ms without one others lead.",
        _of_tie(lambda _, tie: tie.heartbeat_age_s),
    ),
    (
        "ottla_heartbeat_longest_gap_seconds",
        "gauge",
        (),
        "The longest time between two answered heartbeats since the broker registered.",
        _of_tie(lambda _, tie: tie.longest_gap_s),
    ),
    (
        "ottla_metadata_age_seconds",
        "gauge",
        (),
        "Time since the last fetch of metadata from the active controller that is fully applied here.",
        _of_tie(lambda _, tie: tie.metadata_age_s),
    ),
    (
        f"{_METADATA}offset",
        "gauge",
        (),
        "Offset of the last record of the cluster's metadata that is applied here.",
        _of_tie(lambda sources, _: sources.context.metadata.highest_offset),
    ),
    (
        f"{_METADATA}timestamp",
        "gauge",
        (),
        "When the controllers wrote the last record of the cluster's metadata that is applied here, in ms.",
        _of_tie(lambda _, tie: tie.last_applied_ms),
    ),
    (
        f"{_METADATA}lag_ms",
        "gauge",
        (),
        "How long ago, in ms, the controllers wrote the last record of the metadata that is applied here, by their clock and "
        "this broker's; Kafka's controllers write something every half second.",
        _of_tie(lambda sources, tie: max(0, sources.context.clock.now_ms() - tie.last_applied_ms)),
    ),
    (
        "ottla_event_loop_lag_seconds",
        "gauge",
        (),
        "By how much the event loop was late at most, in the last one to two minutes.",
        _loop_lag,
    ),
)
