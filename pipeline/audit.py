"""Proof that nothing was lost: `ottla pipeline audit`, a batch job over a topic, alone or against something that holds the same.

A snapshot is taken of the topic first: the offsets between which every partition is read. What is found is a list of `Finding`s,
and each is a difference; none means: complete.

| kind | |
|---|---|
| gap | offsets without a record, where neither a transaction's marker, an aborted record nor compaction accounts for them |
| double | an offset that is there more than once (an archive), or an identity that is (`id_expression`) |
| order | a record that stands before one with a smaller value of `order_expression`; or in the other's order |
| missing | a record of the topic that the other side has not |
| extra | one that only the other side has |
| changed | the same offset with another key, value, headers or timestamp |

**Against another.** Both sides are added up by partition and bucket of time: records and the sum of their checksums, xxhash64 of
key, value, headers and timestamp. Only buckets that differ are looked at record by record. An archive of the same topic is
compared by offset; what has its own offsets, another topic or what was replayed, by content: each partition as a bag of records,
and if the bags are equal, their order.

What the topic does not keep any more (retention) is not asked of it: an archive counts from the topic's first offset.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import UsageError, in_one_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Bounds = Mapping[int, tuple[int, int]]
"""Partition: its first offset, and the one after the last."""

COLUMNS: Final = ("Kind", "Partition", "From", "To", "Records", "Detail")
BUCKET_MS: Final = 3_600_000
_FIELD: Final = re.compile(r"^\s*(key|value):(\w+(?:\.\w+)*)\s*$")


class Finding(NamedTuple):
    """A difference. Offsets are inclusive; -1 where the topic has none (a record that only the other side has)."""

    kind: str
    partition: int
    first: int
    last: int
    records: int
    detail: str


class Gap(NamedTuple):
    """Offsets without a record that is seen by who reads committed ones; both ends inclusive."""

    partition: int
    first: int
    last: int


@dataclass(frozen=True)
class Audit:
    """What to look for."""

    bucket_ms: int = BUCKET_MS
    id_expression: str | None = None
    """Spark SQL over key and value (as text), partition, offset, timestamp, headers: what must be there once."""
    order_expression: str | None = None
    """The same: what must not fall within a partition."""
    allow_gaps: bool = False
    """The topic is compacted, or the user says so: offsets without a record are none."""
    limit: int = 1000
    """Findings of a kind that are listed."""

    @property
    def most(self) -> int:
        """Findings of a kind that are looked for: one more than are listed tells that there are more."""
        return self.limit + 1


class Buckets(NamedTuple):
    """What a partition holds within a span of time."""

    partition: int
    start_ms: int
    records: int
    checksum: str


def of_topic(spark: SparkSession, cluster: KafkaCluster, topic: str, bounds: Bounds) -> DataFrame:
    """The records between the bounds, committed ones only, in the columns that all here work with."""
    options = {
        name: json.dumps({topic: {str(partition): pair[i] for partition, pair in bounds.items()}})
        for i, name in enumerate(("startingOffsets", "endingOffsets"))
    }
    return canonical(cluster.read(spark, topic, **options))


def canonical(rows: DataFrame) -> DataFrame:
    """partition, offset, ms, key, value, headers and `sum`, the checksum; of what a topic or an archive has."""
    from pyspark.sql import functions as F

    headers = F.coalesce(F.transform("headers", _header), F.array().cast("array<string>"))
    parts: list[Column] = [F.unix_millis("timestamp"), headers]
    for name in ("key", "value"):  # hashing passes over nulls: say that there is one
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


def buckets(rows: DataFrame, bucket_ms: int) -> DataFrame:
    """Records and checksums by partition and span of time."""
    from pyspark.sql import functions as F

    start = (F.floor(F.col("ms") / bucket_ms) * bucket_ms).cast("long").alias("start_ms")
    total = F.sum(F.col("sum").cast("decimal(38,0)")).cast("string").alias("checksum")
    return rows.groupBy("partition", start).agg(F.count("*").alias("records"), total)


def gaps(rows: DataFrame, bounds: Bounds) -> list[Gap]:
    """Offsets within the bounds that have no record."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy("partition").orderBy("offset")
    before = rows.select("partition", "offset", F.lag("offset").over(order).alias("before"))
    found = [Gap(row["partition"], row["before"] + 1, row["offset"] - 1) for row in before.where("offset > before + 1").collect()]
    ends = rows.groupBy("partition").agg(F.min("offset").alias("low"), F.max("offset").alias("high")).collect()
    held = {row["partition"]: (row["low"], row["high"]) for row in ends}
    for partition, (first, end) in bounds.items():
        low, high = held.get(partition, (end, end))
        if low > first:
            found.append(Gap(partition, first, low - 1))
        if high + 1 < end:
            found.append(Gap(partition, high + 1, end - 1))
    return sorted(found)


def doubles(rows: DataFrame, column: str, what: str, most: int) -> list[Finding]:
    """Values of the column that more than one record has; null is none."""
    from pyspark.sql import functions as F

    place = F.struct("partition", "offset")
    counted = rows.where(F.col(column).isNotNull()).groupBy(column)
    several = counted.agg(F.count("*").alias("n"), F.min(place).alias("first"), F.max(place).alias("last")).where("n > 1")
    return [
        Finding("double", row["first"][0], row["first"][1], row["last"][1], row["n"] - 1, f"{what} {row[column]}")
        for row in several.orderBy("first").limit(most).collect()
    ]


def out_of_order(rows: DataFrame, column: str, most: int) -> list[Finding]:
    """Records that stand behind one of their partition with a greater value in the column."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    before = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    behind = rows.withColumn("greatest", F.max(column).over(before)).where(F.col(column) < F.col("greatest"))
    found = behind.orderBy("partition", "offset").limit(most).collect()
    return [Finding("order", r["partition"], r["offset"], r["offset"], 1, f"{r[column]} behind {r['greatest']}") for r in found]


def evaluated(rows: DataFrame, expression: str) -> DataFrame:
    """partition, offset and `found`, the user's expression. UsageError in one line if Spark cannot make a column of it.

    `value:id` and `key:a.b` are fields of JSON, which Spark 4.0 cannot say so shortly.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    text = [F.col(name).cast("string").alias(name) for name in ("key", "value")]
    view = rows.select("partition", "offset", F.timestamp_millis("ms").alias("timestamp"), "headers", *text)
    try:
        column = _FIELD.sub(r"get_json_object(\1, '$.\2')", expression)
        return view.selectExpr("partition", "offset", f"{column} AS found")
    except PySparkException as error:
        raise UsageError(f"{expression!r} is no expression over the records: {in_one_line(error)}") from None


def alone(rows: DataFrame, plan: Audit, bounds: Bounds, explain: Callable[[list[Gap]], list[Gap]]) -> list[Finding]:
    """What is wrong with the topic itself. `explain` gives back those gaps that neither markers nor aborted records fill."""
    found: list[Finding] = []
    holes = [] if plan.allow_gaps else explain(gaps(rows, bounds))
    what = "offsets without a record"
    found += [Finding("gap", p, first, last, last - first + 1, what) for p, first, last in holes[: plan.most]]
    if plan.id_expression is not None:
        found += doubles(evaluated(rows, plan.id_expression), "found", "identity", plan.most)
    if plan.order_expression is not None:
        found += out_of_order(evaluated(rows, plan.order_expression), "found", plan.most)
    return found


def listed(found: list[Finding], limit: int) -> tuple[list[Finding], tuple[str, ...]]:
    """The first so many of each kind, and the kinds of which there are more."""
    seen: Counter[str] = Counter()
    first = []
    for one in found:
        seen[one.kind] += 1
        if seen[one.kind] <= limit:
            first.append(one)
    return first, tuple(kind for kind, count in seen.items() if count > limit)
