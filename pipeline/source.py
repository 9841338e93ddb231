"""`format("ottla")`: segments as a table, read by Spark without a broker, in batches and as a stream.

    spark.dataSource.register(OttlaDataSource)
    spark.read.format("ottla").option("columns", "offset,timestamp").load("/var/lib/ottla/flights")

The path is a log directory (ottla's or Apache Kafka's), one partition's directory in it, or `<log directory>/<topic>`; there may
be several, in a list or separated by commas, and patterns. With directories of several brokers of a cluster, each partition is
read once (data_source/replicas.py). Driver and executors must see the same files. The schema is that of Spark's kafka source;
data_source/options.py describes the options. `data_source/readers.py` plans a query, with one task for each slice of a segment;
`data_source/columns.py` reads the slices.

A stream's offsets are {"topic": {"0": next offset}}, as the kafka source writes them; a micro-batch is exactly what lies between
two of them, so a query that starts again at its checkpoint reads the same rows. It begins at `startingOffsets` (by default
latest); partitions that appear later are read from their start. Offsets that are gone are an error (`failOnDataLoss`): they were
removed before they were read, or the log ends before what was read of it. A partition that is away for a while (because it moves
to another log directory) continues where it was, even if the query is restarted meanwhile: then Spark plans an empty batch at the
query's position before it asks for the end. `maxOffsetsPerTrigger` limits a micro-batch if Spark supports that for Python sources
(data_source/limits.py).

With the directories of one broker, all that is in the log counts as readable, even above the high watermark of a replicated
partition: whether it has other replicas, a directory does not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from ottla.pipeline.data_source.limits import REFUSED
from ottla.pipeline.data_source.options import parse
from ottla.pipeline.data_source.readers import FilteringReader, Reader, StreamReader, wanted_partitions
from ottla.pipeline.data_source.segments import SourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SQL_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}


class OttlaDataSource(DataSource):
    """The data source `ottla`. Mistakes in options and paths are reported when `load` is called."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        options = parse(self.options)
        wanted_partitions(options)
        return ", ".join(f"`{name}` {_SQL_TYPES[name]}" for name in options.columns)

    def reader(self, schema: StructType) -> Reader:
        options = parse(self.options)
        return (FilteringReader if options.push_filters else Reader)(options, _columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = parse(self.options)
        for name, value in (("endingOffsets", options.ending), ("endingTimestamp", options.ending_timestamp)):
            if value is not None:
                raise SourceError(f"{name} is for batch queries; a stream has no end")
        if options.max_offsets is None:
            return StreamReader(options, _columns(schema))
        try:
            from ottla.pipeline.data_source.admission import LimitedStreamReader
        except ImportError:  # it imports what exists only from Spark 4.2 on
            raise SourceError(REFUSED) from None
        return LimitedStreamReader(options, _columns(schema))


def _columns(schema: StructType) -> tuple[str, ...]:
    """Returns the columns of a schema, which the user may have given; only these are made. Raises SourceError."""
    for column in schema.fields:
        if column.name not in _SQL_TYPES:
            raise SourceError(f"the schema's column {column.name!r} is not one of {', '.join(_SQL_TYPES)}")
        known = _SQL_TYPES[column.name].replace(" ", "")
        if column.dataType.simpleString() != known:
            raise SourceError(f"the schema's column {column.name} is {column.dataType.simpleString()}; it must be {known}")
    return tuple(column.name for column in schema.fields)


def register(spark: SparkSession) -> None:
    """Makes `format("ottla")` known to a session."""
    spark.dataSource.register(OttlaDataSource)
