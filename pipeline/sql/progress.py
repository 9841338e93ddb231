"""The progress of a running job's queries: rows a second, lag in records and seconds, as a line for people and as metrics for
Prometheus.

The lag in records is what the topics of a query had when its last batch began and that batch did not read. The lag in seconds is
how long ago the query had last read everything. So 3 s means that everything produced until 3 s ago has been processed; for a job
that works off a backlog it counts from the start, and a job that waits for records has no lag.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

IDLE: Final = "Waiting for data to arrive"
"""Spark's status message of a query that has nothing to do."""


@dataclass
class QueryProgress:
    """The progress of one query. `now` is in seconds since 1970, like Spark's timestamps."""

    name: str
    caught_up_s: float
    """The time at which the query had last read everything; at first, the time at which it started."""
    rows: int = 0
    rows_per_s: float = 0.0
    lag_records: int = 0
    batch_s: float = 0.0
    batches: int = 0
    last_batch: tuple[str, int] | None = None
    is_known: bool = False
    """True if Spark has reported anything yet."""

    def take(self, progress: Mapping[str, Any]) -> None:
        """Takes in Spark's report on one batch; a report that has come before changes nothing."""
        batch = (str(progress["timestamp"]), int(progress["batchId"]))
        if self.last_batch is not None and batch <= self.last_batch:
            return
        self.last_batch, self.is_known = batch, True
        self.rows += progress["numInputRows"]
        self.rows_per_s = progress.get("processedRowsPerSecond") or 0.0
        self.batch_s = progress.get("batchDuration", 0) / 1000
        self.batches += 1
        self.lag_records = sum(records_behind(source) for source in progress["sources"])
        if self.lag_records == 0:
            self.caught_up_s = datetime.fromisoformat(batch[0]).timestamp()

    def idle(self, now: float) -> None:
        """Notes that the query waits: nothing is unread, and no batch is under way."""
        self.lag_records, self.caught_up_s, self.rows_per_s, self.is_known = 0, now, 0.0, True

    def lag_s(self, now: float) -> float:
        return max(0.0, now - self.caught_up_s)

    def line(self, now: float) -> str:
        if not self.is_known:
            return f"{self.name}: its first batch is under way for {self.lag_s(now):,.1f} s"
        return (
            f"{self.name}: {self.rows:,} rows, {self.rows_per_s:,.0f} rows/s, "
            f"lag {self.lag_records:,} records, {self.lag_s(now):,.1f} s"
        )


def records_behind(source: Mapping[str, Any]) -> int:
    """Returns how many records a batch left unread in the topic, by the offsets that Spark reports; 0 if the source is not a
    topic."""
    there, read = (_offsets(source.get(name)) for name in ("latestOffset", "endOffset"))
    return sum(max(0, offset - read.get(place, 0)) for place, offset in there.items())


def _offsets(told: Any) -> dict[tuple[str, str], int]:
    """Returns the offset of each (topic, partition) in {"topic": {"0": 17}}, which may be JSON or parsed already."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:  # the position of another kind of source
            return {}
    if not isinstance(told, Mapping):
        return {}
    return {
        (topic, partition): offset
        for topic, partitions in told.items()
        if isinstance(partitions, Mapping)
        for partition, offset in partitions.items()
        if isinstance(offset, int)
    }


def watch(query: Any, state: QueryProgress, now: float) -> None:
    """Takes what Spark reports about a query since the last call."""
    for progress in query.recentProgress:
        state.take(json.loads(progress.json) if hasattr(progress, "json") else progress)
    if query.isActive and query.status["message"].startswith(IDLE):
        state.idle(now)


def serve_metrics(port: int, job: str, states: Mapping[str, QueryProgress], clock: Callable[[], float]) -> tuple[Any, int]:
    """Serves the figures of these queries at http://127.0.0.1:port/metrics (0: a free port); returns the server and its port."""
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

    figures: tuple[tuple[Callable[..., Any], str, str, Callable[[QueryProgress], float]], ...] = (
        (CounterMetricFamily, "ottla_pipeline_rows", "Rows read from topics", lambda q: q.rows),
        (CounterMetricFamily, "ottla_pipeline_batches", "Micro-batches done", lambda q: q.batches),
        (GaugeMetricFamily, "ottla_pipeline_rows_per_second", "Rows a second in the last batch", lambda q: q.rows_per_s),
        (GaugeMetricFamily, "ottla_pipeline_lag_records", "Records that are there and not read", lambda q: q.lag_records),
        (GaugeMetricFamily, "ottla_pipeline_lag_seconds", "Since everything had been read", lambda q: q.lag_s(clock())),
        (GaugeMetricFamily, "ottla_pipeline_batch_seconds", "Duration of the last batch", lambda q: q.batch_s),
    )

    class Collector:
        def collect(self) -> list[Metric]:
            found = []
            for kind, name, text, value in figures:
                family = kind(name, text, labels=["job", "query"])
                for query in list(states.values()):
                    family.add_metric([job, query.name], value(query))
                found.append(family)
            return found

    registry = CollectorRegistry()
    registry.register(Collector())
    server, _thread = start_http_server(port, "127.0.0.1", registry)
    return server, int(server.server_port)
