"""Spark's `format("kafka")`: batch and streaming, read and write, against ottla and against Apache Kafka.

Spark never joins a group and never commits: it assigns partitions, asks ListOffsets through an admin client and fetches in
sessions; its sink is an idempotent producer with many small requests. One session serves all tests of this file.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from compat_tests.times import TODAY_MS
from compat_tests.topics import make_topics

pytestmark = pytest.mark.spark

STREAM_TIMEOUT_S = 120


def unique(stem: str) -> str:
    return f"{stem}-{uuid.uuid4().hex[:10]}"


def create_topic(bootstrap: str, stem: str, partitions: int = 3) -> str:
    name = unique(stem)
    make_topics(bootstrap, partitions, name)
    return name


def produce(bootstrap: str, topic: str, rows: list[tuple[int, str, str, int]]) -> None:
    """Rows of (partition, key, value, timestamp in ms)."""
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for partition, key, value, timestamp_ms in rows:
        producer.produce(
            topic,
            partition=partition,
            key=key,
            value=value,
            timestamp=timestamp_ms,
            on_delivery=lambda e, _m: failed.append(e) if e else None,
        )
    assert producer.flush(30) == 0
    assert not failed


def read(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    frame = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**options).load()
    return frame.select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        F.col("key").cast("string").alias("key"),
        F.col("value").cast("string").alias("value"),
    )


def values(frame: DataFrame) -> list[str]:
    return sorted(row.value for row in frame.select("value").collect())


def test_what_a_batch_job_writes_a_batch_job_reads(spark: SparkSession, bootstrap: str) -> None:
    topic = create_topic(bootstrap, "spark-batch")
    header = F.array(F.struct(F.lit("origin").alias("key"), F.lit(b"test").alias("value")))
    frame = spark.range(5000).select(
        (F.col("id") % 17).cast("string").alias("key"), F.concat(F.lit("v"), F.col("id")).alias("value"), header.alias("headers")
    )
    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()

    loaded = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
        .select("partition", "offset", F.col("key").cast("string"), F.col("value").cast("string"), "headers")
        .collect()
    )
    assert sorted((row.key, row.value) for row in loaded) == sorted((str(i % 17), f"v{i}") for i in range(5000))
    assert {(h.key, bytes(h.value)) for row in loaded for h in row.headers} == {("origin", b"test")}
    for partition in range(3):  # offsets without a gap, and a key in one partition only
        offsets = sorted(row.offset for row in loaded if row.partition == partition)
        assert offsets == list(range(len(offsets)))
    assert len({(row.key, row.partition) for row in loaded}) == 17


def test_batch_read_from_timestamps(spark: SparkSession, bootstrap: str) -> None:
    topic = create_topic(bootstrap, "spark-times", partitions=2)
    start_ms = TODAY_MS
    produce(bootstrap, topic, [(i % 2, str(i), f"v{i}", start_ms + i * 1000) for i in range(100)])

    later = read(spark, bootstrap, subscribe=topic, startingTimestamp=str(start_ms + 40_000))
    assert values(later) == sorted(f"v{i}" for i in range(40, 100))
    between = read(
        spark,
        bootstrap,
        subscribe=topic,
        startingOffsetsByTimestamp=json.dumps({topic: {"0": start_ms + 10_000, "1": start_ms + 10_000}}),
        endingOffsetsByTimestamp=json.dumps({topic: {"0": start_ms + 20_000, "1": start_ms + 20_000}}),
    )
    assert values(between) == sorted(f"v{i}" for i in range(10, 20))
    at = {row.value: row.timestamp for row in later.collect()}
    assert int(at["v41"].timestamp() * 1000) == start_ms + 41_000


def test_subscribe_pattern_finds_the_matching_topics_only(spark: SparkSession, bootstrap: str) -> None:
    stem = unique("spark-pattern")
    names = [f"{stem}.orders.eu", f"{stem}.orders.us", f"{stem}.refunds"]
    make_topics(bootstrap, 1, *names)
    for name in names:
        produce(bootstrap, name, [(0, "k", name, TODAY_MS)])

    frame = read(spark, bootstrap, subscribePattern=f"{stem}[.]orders[.].*")
    assert values(frame) == names[:2]


def test_assign_reads_the_given_partitions_and_offsets(spark: SparkSession, bootstrap: str) -> None:
    topic = create_topic(bootstrap, "spark-assign")
    produce(bootstrap, topic, [(p, str(p), f"p{p}-{i}", TODAY_MS) for p in range(3) for i in range(10)])

    frame = read(
        spark,
        bootstrap,
        assign=json.dumps({topic: [0, 2]}),
        startingOffsets=json.dumps({topic: {"0": 4, "2": -2}}),
        endingOffsets=json.dumps({topic: {"0": 7, "2": -1}}),
    )
    assert values(frame) == sorted([f"p0-{i}" for i in range(4, 7)] + [f"p2-{i}" for i in range(10)])


def test_read_committed_and_many_tasks_for_one_partition(spark: SparkSession, bootstrap: str) -> None:
    topic = create_topic(bootstrap, "spark-tasks", partitions=1)
    produce(bootstrap, topic, [(0, str(i), f"v{i}", TODAY_MS) for i in range(3000)])

    frame = read(spark, bootstrap, subscribe=topic, minPartitions="4", **{"kafka.isolation.level": "read_committed"})
    assert frame.rdd.getNumPartitions() >= 4
    assert values(frame) == sorted(f"v{i}" for i in range(3000))


def run_stream(query: Any) -> None:
    assert query.awaitTermination(STREAM_TIMEOUT_S), "the stream did not end in time"
    assert query.exception() is None


def test_stream_to_files_goes_on_from_its_checkpoint(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topic = create_topic(bootstrap, "spark-stream")

    def run_once() -> None:
        stream = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "700")
            .load()
            .select("partition", "offset", F.col("value").cast("string").alias("value"))
        )
        run_stream(
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    produce(bootstrap, topic, [(i % 3, str(i), f"a{i}", TODAY_MS) for i in range(2000)])
    run_once()
    first = values(spark.read.parquet(str(tmp_path / "out")))
    assert first == sorted(f"a{i}" for i in range(2000))
    produce(bootstrap, topic, [(i % 3, str(i), f"b{i}", TODAY_MS) for i in range(500)])
    run_once()
    both = spark.read.parquet(str(tmp_path / "out"))
    assert values(both) == sorted(first + [f"b{i}" for i in range(500)])  # no loss, and nothing twice
    assert both.select("partition", "offset").distinct().count() == 2500


def test_stream_from_topic_to_topic_with_a_starting_timestamp(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    source, target = create_topic(bootstrap, "spark-from"), create_topic(bootstrap, "spark-to")
    start_ms = TODAY_MS
    produce(bootstrap, source, [(i % 3, str(i), f"v{i}", start_ms + i * 1000) for i in range(900)])

    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingTimestamp", str(start_ms + 300_000))
        .load()
        .select("key", F.upper(F.col("value").cast("string")).alias("value"))
    )
    run_stream(
        stream.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert values(read(spark, bootstrap, subscribe=target)) == sorted(f"V{i}" for i in range(300, 900))
