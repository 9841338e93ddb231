"""Tests of what a job's sinks ask of Spark's writers, and the records that a row becomes; test_tables.py has the names of
tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.sql import sinks
from ottla.pipeline.sql.job import JobError, Sink
from ottla.pipeline.sql.sinks import as_records, start_query, table_writer, topic_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # py4j leaves some

CLUSTER: Final = KafkaCluster({"bootstrap.servers": "here:9092", "linger.ms": "5"})


class Writer:
    """A writer of streams that notes how it is asked to write."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., Writer]:
        def call(*values: Any, **named: Any) -> Writer:
            self.calls.append((name, *values, *sorted(named.items())))
            return self

        return call


class Frame:
    """A stream of rows with these columns."""

    def __init__(self, *columns: str, streaming: bool = True) -> None:
        self.columns = columns
        self.isStreaming = streaming
        self.sparkSession = None
        self.writeStream = Writer()
        self.dropped: list[str] = []

    def drop(self, column: str) -> Frame:
        self.dropped.append(column)
        return self


def sink(kind: str = "parquet", **options: str) -> Sink:
    return Sink("out", kind, "place", {name.replace("__", "."): value for name, value in options.items()}, 3)


def started(monkeypatch: pytest.MonkeyPatch, frame: Any, to: Sink, *, once: bool = False) -> list[tuple[Any, ...]]:
    """The calls with which a query is started."""
    monkeypatch.setattr(sinks, "check_package", lambda *_: None)
    monkeypatch.setattr(sinks, "as_records", lambda given, *_: given)
    monkeypatch.setattr(sinks, "catalog_name", lambda *_: "catalog.table")
    start_query(frame, to, checkpoint="there", cluster=CLUSTER, tasks=4, once=once, line=7)
    calls: list[tuple[Any, ...]] = frame.writeStream.calls
    return calls


@pytest.mark.parametrize(
    ("once", "trigger"), [(True, ("trigger", ("availableNow", True))), (False, ("trigger", ("processingTime", "0 seconds")))]
)
def test_a_query_ends_with_the_present_records_or_never(
    monkeypatch: pytest.MonkeyPatch, once: bool, trigger: tuple[Any, ...]
) -> None:
    calls = started(monkeypatch, Frame("a"), sink(), once=once)
    assert calls == [
        ("format", "parquet"),
        ("options",),
        ("option", "path", "place"),
        ("queryName", "out"),
        ("outputMode", "append"),
        ("option", "checkpointLocation", "there"),
        trigger,
        ("start",),
    ]


def test_a_table_of_iceberg_is_in_a_catalog_and_has_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = started(monkeypatch, Frame("a"), sink("iceberg", mode="complete"))
    assert calls[-1] == ("toTable", "catalog.table")
    assert ("outputMode", "complete") in calls
    assert ("option", "path", "place") not in calls


def test_a_query_over_no_stream_is_an_error_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobError, match=r"^nothing in the query into out is a stream$") as raised:
        started(monkeypatch, Frame("a", streaming=False), sink())
    assert raised.value.line == 7


def test_a_table_is_partitioned_by_columns_that_it_has() -> None:
    frame: Any = Frame("a", "b", "c")
    table_writer(frame, sink(partition_by=" b ,a,", spark__compression="zstd", kafka__x="1"), 7)
    assert frame.writeStream.calls == [
        ("format", "parquet"),
        ("options", ("compression", "zstd")),
        ("partitionBy", "b", "a"),
        ("option", "path", "place"),
    ]
    with pytest.raises(JobError, match=r"^sink out is partitioned by d, which its query has not$"):
        table_writer(frame, sink(partition_by="a,d"), 7)


def test_a_topic_is_written_exactly_once_unless_the_sink_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "as_records", lambda given, *_: given)
    frame: Any = Frame("a")
    topic_writer(frame, sink("topic", kafka__acks="all", key="a"), CLUSTER, 4, 7)
    ((name, writer),) = frame.writeStream.calls
    assert (name, writer.tasks, writer.topic, frame.dropped) == ("foreachBatch", 4, "place", [])
    assert writer.kafka == {**CLUSTER.properties, "acks": "all"}
    frame = Frame("a")
    topic_writer(frame, sink("topic", delivery="at-least-once", kafka__acks="all"), CLUSTER, 4, 7)
    (_, (_, *options)) = frame.writeStream.calls
    assert frame.dropped == ["timestamp_ms"]
    expected = {**CLUSTER.spark_options(), "kafka.acks": "all", "topic": "place"}
    assert dict(options) == expected


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"key": "b"}, "its query has no column b for the key"),
        ({"timestamp": "b"}, "its query has no column b for the timestamp"),
        ({"format": "text"}, "its query has no column value for the value"),
        ({"format": "xml"}, "format is one of json, text, not xml"),
    ],
)
def test_columns_that_a_record_would_be_made_of_are_there(options: dict[str, str], why: str) -> None:
    frame: Any = SimpleNamespace(columns=["a"])
    with pytest.raises(JobError, match=f"^sink out: {why}$") as raised:
        as_records(frame, sink("topic", **options), 7)
    assert raised.value.line == 7


@pytest.mark.parametrize(
    ("options", "record"),
    [
        ({}, (None, b'{"name":"x","number":7,"nothing":null,"at":"1970-01-01T00:00:02.500Z","value":"cmF3"}', None)),
        ({"format": "text"}, (None, b"raw", None)),
        ({"format": "text", "key": "number", "timestamp": "at"}, (b"7", b"raw", 2500)),
        ({"format": "text", "key": "value"}, (b"raw", b"raw", None)),
    ],
)
def test_a_row_becomes_a_record(spark: SparkSession, options: dict[str, str], record: tuple[Any, ...]) -> None:
    columns = "name string, number int, nothing string, at timestamp, value binary"
    frame = spark.createDataFrame([("x", 7, None, datetime(1970, 1, 1, 0, 0, 2, 500_000, UTC), b"raw")], columns)
    found = as_records(frame, sink("topic", **options), 7)
    assert found.columns == ["key", "value", "timestamp_ms"]
    (row,) = found.collect()
    assert tuple(bytes(one) if isinstance(one, bytearray) else one for one in row) == record
