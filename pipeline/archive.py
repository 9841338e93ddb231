"""A topic as a table: `ottla pipeline archive`.

    DIR/date=2026-11-21/part-....parquet    the records, by the date of their timestamps (UTC)
    DIR/_spark_metadata/                    which of the files count: Spark's file sink writes it for Spark's readers
    DIR/_checkpoint/                        how far the archive has come
    DIR/_ottla/archive.json                 what it is: {"topic", "value", "schema", "format"}
    DIR/_ottla/began, lock                  when the last run began, by the store's clock; the lock of the run under way

Columns: topic string, partition int, offset long, timestamp (of the record, ms), timestamp_type int (0 create time, 1 append
time), key binary, value binary, headers array<struct<key string, value binary>> (null if there are none), data struct (unpacked
values, see values.py), date.

**Exactly once.** A batch is a range of offsets, recorded in the checkpoint before it is read; its files count once they are all
listed in `_spark_metadata`, by one rename. A driver that dies leaves a batch that is read again, and perhaps files that are not
listed. Spark's readers ignore those; for all other readers they are removed when a run has ended successfully: by then every
batch that was begun before that run has been listed, by whichever run. Later files are left alone. A second run in a local
directory is refused while one is under way; elsewhere there is no lock that dies with its holder.

Delta and Iceberg tables keep such lists themselves, with the number of the batch in each of their commits, and skip a batch that
they already have; the checkpoint is in the same place. DIR is the Delta table, DIR/TOPIC the Iceberg table (tables.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline import tables
from ottla.pipeline import values as values_
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError, UsageError
from ottla.pipeline.files import STATE, Files
from ottla.pipeline.signals import told_to_stop
from ottla.pipeline.values import Values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FORMATS: Final = ("parquet", "delta", "iceberg")
_WHAT: Final = f"{STATE}/archive.json"
_BEGAN: Final = f"{STATE}/began"
_FILE: Final = re.compile("^file:/+")
_WAIT_S: Final = 1
COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestampType AS timestamp_type", "key", "value", "headers")
DATE: Final = "to_date(to_utc_timestamp(timestamp, current_timezone())) AS date"
"""The date in UTC, wherever the job runs."""
_FIRST_SIGN: Final = {"parquet": "_spark_metadata", "delta": "_delta_log", "iceberg": "{topic}/metadata"}
"""The directory that exists as soon as a table does, even if the table is empty."""


@dataclass(frozen=True)
class Archive:
    """Says what to archive, where, and how."""

    cluster: KafkaCluster
    topic: str
    directory: str
    kind: str = "raw"
    schema: str | None = None
    """The schema as the user gave it."""
    sample: int = 10_000
    """From how many records a schema is inferred."""
    table: str = "parquet"
    continuous: bool = False
    interval_s: float = 10.0
    batch_records: int | None = None
    committed: bool = True
    allow_loss: bool = False
    """True to go on if records were deleted before they were archived."""


@dataclass
class Totals:
    records: int = 0
    batches: int = 0
    seen: int = -1
    orphans: int = 0
    """The number of files left by a killed driver that were removed."""
    stopped_by: Signals | None = None
    """The signal that ended the run, None if none did."""


def check(plan: Archive) -> None:
    """Checks what can be checked before Spark has started. Raises UsageError."""
    values_.check_given(plan.kind, plan.schema)
    if plan.table not in FORMATS:
        raise UsageError(f"--format: {plan.table} is not one of {', '.join(FORMATS)}")


def conf(plan: Archive) -> dict[str, str]:
    """Returns the configuration that a session must be started with for the table's format, besides its packages."""
    return tables.conf_for(plan.table)


def conf_of(directory: str) -> dict[str, str]:
    """Returns the same for an archive that exists. If it is not local, only Spark could read its format; then the session follows
    the packages that it is given (session.settings)."""
    try:
        what = json.loads((Path(_FILE.sub("/", directory)) / _WHAT).read_text())
    except (OSError, ValueError):  # read() reports it, with Spark
        return {}
    return tables.conf_for(what["format"])


def run(spark: SparkSession, plan: Archive, tell: Callable[[str], None]) -> Totals:
    """Archives what there is, or goes on for ever; SIGINT and SIGTERM end either. Every batch is reported in one line. Raises
    PipelineError if another run is at work in the same local directory.
    """
    tables.check_package(spark, plan.table)
    files = Files(spark, plan.directory)
    with files.alone():
        return _run(spark, plan, files, tell)


def _run(spark: SparkSession, plan: Archive, files: Files, tell: Callable[[str], None]) -> Totals:
    values = settle_values(spark, plan, files)
    began_ms = files.mark(_BEGAN)
    totals = Totals()
    query = start(spark, plan, values)
    with told_to_stop(lambda: [query]) as stop:
        while not query.awaitTermination(_WAIT_S) and not stop.is_set():
            count(query, totals, tell)
    count(query, totals, tell)
    totals.stopped_by = stop.signal
    if stop.is_set():  # perhaps within a batch, which the next run reads again
        return totals
    if plan.table == "parquet" and files.exists("_spark_metadata"):
        totals.orphans = remove_orphans(spark, plan.directory, files, began_ms)
    return totals


def settle_values(spark: SparkSession, plan: Archive, files: Files) -> Values:
    """Returns how values are unpacked in this directory: as its archive.json says, which the first run writes."""
    wanted = {"topic": plan.topic, "value": plan.kind, "format": plan.table}
    there = files.read_json(_WHAT)
    if there is not None:
        for name, value in wanted.items():
            if there[name] != value:
                raise PipelineError(
                    f"{plan.directory} is an archive with {name} {there[name]}, not {value}; take another directory"
                )
    if plan.kind == "raw":
        schema = ""
    elif plan.schema is not None:
        text = values_.text_of(plan.schema)
        schema = values_.struct_of(text).json() if plan.kind == "json" else values_.avro_schema(text)
    elif there is not None:
        schema = there["schema"]
    else:
        sample = plan.cluster.read(spark, plan.topic, plan.committed).limit(plan.sample)
        schema = values_.inferred(spark, sample).json()
    if there is None:
        try:
            files.write_json(_WHAT, {**wanted, "schema": schema}, replace=False)
        except OSError as error:
            raise PipelineError(f"{error}: is there another run?") from None
    elif there["schema"] != schema:
        raise PipelineError(f"{plan.directory} is an archive by another schema; take another directory")
    return Values(plan.kind, schema)


def table(spark: SparkSession, plan: Archive, values: Values) -> DataFrame:
    """Returns the stream of rows, with the columns of the archive."""
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false" if plan.allow_loss else "true"}
    if plan.batch_records is not None:
        options["maxOffsetsPerTrigger"] = str(plan.batch_records)
    stream = plan.cluster.read_stream(spark, plan.topic, plan.committed, **options)
    data = values.column()
    unpacked = stream if data is None else stream.withColumn("data", data)
    extra = () if data is None else ("data",)
    return unpacked.selectExpr(*COLUMNS, *extra, DATE)


def start(spark: SparkSession, plan: Archive, values: Values) -> StreamingQuery:
    writer = table(spark, plan, values).writeStream.queryName(f"archive {plan.topic}")
    writer = writer.option("checkpointLocation", f"{plan.directory}/_checkpoint")
    every = f"{plan.interval_s} seconds"
    writer = writer.trigger(processingTime=every) if plan.continuous else writer.trigger(availableNow=True)
    if plan.table == "iceberg":
        return writer.partitionBy("date").format("iceberg").toTable(_iceberg_table(spark, plan.directory, plan.topic))
    return writer.partitionBy("date").format(plan.table).option("path", plan.directory).start()


def count(query: StreamingQuery, totals: Totals, tell: Callable[[str], None]) -> None:
    """Adds up and reports the batches that have ended since the last call."""
    recent: Any = query.recentProgress
    for progress in recent:
        if progress["batchId"] <= totals.seen or not progress["numInputRows"]:
            continue
        totals.seen = progress["batchId"]
        totals.batches += 1
        totals.records += progress["numInputRows"]
        tell(f"batch {totals.seen}: {progress['numInputRows']:,} records, {progress.get('processedRowsPerSecond', 0):,.0f}/s")


def remove_orphans(spark: SparkSession, directory: str, files: Files, began_ms: int) -> int:
    """Removes data files that no batch lists, and returns how many. Files since `began_ms`, by the store's clock, stay: a run
    that began meanwhile may be about to list them."""
    lying = files.data_files()  # before the list is read, so that a file which is listed later is not among them
    listed = {name.split("/date=")[-1] for name in listed_files(spark, directory)}
    orphans = [address for address, modified_ms in lying if modified_ms < began_ms and address.split("/date=")[-1] not in listed]
    for address in orphans:
        files.delete(address)
    return len(orphans)


def listed_files(spark: SparkSession, directory: str) -> list[str]:
    """Returns the files that count. It passes a schema, because none can be inferred if there are no files."""
    return list(spark.read.schema("offset BIGINT, date DATE").parquet(directory).inputFiles())


def read(spark: SparkSession, directory: str) -> tuple[DataFrame, dict[str, Any]]:
    """Returns an archive's rows and the content of its archive.json. Raises PipelineError if the directory is not an archive, or
    has no records yet."""
    files = Files(spark, directory)
    what = files.read_json(_WHAT)
    if what is None:
        raise PipelineError(f"{directory} is not an archive of ottla: it has no {_WHAT}")
    tables.check_package(spark, what["format"])
    rows = None
    if files.exists(_FIRST_SIGN[what["format"]].format(topic=what["topic"])):
        rows = _rows(spark, directory, what)
    if rows is None:
        raise PipelineError(f"{directory} has no records yet")
    return rows, what


def _rows(spark: SparkSession, directory: str, what: dict[str, Any]) -> DataFrame | None:
    """Returns the rows of an existing table, or None if it is empty."""
    if what["format"] == "parquet":  # by its list, for no schema can be inferred without files
        return spark.read.parquet(directory) if listed_files(spark, directory) else None
    if what["format"] == "delta":
        rows = spark.read.format("delta").load(directory)
    else:
        rows = spark.table(_iceberg_table(spark, directory, what["topic"]))
    return None if rows.isEmpty() else rows


def _iceberg_table(spark: SparkSession, directory: str, topic: str) -> str:
    return tables.iceberg_table(spark, f"{directory}/{topic}")
