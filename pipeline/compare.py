"""Finds where two sides that should have the same records differ: the second half of `ottla pipeline audit`.

audit.py says what is compared and what the differences are called. Here a side is a frame as made by its `canonical`.

**While records are being written.** A topic is read between the bounds of its snapshot, and the other side seconds later or, for
an Iceberg archive, again by every job of Spark. In a comparison by offset, a record beyond these bounds is neither compared nor a
difference, unless the topic does not have its offset even when it is asked once more. In a comparison by content such records
cannot be recognised: there nothing may be written to either side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.pipeline.audit import Audit, Bounds, Finding, buckets, doubles

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_START: Final = "CAST(floor(ms / {0}) * {0} AS BIGINT)"


class Side(NamedTuple):
    """One side of a comparison, and, of a topic, the bounds of its snapshot and the present ones; an archive has no bounds."""

    rows: DataFrame
    bounds: Bounds = MappingProxyType({})
    look: Callable[[], Bounds] | None = None


def by_offset(topic: Side, other: Side, plan: Audit) -> list[Finding]:
    """Returns the differences by offset: against an archive of the topic itself, or a topic that is to be an exact copy of it."""
    from pyspark.sql import functions as F

    there, extra = asked_of(topic, other._replace(rows=within(other.rows, topic.bounds)))
    here, missing = asked_of(other, topic)
    found = _double_offsets(there, plan.most)
    left, right = _differing(here, there, plan.bucket_ms, with_offsets=True)
    once = right.groupBy("partition", "offset").agg(F.min("sum").alias("other"), F.count_distinct("sum").alias("kinds"))
    both = left.select("partition", "offset", "sum").join(once, ["partition", "offset"], "full_outer")
    kind = (
        F.when(F.col("sum").isNull(), "extra")
        .when(F.col("other").isNull(), "missing")
        .when((F.col("sum") != F.col("other")) | (F.col("kinds") > 1), "changed")
    )
    rows = both.select(kind.alias("kind"), "partition", "offset").where("kind is not null")
    for name, beyond in (("extra", extra), ("missing", missing)):
        if beyond is not None:
            rows = rows.union(beyond.select(F.lit(name), "partition", "offset"))
    detail = F.when(F.col("kind") == "missing", "only in the topic").when(F.col("kind") == "extra", "not in the topic")
    detail = detail.otherwise("another key, value, headers or timestamp")
    place = [F.col("offset").alias("first"), F.col("offset").alias("last"), F.lit(1).alias("records")]
    return found + islands(rows.select("kind", "partition", *place, detail.alias("detail")), plan.most)


def asked_of(topic: Side, other: Side) -> tuple[DataFrame, DataFrame | None]:
    """Splits the other side's rows into those that the topic's snapshot covers, and those that the topic lacks even now."""
    from pyspark.sql import functions as F

    rows = other.rows
    is_within = [number in topic.bounds and end <= topic.bounds[number][1] for number, (_, end) in other.bounds.items()]
    if topic.look is None or (is_within and all(is_within)):
        return rows, None
    ends = _by_partition({number: end for number, (_, end) in topic.bounds.items()})
    is_beyond = F.coalesce(F.col("offset") >= ends, F.lit(True))
    beyond = rows.where(is_beyond)
    found = beyond.groupBy("partition").agg(F.max("offset").alias("high")).collect()
    highest = {row["partition"]: row["high"] for row in found}
    now = topic.look() if highest else {}  # called after these rows were read, so the topic must have their offsets
    ends_now = {number: now[number][1] if number in now else 0 for number in highest}
    wrong = F.col("offset").between(_by_partition(ends_now), _by_partition(highest))  # without what has been added since
    is_any = any(highest[number] >= end for number, end in ends_now.items())
    return rows.where(~is_beyond), beyond.where(wrong) if is_any else None


def _by_partition(numbers: Mapping[int, int]) -> Column:
    """Returns the column that maps a row's partition to its number, null if it has none."""
    from pyspark.sql import functions as F

    if not numbers:
        return F.lit(None).cast("bigint")
    pairs = [column for key, number in numbers.items() for column in (F.lit(key), F.lit(number).cast("bigint"))]
    return F.create_map(*pairs)[F.col("partition")]


def by_content(topic: DataFrame, other: DataFrame, plan: Audit) -> list[Finding]:
    """Returns the differences from a side with offsets of its own: every partition should have the same records in the same
    order."""
    from pyspark.sql import functions as F

    left, right = _differing(topic, other, plan.bucket_ms)
    count = [F.count("*").alias("n"), F.min("offset").alias("first"), F.max("offset").alias("last")]
    a = left.groupBy("partition", "sum").agg(*count).alias("a")
    b = right.groupBy("partition", "sum").agg(*count).alias("b")
    same = (F.col("a.partition") == F.col("b.partition")) & (F.col("a.sum") == F.col("b.sum"))
    both = a.join(b, same, "full_outer").selectExpr(
        "coalesce(a.partition, b.partition) AS partition",
        "coalesce(a.n, 0) AS here",
        "coalesce(b.n, 0) AS there",
        "coalesce(a.first, -1) AS first",
        "coalesce(a.last, -1) AS last",
        "b.first AS other",
    )
    place = "if(other IS NULL, '', format_string(', first at its offset %d', other))"
    rows = both.where("here <> there").selectExpr(
        "if(here > there, 'missing', 'extra') AS kind",
        "partition",
        "first",
        "last",
        "abs(here - there) AS records",
        f"format_string('%d in the topic, %d in the other%s', here, there, {place}) AS detail",
    )
    return islands(rows, plan.most) or _order(topic, other, plan.most)


def within(other: DataFrame, bounds: Bounds) -> DataFrame:
    """Returns the rows of an archive from the topic's first offsets on, because retention has deleted the earlier ones."""
    from pyspark.sql import functions as F

    firsts = _by_partition({number: first for number, (first, _) in bounds.items()})
    return other.where(F.coalesce(F.col("offset") >= firsts, F.lit(True)))


def islands(rows: DataFrame, most: int) -> list[Finding]:
    """Returns the findings in rows that have a finding's columns: neighbours with the same reason are one finding, at most `most`
    of a kind, in order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    reason = ["kind", "partition", "detail"]
    along = Window.partitionBy(*reason).orderBy("first", "last")
    before = F.lag("last").over(along)
    begins = before.isNull() | (before < 0) | (F.col("first") != before + 1)
    numbered = rows.withColumn("begins", begins.cast("int")).withColumn("island", F.sum("begins").over(along))
    joined = numbered.groupBy(*reason, "island").agg(
        F.min("first").alias("first"), F.max("last").alias("last"), F.sum("records").alias("records")
    )
    place = F.row_number().over(Window.partitionBy("kind").orderBy("partition", "first", "detail"))
    chosen = joined.withColumn("place", place).where(F.col("place") <= most).orderBy("kind", "place")
    return [Finding(*row) for row in chosen.select(*Finding._fields).collect()]


def _double_offsets(rows: DataFrame, most: int) -> list[Finding]:
    from pyspark.sql import functions as F

    place = F.concat_ws(" offset ", "partition", "offset").alias("place")
    return doubles(rows.select("partition", "offset", place), "place", "partition", most)


def _differing(topic: DataFrame, other: DataFrame, bucket_ms: int, *, with_offsets: bool = False) -> tuple[DataFrame, DataFrame]:
    """Returns the rows of both sides in the partitions and spans of time whose sums differ."""
    from pyspark.sql import functions as F

    names = ["partition", "start_ms"]
    a, b = (
        buckets(side, bucket_ms, with_offsets=with_offsets).withColumnsRenamed({"records": f"n{i}", "checksum": f"c{i}"})
        for i, side in enumerate((topic, other))
    )
    unequal = a.join(b, names, "full_outer").where(~(F.col("n0").eqNullSafe(F.col("n1")) & F.col("c0").eqNullSafe(F.col("c1"))))
    wanted = unequal.select(*names).localCheckpoint()

    def unequal_rows(side: DataFrame) -> DataFrame:
        return side.withColumn("start_ms", F.expr(_START.format(bucket_ms))).join(F.broadcast(wanted), names, "left_semi")

    return unequal_rows(topic), unequal_rows(other)


def _order(topic: DataFrame, other: DataFrame, most: int) -> list[Finding]:
    """Finds the runs of records that are in another place on the other side. Both sides hold the same records."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    place = F.row_number().over(Window.partitionBy("partition").orderBy("offset")).alias("place")
    a = topic.select("partition", "offset", "sum", place)
    b = other.select("partition", F.col("sum").alias("other"), place)
    wrong = a.join(b, ["partition", "place"]).where("sum <> other")
    rows = wrong.selectExpr(
        "'order' AS kind",
        "partition",
        "offset AS first",
        "offset AS last",
        "1 AS records",
        "'another record stands here' AS detail",
    )
    return islands(rows, most)
