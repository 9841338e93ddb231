"""Topics as streaming tables, for a job of `ottla pipeline run`.

A stream becomes a table of its name in Spark. Its columns are those of its schema, taken from each value (json, csv, avro), or
`value` if no schema is given (text as STRING, binary as BINARY), and those of the record: `_key` and `_headers` as they are in
Kafka, `_topic`, `_partition`, `_offset`, `_timestamp`. A schema should not have columns with these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.sql.checkpoint import Extent
from ottla.pipeline.sql.job import JobError, Sink, Stream
from ottla.pipeline.times import ceil_ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS: Final = ("json", "csv", "avro", "text", "binary")
ANSWER_S: Final = 10.0
"""The time that a broker may take to list its topics, in seconds."""
FIELDS: Final = ("key", "headers", "topic", "partition", "offset", "timestamp")


def partitions_of_topics(cluster: KafkaCluster, wanted: Mapping[str, tuple[int, int | None]]) -> dict[str, int]:
    """Returns the number of partitions of each topic. `wanted` has, by topic, the partitions with which to create it (0: it must
    exist) and its line in the job.

    Raises JobError if no broker answers, or if a topic does not exist and is not to be created.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({**cluster.properties, "log_level": 0})
    try:
        there = {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=ANSWER_S).topics.items()}
    except KafkaException as error:
        raise JobError(f"no broker answers at {cluster.bootstrap}: {error.args[0].str()}") from None
    for name, (partitions, line) in wanted.items():
        if name in there:
            continue
        if not partitions:
            raise JobError(f"unknown topic {name} at {cluster.bootstrap}", line)
        try:
            admin.create_topics([NewTopic(name, partitions)])[name].result(timeout=ANSWER_S)
        except KafkaException as error:
            raise JobError(f"topic {name} cannot be created: {error.args[0].str()}", line) from None
        there[name] = partitions
    return {name: there[name] for name in wanted}


def topics_of(steps: list[Any]) -> dict[str, tuple[int, int | None]]:
    """Returns the topics of a job's streams and sinks in the form of the argument of `partitions_of_topics`."""
    wanted: dict[str, tuple[int, int | None]] = {}
    for step in steps:
        if isinstance(step, Stream):
            wanted[step.topic] = (0, step.line)
        elif isinstance(step, Sink) and step.kind == "topic":
            wanted[step.place] = (int(step.options.get("partitions", "0")), step.line)
    return wanted


def extent_now(cluster: KafkaCluster, table: Stream, partitions: int) -> Extent:
    """Returns the present extent of the topic of a table: committed records from where the table begins. Raises JobError if no
    broker answers."""
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    given = table.options.get("from", "earliest")
    if given == "latest":
        raise JobError(f"{table.name}: a table from latest on has no rows", table.line)
    specs: Any = OffsetSpec  # its methods have no types
    first = specs.earliest() if given == "earliest" else specs.for_timestamp(milliseconds(table, given))
    admin = AdminClient({**cluster.properties, "log_level": 0})

    def offsets(spec: OffsetSpec) -> dict[int, int]:
        wanted = {TopicPartition(table.topic, number): spec for number in range(partitions)}
        asked = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_S)
        return {place.partition: future.result().offset for place, future in asked.items()}

    try:
        starts, ends = offsets(first), offsets(specs.latest())
    except KafkaException as error:
        raise JobError(f"offsets of topic {table.topic}: {error.args[0].str()}", table.line) from None
    late = {
        number for number, offset in starts.items() if not 0 <= offset <= ends[number]
    }  # for these no record is as new as that
    return Extent({number: ends[number] if number in late else offset for number, offset in starts.items()}, ends)


def open_table(spark: SparkSession, table: Stream, cluster: KafkaCluster, extent: Extent) -> DataFrame:
    """Returns the table as a DataFrame, with the same rows each time it is read, except for those that retention or compaction
    removes meanwhile."""
    options = {"failOnDataLoss": "false", **passed_on(table)}
    return in_columns(spark, table, cluster.read_between(spark, table.topic, extent.starts, extent.ends, **options))


def open_stream(spark: SparkSession, stream: Stream, cluster: KafkaCluster, begin: str, most: int | None) -> DataFrame:
    """Returns the stream as a DataFrame. `begin` is where it starts, earliest or latest, if neither it nor its checkpoint says
    that. `most` is how many records a micro-batch takes if the stream does not say that, None for all.
    """
    frame = in_columns(spark, stream, cluster.read_stream(spark, stream.topic, **start_options(stream, begin, most)))
    if stream.watermark is None:
        return frame
    column, delay = stream.watermark
    if column not in frame.columns:
        raise JobError(f"{stream.name} has no column {column} for its watermark", stream.line)
    if frame.schema[column].dataType.typeName() not in {"timestamp", "timestamp_ntz"}:
        raise JobError(f"the watermark of {stream.name} needs a TIMESTAMP, and {column} is not one", stream.line)
    try:
        return frame.withWatermark(column, delay)
    except Exception as error:
        raise JobError(f"the watermark of {stream.name} is delayed by {delay!r}, not by an interval", stream.line) from error


def in_columns(spark: SparkSession, stream: Stream, records: DataFrame) -> DataFrame:
    """Returns the columns of a stream, made from the records of Spark's source."""
    from pyspark.sql import functions as F

    fields = [f"_{name}" for name in FIELDS]
    raw = records.select(F.col("value"), *[F.col(name).alias(f"_{name}") for name in FIELDS])
    frame = raw.select(value_of(spark, stream).alias("value"), *fields)
    return frame.select("value.*", *fields) if stream.schema is not None or stream.options.get("format") == "avro" else frame


def passed_on(stream: Stream) -> dict[str, str]:
    """Returns the options of a stream that are passed to the connector unchanged."""
    return {key.removeprefix("spark."): value for key, value in stream.options.items() if key.startswith(("kafka.", "spark."))}


def start_options(stream: Stream, begin: str, most: int | None) -> dict[str, str]:
    """Returns the connector's options of a stream: where it begins, how much it takes at once, and what is passed on as it is."""
    found = passed_on(stream)
    given = stream.options.get("from", begin)
    if given in {"earliest", "latest"}:
        found["startingOffsets"] = given
    else:
        found |= {"startingTimestamp": str(milliseconds(stream, given)), "startingOffsetsByTimestampStrategy": "latest"}
    if rows := stream.options.get("rows_per_batch"):
        if not rows.isdecimal():
            raise JobError(f"{stream.name}: rows_per_batch is a number", stream.line)
        found["maxOffsetsPerTrigger"] = rows
    elif most is not None and "maxoffsetspertrigger" not in map(str.lower, found):
        found["maxOffsetsPerTrigger"] = str(most)
    return found


def milliseconds(stream: Stream, given: str) -> int:
    """Reads a time given as ISO 8601 (in UTC if it has no time zone) or in milliseconds since 1970; returns the latter.

    Raises JobError.
    """
    from datetime import UTC, datetime

    if given.isdecimal():
        return int(given)
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise JobError(f"{stream.name}: from is earliest, latest or a time, not {given!r}", stream.line) from None
    return ceil_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def value_of(spark: SparkSession, stream: Stream) -> Column:
    """Returns the column with the record's value, decoded by the stream's format."""
    from pyspark.sql import functions as F

    kind = stream.options.get("format", "binary" if stream.schema is None else "json")
    bad = "PERMISSIVE" if stream.options.get("bad_records") == "null" else "FAILFAST"
    if kind not in FORMATS:
        raise JobError(f"{stream.name}: format is one of {', '.join(FORMATS)}, not {kind}", stream.line)
    if kind == "avro":
        return avro_value(stream, bad)
    if kind in {"text", "binary"}:
        if stream.schema is not None:
            raise JobError(f"{stream.name}: {kind} has no columns of its own", stream.line)
        return F.col("value").cast("string" if kind == "text" else "binary")
    if stream.schema is None:
        raise JobError(f"{stream.name}: {kind} needs a list of columns", stream.line)
    check_schema(spark, stream)
    text = F.col("value").cast("string")
    if kind == "csv":
        return F.from_csv(text, stream.schema, {"mode": bad})
    return F.from_json(text, stream.schema, {"mode": bad})


def check_schema(spark: SparkSession, stream: Stream) -> None:
    """Raises JobError if Spark does not accept the columns as a schema."""
    from pyspark.errors import PySparkException

    jvm: Any = spark.sparkContext._jvm
    try:
        jvm.org.apache.spark.sql.types.StructType.fromDDL(stream.schema)
    except PySparkException as error:
        from ottla.pipeline.errors import in_one_line

        raise JobError(f"bad schema of {stream.name}: {in_one_line(error)}", stream.line) from None


def avro_value(stream: Stream, bad: str) -> Column:
    """Returns the value decoded by the Avro schema in the file `schema_file`. It must be in Avro's own encoding, without a header
    of a schema registry."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    path = stream.options.get("schema_file")
    if path is None:
        raise JobError(f"{stream.name}: avro needs schema_file", stream.line)
    try:
        schema = Path(path).read_text()
    except OSError as error:
        raise JobError(f"{stream.name}: {path} cannot be read: {error.strerror}", stream.line) from None
    return from_avro(F.col("value"), schema, {"mode": bad})
