"""Proves that nothing was lost: `ottla pipeline audit`, a batch job over a topic, alone or compared with a copy of it.

First comes a snapshot of the topic: the offsets between which every partition is read. The result is a list of `Finding`s, each
of which is a difference; if there are none, the topic is complete.

| kind | | |---|---| | gap | offsets without a record that neither a transaction's marker, an aborted record nor compaction
explains | | double | an offset (of an archive) or an identity (`id_expression`) that occurs more than once | | order | a record
before one with a smaller value of `order_expression`; or at another place than on the other side | | missing | a record of the
topic that the other side does not have | | extra | one that only the other side has | | changed | the same offset with another
key, value, headers or timestamp |

**Comparison.** Both sides are added up by partition and bucket of time: the number of records and the sum of their checksums,
xxhash64 of key, value, headers and timestamp. Only buckets that differ are compared record by record. An archive of the same
topic is compared by offset, which is part of the checksums then; another topic, or what was replayed, has its own offsets and is
compared by content: each partition as a bag of records, and, if the bags are equal, their order.

What the topic no longer keeps (retention) is not compared: an archive counts from the topic's first offset.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import UsageError, in_one_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Bounds = Mapping[int, tuple[int, int]]
"""For each partition its first offset, and the one after the last."""

COLUMNS: Final = ("Kind", "Partition", "From", "To", "Records", "Detail")
BUCKET_MS: Final = 3_600_000
_NUMBER: Final = r"^\s*[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\s*$"
_DECIMAL: Final = "DECIMAL(38,18)"
"""The type that is exact for every long and 18 digits after the decimal point; numbers that do not fit become doubles."""
_FIELD: Final = re.compile(r"^\s*(key|value):(\w+(?:\.\w+)*)\s*$")


class Finding(NamedTuple):
    """A difference. Offsets are inclusive, and -1 if the topic has none (a record that only the other side has)."""

    kind: str
    partition: int
    first: int
    last: int
    records: int
    detail: str


class Gap(NamedTuple):
    """A range of offsets, both ends inclusive, without a record for readers of committed records."""

    partition: int
    first: int
    last: int


@dataclass(frozen=True)
class Audit:
    """Says what an audit looks for."""

    bucket_ms: int = BUCKET_MS
    id_expression: str | None = None
    """Spark SQL over key and value (as text), partition, offset, timestamp, headers, whose value must occur only once."""
    order_expression: str | None = None
    """The same, for a value that must not decrease within a partition."""
    allow_gaps: bool = False
    """True if offsets without a record are not a finding, because the topic is compacted or the user says so."""
    limit: int = 1000
    """The most findings of each kind that are listed."""

    @property
    def most(self) -> int:
        """Returns how many findings of each kind are searched for: one more than are listed, to know whether there are more."""
        return self.limit + 1


def of_topic(spark: SparkSession, cluster: KafkaCluster, topic: str, bounds: Bounds) -> DataFrame:
    """Returns the committed records between the bounds, in the columns with which all functions here work."""
    starts, ends = ({partition: pair[i] for partition, pair in bounds.items()} for i in range(2))
    return canonical(cluster.read_between(spark, topic, starts, ends))


def canonical(rows: DataFrame) -> DataFrame:
    """Returns the rows of a topic or an archive as partition, offset, ms, key, value, headers and `sum`, the checksum."""
    from pyspark.sql import functions as F

    headers = F.coalesce(F.transform("headers", _header), F.array().cast("array<string>"))
    parts: list[Column] = [F.unix_millis("timestamp"), headers]
    for name in ("key", "value"):  # hashing skips nulls, so a null is marked
        parts += [F.col(name).isNull(), F.col(name)]
    return rows.select(
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("ms"),
        "key",
        "value",
        "headers",
        F.xxhash64(*parts).alias("sum"),
    )


def _header(header: Column) -> Column:
    from pyspark.sql import functions as F

    return F.concat(header["key"], F.lit("="), F.coalesce(F.hex(header["value"]), F.lit("null")))


def buckets(rows: DataFrame, bucket_ms: int, *, with_offsets: bool = False) -> DataFrame:
    """Returns the records and checksums by partition and span of time; `with_offsets`: a record's offset is part of its checksum,
    so that records which have changed places are not equal."""
    from pyspark.sql import functions as F

    start = (F.floor(F.col("ms") / bucket_ms) * bucket_ms).cast("long").alias("start_ms")
    one = F.xxhash64("offset", "sum") if with_offsets else F.col("sum")
    total = F.sum(one.cast("decimal(38,0)")).cast("string").alias("checksum")
    return rows.groupBy("partition", start).agg(F.count("*").alias("records"), total)


def gaps(spark: SparkSession, rows: DataFrame, bounds: Bounds) -> Iterator[Gap]:
    """Yields the offsets within the bounds that have no record, of one partition after the other, ascending.

    They are never all in memory: each transaction leaves one, so there may be as many as records.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    ends = [(partition, offset) for partition, (first, end) in bounds.items() for offset in (first - 1, end)]
    if not ends:
        return
    places = rows.select("partition", "offset").union(spark.createDataFrame(ends, "partition int, offset bigint"))
    places = places.repartitionByRange(
        "partition"
    )  # otherwise the window would partition by hash, and the partitions would come in any order
    order = Window.partitionBy("partition").orderBy("offset")
    found = places.withColumn("before", F.lag("offset").over(order)).where("offset > before + 1")
    for row in found.selectExpr("partition", "before + 1", "offset - 1").toLocalIterator():
        yield Gap(*row)


def doubles(rows: DataFrame, column: str, what: str, most: int) -> list[Finding]:
    """Returns the values of the column that more than one record has; null does not count. If all records of a value are in one
    partition, the finding extends to the last of them."""
    from pyspark.sql import functions as F

    place = F.struct("partition", "offset")
    counted = rows.where(F.col(column).isNotNull()).groupBy(column)
    several = counted.agg(F.count("*").alias("n"), F.min(place).alias("first"), F.max(place).alias("last")).where("n > 1")
    found = []
    for row in several.orderBy("first").limit(most).collect():
        (partition, first), (other, last) = row["first"], row["last"]
        detail, to = f"{what} {row[column]}", last
        if other != partition:
            detail, to = f"{detail}, the last in partition {other} at offset {last}", first
        found.append(Finding("double", partition, first, to, row["n"] - 1, detail))
    return found


def out_of_order(rows: DataFrame, column: str, most: int) -> list[Finding]:
    """Returns the records that come after one of the same partition with a greater value in the column."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    before = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    both = rows.withColumn("both", F.struct(_comparable(rows, column).alias("value"), F.col(column).alias("shown")))
    valued = both.where(F.col(column).isNotNull()).withColumn("greatest", F.max("both").over(before))
    behind = valued.where(F.col("both.value") < F.col("greatest.value"))
    found = behind.orderBy("partition", "offset").limit(most).collect()
    shown = ((row["partition"], row["offset"], f"{row[column]} behind {row['greatest']['shown']}") for row in found)
    return [Finding("order", partition, offset, offset, 1, detail) for partition, offset, detail in shown]


def _comparable(rows: DataFrame, column: str) -> Column:
    """Returns the column, as numbers if it is text and every value is a number: to Spark a field of JSON is text, by which 10
    comes before 9."""
    from pyspark.sql import functions as F

    if rows.schema[column].dataType.typeName() != "string":
        return F.col(column)
    decimal, double = (F.expr(f"try_cast({column} AS {kind})") for kind in (_DECIMAL, "DOUBLE"))
    number = F.when(F.col(column).rlike(_NUMBER), double)
    counts = rows.where(F.col(column).isNotNull()).agg(F.count("*"), F.count(number), F.count(decimal))
    all_, numbers, decimals = counts.collect()[0]
    if numbers < all_:
        return F.col(column)
    return double if decimals < all_ else decimal


def evaluated(rows: DataFrame, expression: str) -> DataFrame:
    """Returns the columns partition, offset and `found`, the user's expression. Raises UsageError in one line if Spark cannot
    make a column of it.

    `value:id` and `key:a.b` stand for fields of JSON, for which Spark 4.0 has no such short form.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    text = [F.col(name).cast("string").alias(name) for name in ("key", "value")]
    view = rows.select("partition", "offset", F.timestamp_millis("ms").alias("timestamp"), "headers", *text)
    try:
        column = _FIELD.sub(r"get_json_object(\1, '$.\2')", expression)
        return view.selectExpr("partition", "offset", f"{column} AS found")
    except PySparkException as error:
        raise UsageError(f"{expression!r} is not an expression over the records: {in_one_line(error)}") from None


def alone(
    spark: SparkSession, rows: DataFrame, plan: Audit, bounds: Bounds, explain: Callable[[Iterable[Gap]], Iterator[Gap]]
) -> list[Finding]:
    """Returns what is wrong with the topic itself. `explain` returns the gaps that neither markers nor aborted records
    explain."""
    found: list[Finding] = []
    if not plan.allow_gaps:
        what = "offsets without a record"
        left = islice(explain(gaps(spark, rows, bounds)), plan.most)
        found += [Finding("gap", p, first, last, last - first + 1, what) for p, first, last in sorted(left)]
    if plan.id_expression is not None:
        found += doubles(evaluated(rows, plan.id_expression), "found", "identity", plan.most)
    if plan.order_expression is not None:
        found += out_of_order(evaluated(rows, plan.order_expression), "found", plan.most)
    return found


def listed(found: list[Finding], limit: int) -> tuple[list[Finding], tuple[str, ...]]:
    """Returns the first `limit` findings of each kind, and the kinds of which there are more."""
    seen: Counter[str] = Counter()
    first = []
    for one in found:
        seen[one.kind] += 1
        if seen[one.kind] <= limit:
            first.append(one)
    return first, tuple(kind for kind, count in seen.items() if count > limit)
