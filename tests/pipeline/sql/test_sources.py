"""Tests of what a stream asks Spark's connector for, and its columns."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.sql.checkpoint import Extent
from ottla.pipeline.sql.job import JobError, Sink, Stream
from ottla.pipeline.sql.sources import (
    ANSWER_S,
    FIELDS,
    extent_now,
    in_columns,
    milliseconds,
    open_stream,
    open_table,
    partitions_of_topics,
    start_options,
    topics_of,
    value_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # py4j leaves some


@pytest.mark.parametrize(
    ("options", "most", "found"),
    [
        ({}, None, None),
        ({}, 7, "7"),
        ({"rows_per_batch": "9"}, 7, "9"),
        ({"spark.maxOffsetsPerTrigger": "8"}, 7, "8"),
        ({"spark.maxOffsetsPerTrigger": "8"}, None, "8"),
    ],
)
def test_a_stream_takes_at_once_what_it_says_or_what_its_sinks_can_bear(
    options: dict[str, str], most: int | None, found: str | None
) -> None:
    assert start_options(Stream("s", "t", options=options), "latest", most).get("maxOffsetsPerTrigger") == found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01.5", 1500),
        ("1970-01-01T00:00:01.0004", 1001),  # the records of millisecond 1000 are earlier
        ("1969-12-31T23:59:59.9986", -1),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_a_stream_begins_at_a_moment_in_utc_where_it_does_not_say(given: str, found: int) -> None:
    stream = Stream("s", "t", options={"from": given})
    assert milliseconds(stream, given) == found
    assert start_options(stream, "latest", None)["startingTimestamp"] == str(found)


@pytest.mark.parametrize(
    ("options", "begin", "found"),
    [
        ({}, "latest", {"startingOffsets": "latest"}),
        ({}, "earliest", {"startingOffsets": "earliest"}),
        ({"from": "earliest"}, "latest", {"startingOffsets": "earliest"}),
        ({"from": "7"}, "latest", {"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": "latest"}),
        (
            {"kafka.a": "1", "spark.minPartitions": "2", "format": "text"},
            "latest",
            {"kafka.a": "1", "minPartitions": "2", "startingOffsets": "latest"},
        ),
    ],
)
def test_where_a_stream_begins(options: dict[str, str], begin: str, found: dict[str, str]) -> None:
    assert start_options(Stream("s", "t", options=options), begin, None) == found


def test_rows_per_batch_is_a_number() -> None:
    with pytest.raises(JobError, match=r"^s: rows_per_batch is a number$") as raised:
        start_options(Stream("s", "t", options={"rows_per_batch": "-1"}, line=3), "latest", 5)
    assert raised.value.line == 3


def test_what_is_no_moment_is_refused_with_its_line() -> None:
    with pytest.raises(JobError, match="s: from is earliest, latest or a time, not 'noon'") as raised:
        milliseconds(Stream("s", "t", line=3), "noon")
    assert raised.value.line == 3


def test_the_topics_of_a_job_are_its_streams_and_its_sinks_of_that_kind() -> None:
    steps = [
        Stream("s", "read", line=1),
        Sink("a", "topic", "written", {"partitions": "4"}, 2),
        Sink("b", "topic", "as-is", line=3),
        Sink("c", "parquet", "/somewhere", line=4),
    ]
    assert topics_of(steps) == {"read": (0, 1), "written": (4, 2), "as-is": (0, 3)}


class FakeAdmin:
    """Has a topic of four partitions: `starts` are the offsets of the time that is asked for, `ends` the last ones."""

    starts = (0, 7, 10, -1)
    ends = (5, 7, 9, 4)

    def __init__(self, _: dict[str, Any]) -> None:
        pass

    def list_offsets(self, wanted: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        asked: dict[TopicPartition, Future[Any]] = {}
        for place, spec in wanted.items():
            offsets = {"LatestSpec": self.ends, "EarliestSpec": (0, 1, 2, 3)}.get(type(spec).__name__, self.starts)
            asked[place] = Future()
            asked[place].set_result(SimpleNamespace(offset=offsets[place.partition]))
        return asked


def test_a_table_goes_from_where_it_begins_to_the_end_and_has_no_rows_where_nothing_is_as_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", FakeAdmin)
    since = extent_now(KafkaCluster({}), Stream("s", "t", options={"from": "2026-01-01"}), 4)
    assert since == Extent({0: 0, 1: 7, 2: 9, 3: 4}, {0: 5, 1: 7, 2: 9, 3: 4})
    whole = extent_now(KafkaCluster({}), Stream("s", "t", options={}), 4)
    assert whole.starts == {0: 0, 1: 1, 2: 2, 3: 3}


def test_a_table_from_latest_on_has_no_rows() -> None:
    with pytest.raises(JobError, match=r"^s: a table from latest on has no rows$") as raised:
        extent_now(KafkaCluster({}), Stream("s", "t", options={"from": "latest"}, line=3), 1)
    assert raised.value.line == 3


class Topics:
    """An administrator of a cluster with the topics `there`; it can create `new`, and no other."""

    def __init__(self, _: dict[str, Any]) -> None:
        pass

    def list_topics(self, **_: Any) -> Any:
        topics = {"there": 3, "one": 1}
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=range(count)) for name, count in topics.items()})

    def create_topics(self, topics: list[confluent_kafka.admin.NewTopic]) -> dict[str, Future[None]]:
        (topic,) = topics
        done: Future[None] = Future()
        if topic.topic == "new":
            done.set_result(None)
        else:
            done.set_exception(KafkaException(KafkaError(KafkaError.INVALID_PARTITIONS, f"no {topic.num_partitions}")))
        return {topic.topic: done}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"there": (0, 1), "one": (5, 2)}, {"there": 3, "one": 1}),
        ({"new": (4, 1), "there": (0, 2)}, {"new": 4, "there": 3}),
        ({"there": (0, 1), "nowhere": (0, 2)}, "unknown topic nowhere at here:9092"),
        ({"other": (7, 2)}, "topic other cannot be created: no 7"),
    ],
)
def test_topics_are_there_or_are_created(
    monkeypatch: pytest.MonkeyPatch, wanted: dict[str, tuple[int, int | None]], found: dict[str, int] | str
) -> None:
    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", Topics)
    cluster = KafkaCluster({"bootstrap.servers": "here:9092"})
    if isinstance(found, str):
        with pytest.raises(JobError, match=f"^{found}$") as raised:
            partitions_of_topics(cluster, wanted)
        assert raised.value.line == 2
    else:
        assert partitions_of_topics(cluster, wanted) == found


def test_a_broker_that_does_not_answer_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def list_topics(_: Topics, **how: Any) -> Any:
        assert how == {"timeout": ANSWER_S}
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))

    monkeypatch.setattr(Topics, "list_topics", list_topics)
    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", Topics)
    with pytest.raises(JobError, match=r"^no broker answers at here:9092: Failed to get metadata$"):
        partitions_of_topics(KafkaCluster({"bootstrap.servers": "here:9092"}), {"there": (0, 1)})


# Columns


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (Stream("s", "t", options={"format": "xml"}, line=3), "format is one of json, csv, avro, text, binary, not xml"),
        (Stream("s", "t", options={"format": "json"}, line=3), "json needs a list of columns"),
        (Stream("s", "t", "a INT", options={"format": "text"}, line=3), "text has no columns of its own"),
        (Stream("s", "t", options={"format": "avro"}, line=3), "avro needs schema_file"),
        (
            Stream("s", "t", options={"format": "avro", "schema_file": "nowhere"}, line=3),
            "nowhere cannot be read: No such file .*",
        ),
    ],
)
def test_a_format_that_cannot_be_is_refused_with_its_line(stream: Stream, why: str) -> None:
    spark: Any = None
    with pytest.raises(JobError, match=f"^s: {why}$") as raised:
        value_of(spark, stream)
    assert raised.value.line == 3


def in_topic(spark: SparkSession, *values: bytes) -> DataFrame:
    """Records as Spark's source gives them."""
    columns = "key binary, value binary, headers binary, topic string, partition int, offset bigint, timestamp timestamp"
    moment = datetime(1970, 1, 1, tzinfo=UTC)
    return spark.createDataFrame([(b"k", value, None, "t", 0, at, moment) for at, value in enumerate(values)], columns)


@pytest.mark.parametrize(
    ("stream", "value", "found"),
    [
        (Stream("s", "t"), b"\xff", {"value": b"\xff"}),
        (Stream("s", "t", options={"format": "text"}), b"x", {"value": "x"}),
        (Stream("s", "t", "a INT, b STRING"), b'{"a": 1, "b": "x"}', {"a": 1, "b": "x"}),
        (Stream("s", "t", "a INT, b STRING", options={"format": "csv"}), b"1,x", {"a": 1, "b": "x"}),
        (Stream("s", "t", "a INT", options={"bad_records": "null"}), b"bad", {"a": None}),
    ],
)
def test_the_columns_of_a_stream_are_those_of_its_values_and_of_the_record(
    spark: SparkSession, stream: Stream, value: bytes, found: dict[str, Any]
) -> None:
    (row,) = in_columns(spark, stream, in_topic(spark, value)).collect()
    assert {name: row[name] for name in found} == found
    assert row.asDict().keys() - found.keys() == {f"_{name}" for name in FIELDS}
    assert (row["_key"], row["_offset"]) == (b"k", 0)


def test_a_value_that_does_not_fit_fails_the_query_unless_the_stream_says_otherwise(spark: SparkSession) -> None:
    frame = in_columns(spark, Stream("s", "t", "a INT"), in_topic(spark, b"bad"))
    with pytest.raises(Exception, match="MALFORMED_RECORD"):
        frame.collect()


def test_columns_that_are_no_schema_are_refused_with_their_line(spark: SparkSession) -> None:
    with pytest.raises(JobError, match=r"^bad schema of s: ") as raised:
        in_columns(spark, Stream("s", "t", "a NUMBER OF THINGS", line=3), in_topic(spark))
    assert raised.value.line == 3


@pytest.mark.parametrize(
    ("watermark", "why"),
    [
        (("_timestamp", "5 seconds"), None),
        (("nothing", "5 seconds"), "s has no column nothing for its watermark"),
        (("_offset", "5 seconds"), "the watermark of s needs a TIMESTAMP, and _offset is not one"),
        (("_timestamp", "soon"), "the watermark of s is delayed by 'soon', not by an interval"),
    ],
)
def test_a_watermark_is_of_a_timestamp_by_an_interval(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, watermark: tuple[str, str], why: str | None
) -> None:
    asked: list[dict[str, str]] = []

    def read_stream(_cluster: KafkaCluster, _spark: Any, _topic: str, **options: str) -> DataFrame:
        asked.append(options)
        return in_topic(spark, b"x")

    monkeypatch.setattr(KafkaCluster, "read_stream", read_stream)
    stream = Stream("s", "t", watermark=watermark, line=3)
    if why is None:
        assert "value" in open_stream(spark, stream, KafkaCluster({}), "latest", 7).columns
        assert asked == [{"startingOffsets": "latest", "maxOffsetsPerTrigger": "7"}]
    else:
        with pytest.raises(JobError, match=f"^{why}$") as raised:
            open_stream(spark, stream, KafkaCluster({}), "latest", 7)
        assert raised.value.line == 3


def test_a_table_is_read_though_retention_removes_some_of_it(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def read_between(_cluster: KafkaCluster, _spark: Any, *between: Any, **options: str) -> DataFrame:
        asked.append((*between, options))
        return in_topic(spark, b"x")

    monkeypatch.setattr(KafkaCluster, "read_between", read_between)
    table = Stream("s", "t", options={"kafka.a": "1"}, is_table=True)
    assert "value" in open_table(spark, table, KafkaCluster({}), Extent({0: 1}, {0: 5})).columns
    assert asked == [("t", {0: 1}, {0: 5}, {"failOnDataLoss": "false", "kafka.a": "1"})]
