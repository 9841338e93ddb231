"""Starts the streaming queries of a job into its sinks: topics, and tables of files.

    topic      value = the row as JSON, or its column `value` (format text); key and timestamp by the columns that the sink names;
               exactly once (topic_sink.py), or at-least-once by Spark's own sink
    parquet, json, csv   Spark's file sink: a file counts when its name is in the sink's log, so exactly once for Spark's readers
    delta, iceberg       their own streaming writers, exactly once; their packages are given by --packages or --jars. Iceberg's
                         is a path, or with a dot and no slash a table of a catalog that the session has; made if it is not there

`mode` is Spark's output mode: append (a window is written when the watermark has passed it), update or complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError, in_one_line
from ottla.pipeline.sql.job import JobError, Sink, is_exactly_once
from ottla.pipeline.sql.topic_sink import BatchWriter
from ottla.pipeline.tables import check_package, iceberg_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FORMATS: Final = ("json", "text")


def start_query(
    frame: DataFrame, sink: Sink, *, checkpoint: str, cluster: KafkaCluster, tasks: int, once: bool, line: int | None
) -> StreamingQuery:
    """Starts the query of a frame into a sink. Into a topic it writes with `tasks` tasks. Raises JobError if Spark refuses it."""
    from py4j.protocol import Py4JJavaError  # for errors without a class in pyspark
    from pyspark.errors import PySparkException

    if not frame.isStreaming:
        raise JobError(f"nothing in the query into {sink.name} is a stream", line)
    try:
        check_package(frame.sparkSession, sink.kind)
    except PipelineError as error:
        raise JobError(f"query into {sink.name}: {error}", line) from error
    try:
        writer = topic_writer(frame, sink, cluster, tasks, line) if sink.kind == "topic" else table_writer(frame, sink, line)
        writer = writer.queryName(sink.name).outputMode(sink.options.get("mode", "append"))
        writer = writer.option("checkpointLocation", checkpoint)
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
        return writer.toTable(catalog_name(frame.sparkSession, sink)) if sink.kind == "iceberg" else writer.start()
    except (PySparkException, Py4JJavaError) as error:
        raise JobError(f"query into {sink.name}: {in_one_line(error)}", line) from error


def catalog_name(spark: SparkSession, sink: Sink) -> str:
    """Returns the name of an Iceberg sink's table in a catalog; for a path that is a catalog of ours."""
    is_path = "/" in sink.place or "." not in sink.place
    return iceberg_table(spark, sink.place) if is_path else sink.place


def table_writer(frame: DataFrame, sink: Sink, line: int | None) -> DataStreamWriter:
    writer = frame.writeStream.format(sink.kind).options(**passed_on(sink, "spark."))
    columns = [name.strip() for name in sink.options.get("partition_by", "").split(",") if name.strip()]
    for column in columns:
        if column not in frame.columns:
            raise JobError(f"sink {sink.name} is partitioned by {column}, which its query has not", line)
    if columns:
        writer = writer.partitionBy(*columns)
    return writer if sink.kind == "iceberg" else writer.option("path", sink.place)


def topic_writer(frame: DataFrame, sink: Sink, cluster: KafkaCluster, tasks: int, line: int | None) -> DataStreamWriter:
    rows = as_records(frame, sink, line)
    if not is_exactly_once(sink):
        kafka = {**cluster.spark_options(), **passed_on(sink, ""), "topic": sink.place}
        return rows.drop("timestamp_ms").writeStream.format("kafka").options(**kafka)
    return rows.writeStream.foreachBatch(BatchWriter({**cluster.properties, **passed_on(sink, "kafka.")}, sink.place, tasks))


def passed_on(sink: Sink, prefix: str) -> dict[str, str]:
    """Returns the sink's options that are not ottla's: with a prefix only those that have it, without it."""
    own = {key: value for key, value in sink.options.items() if key.startswith(("kafka.", "spark."))}
    return {key.removeprefix(prefix): value for key, value in own.items() if key.startswith(prefix)}


def as_records(frame: DataFrame, sink: Sink, line: int | None) -> DataFrame:
    """Returns the columns key, value (BINARY) and timestamp_ms (BIGINT), null where the sink names no column."""
    from pyspark.sql import functions as F

    kind = sink.options.get("format", "json")
    named = {name: sink.options[name] for name in ("key", "timestamp") if name in sink.options}
    for name, column in [*named.items(), *([("value", "value")] if kind == "text" else [])]:
        if column not in frame.columns:
            raise JobError(f"sink {sink.name}: its query has no column {column} for the {name}", line)
    if kind not in FORMATS:
        raise JobError(f"sink {sink.name}: format is one of {', '.join(FORMATS)}, not {kind}", line)

    def binary(column: str) -> Any:
        is_binary = frame.schema[column].dataType.typeName() == "binary"
        return F.col(column) if is_binary else F.col(column).cast("string").cast("binary")

    whole = F.to_json(F.struct(*[F.col(f"`{name}`") for name in frame.columns]), {"ignoreNullFields": "false"}).cast("binary")
    moment = F.unix_millis(F.col(named["timestamp"])) if "timestamp" in named else F.lit(None).cast("bigint")
    return frame.select(
        (binary(named["key"]) if "key" in named else F.lit(None).cast("binary")).alias("key"),
        (binary("value") if kind == "text" else whole).alias("value"),
        moment.alias("timestamp_ms"),
    )
