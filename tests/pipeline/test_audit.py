"""pipeline/audit.py and pipeline/compare.py, its second half: what is a difference, over rows made here and in a Spark of one
thread. Reading topics and archives, and writing while an audit runs, are compat_tests/test_pipeline_audit.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from ottla.pipeline import compare
from ottla.pipeline.audit import Audit, Bounds, Finding, Gap, alone, buckets, canonical, doubles, evaluated, gaps, out_of_order
from ottla.pipeline.compare import Side
from ottla.pipeline.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = (
    "partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
HOUR_MS: Final = 3_600_000
PLAN: Final = Audit()
CHANGED: Final = "another key, value, headers or timestamp"


pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # py4j leaves some


class Row(NamedTuple):
    """A record of a topic or an archive; `ms` is its timestamp."""

    partition: int
    offset: int
    value: bytes | None = b"v"
    key: bytes | None = b"k"
    ms: int = 0
    headers: list[tuple[str, bytes | None]] | None = None


def frame(spark: SparkSession, *rows: Row) -> DataFrame:
    """Returns the rows as the functions of an audit take them."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    made = [(r.partition, r.offset, epoch + timedelta(milliseconds=r.ms), r.key, r.value, r.headers) for r in rows]
    return canonical(spark.createDataFrame(made, SCHEMA))


def numbered(count: int, partition: int = 0) -> list[Row]:
    """Returns records from offset 0 on, a quarter of an hour apart, each with a value of its own."""
    return [Row(partition, at, b"value %d" % at, ms=at * HOUR_MS // 4) for at in range(count)]


def without(rows: list[Row], *offsets: int) -> list[Row]:
    return [row for row in rows if row.offset not in offsets]


# Checksums


def test_whatever_is_another_record_has_another_checksum(spark: SparkSession) -> None:
    rows = [
        Row(0, 0),
        Row(0, 1, ms=1),
        Row(0, 2, ms=-1),
        Row(0, 3, value=None),
        Row(0, 4, value=b""),
        Row(0, 5, key=None),
        Row(0, 6, key=b""),
        Row(0, 7, key=b"v", value=b"k"),
        Row(0, 8, key=None, value=None),
        Row(0, 9, headers=[("h", b"1")]),
        Row(0, 10, headers=[("h", b"")]),
        Row(0, 11, headers=[("h", None)]),
        Row(0, 12, headers=[("h", b"1"), ("g", b"2")]),
        Row(0, 13, headers=[("g", b"2"), ("h", b"1")]),
        Row(0, 14, key=b"kv", value=b""),
    ]
    found = {row["offset"]: row["sum"] for row in frame(spark, *rows).collect()}
    assert len(set(found.values())) == len(rows)
    again = frame(spark, Row(7, 99), Row(7, 100, headers=[]), Row(7, 101, headers=[("h", b"1")])).collect()
    assert [row["sum"] for row in again] == [found[0], found[0], found[9]], "the place counts for nothing"
    assert [row["ms"] for row in frame(spark, *rows).orderBy("offset").take(3)] == [0, 1, -1]


def test_buckets_count_records_and_add_checksums_up_exactly(spark: SparkSession) -> None:
    from pyspark.sql import functions

    rows = [Row(0, at, b"%d" % at, ms=ms) for at, ms in enumerate((0, 999, 1000, -1, -1000, 2500, 2501))]
    rows += [Row(1, 0, b"other", ms=5)]
    table = frame(spark, *rows)
    sums: dict[tuple[int, int], list[int]] = {}
    for row in table.collect():
        sums.setdefault((row["partition"], row["ms"] // 1000 * 1000), []).append(row["sum"])
    found = {(row["partition"], row["start_ms"]): (row["records"], row["checksum"]) for row in buckets(table, 1000).collect()}
    assert found == {place: (len(those), str(sum(those))) for place, those in sums.items()}
    assert len(found) == 5

    heavy = table.withColumn("sum", functions.lit(2**63 - 1))
    (bucket,) = buckets(heavy, HOUR_MS).where("start_ms = 0 AND partition = 0").collect()
    assert bucket["checksum"] == str(5 * (2**63 - 1))


# A topic alone


def test_gaps_are_at_both_ends_and_between_and_come_in_order(spark: SparkSession) -> None:
    held: Mapping[int, list[int]] = {9: [], 7: [0, 1, 2], 1: [6, 3, 2, 3], 0: [5]}
    rows = spark.createDataFrame([(number, at) for number, those in held.items() for at in those], "partition int, offset long")
    bounds = {0: (5, 6), 1: (1, 9), 7: (0, 3), 9: (3, 5), 12: (4, 4)} | dict.fromkeys(range(20, 30), (0, 1))
    assert list(gaps(spark, rows, bounds)) == [
        *(Gap(1, 1, 1), Gap(1, 4, 5), Gap(1, 7, 8), Gap(9, 3, 4)),
        *(Gap(number, 0, 0) for number in range(20, 30)),
    ]
    assert list(gaps(spark, rows, {})) == []


def test_a_double_in_another_partition_is_told_with_its_partition(spark: SparkSession) -> None:
    places = [(0, 7, "b"), (0, 9, "b"), (0, 8, "b"), (0, 3, "a"), (1, 5, "a"), (1, 6, "c"), (2, 1, None), (2, 2, None)]
    rows = spark.createDataFrame(places, "partition int, offset long, found string")
    first = Finding("double", 0, 3, 3, 1, "identity a, the last in partition 1 at offset 5")
    assert doubles(rows, "found", "identity", 10) == [first, Finding("double", 0, 7, 9, 2, "identity b")]
    assert doubles(rows, "found", "identity", 1) == [first]


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        (["9", "10", "11"], []),
        (["9", "9", "8", "9"], [(2, "8 behind 9")]),
        (["9", "10", "9.5", None, "10.0"], [(2, "9.5 behind 10")]),
        (["1e3", " 999 ", "-5"], [(1, " 999  behind 1e3"), (2, "-5 behind 1e3")]),
        (["9223372036854775807", "9223372036854775806"], [(1, "9223372036854775806 behind 9223372036854775807")]),
        (["9", "2e29", "1e30", "3e29"], [(3, "3e29 behind 1e30")]),
        (["10", "9", "x"], []),  # text
        (["b", "a", "1d"], [(1, "a behind b"), (2, "1d behind b")]),
        ([None, None], []),
    ],
)
def test_text_that_is_numbers_is_ordered_as_numbers(
    spark: SparkSession, values: list[str | None], wrong: list[tuple[int, str]]
) -> None:
    rows = spark.createDataFrame([(0, at, value) for at, value in enumerate(values)], "partition int, offset long, found string")
    expected = [Finding("order", 0, at, at, 1, detail) for at, detail in wrong]
    assert out_of_order(rows, "found", 10) == expected
    assert out_of_order(rows, "found", 1) == expected[:1]


def test_order_is_of_each_partition_by_offset(spark: SparkSession) -> None:
    places = [(0, 2, 3), (0, 0, 1), (0, 1, 2), (1, 0, 0), (1, 1, 7), (1, 3, 6), (1, 2, None)]
    rows = spark.createDataFrame(places, "partition int, offset long, found int")
    assert out_of_order(rows, "found", 10) == [Finding("order", 1, 3, 3, 1, "6 behind 7")]


def test_an_expression_sees_text_times_and_fields_of_json(spark: SparkSession) -> None:
    rows = frame(spark, Row(3, 4, b'{"id": 7, "a": {"b": "deep"}}', b"key", ms=1500, headers=[("h", b"1")]))

    def found(expression: str) -> Any:
        (row,) = evaluated(rows, expression).collect()
        assert (row["partition"], row["offset"]) == (3, 4)
        return row["found"]

    assert (found("value:id"), found(" value:a.b "), found("key"), found("length(key)")) == ("7", "deep", "key", 3)
    assert found("unix_millis(timestamp)") == 1500
    assert (found("headers[0].key"), found("key:id")) == ("h", None)
    with pytest.raises(UsageError, match="'nothing' is not an expression over the records: ") as caught:
        evaluated(rows, "nothing")
    assert "\n" not in str(caught.value)


def test_what_is_wrong_with_a_topic_alone(spark: SparkSession) -> None:
    values = {0: b"5", 1: b"6", 4: b"5", 7: b"7"}
    rows = frame(spark, *(Row(0, at, value) for at, value in values.items()))
    bounds = {0: (0, 10)}
    seen: list[Gap] = []

    def explain(found: Any) -> Iterator[Gap]:
        seen.extend(found)
        yield from reversed([gap for gap in seen if gap.first != 5])

    gap = [Finding("gap", 0, 2, 3, 2, "offsets without a record"), Finding("gap", 0, 8, 9, 2, "offsets without a record")]
    assert alone(spark, rows, PLAN, bounds, explain) == gap
    assert seen == [Gap(0, 2, 3), Gap(0, 5, 6), Gap(0, 8, 9)]
    assert alone(spark, rows, Audit(allow_gaps=True), bounds, explain) == []
    double = Finding("double", 0, 0, 4, 1, "identity 5")
    order = Finding("order", 0, 4, 4, 1, "5 behind 6")
    plan = Audit(allow_gaps=True, id_expression="value", order_expression="value")
    assert alone(spark, rows, plan, bounds, explain) == [double, order]
    seen.clear()
    assert alone(spark, rows, Audit(limit=0), bounds, explain) == gap[1:], "one more than is listed, to know that there are more"


# Two sides, by offset

TOPIC: Final = numbered(10)
BY_OFFSET: Final[dict[str, tuple[list[Row], list[Finding]]]] = {
    "the same": (TOPIC, []),
    "the same, in another order of rows": (TOPIC[::-1], []),
    "one is missing": (without(TOPIC, 4), [Finding("missing", 0, 4, 4, 1, "only in the topic")]),
    "neighbours are missing": (without(TOPIC, 0, 1, 2, 9), [
        Finding("missing", 0, 0, 2, 3, "only in the topic"),
        Finding("missing", 0, 9, 9, 1, "only in the topic"),
    ]),
    "nothing is there": ([], [Finding("missing", 0, 0, 9, 10, "only in the topic")]),
    "one is extra": ([*TOPIC, Row(0, 10)], [Finding("extra", 0, 10, 10, 1, "not in the topic")]),
    "another partition": ([*TOPIC, Row(1, 3)], [Finding("extra", 1, 3, 3, 1, "not in the topic")]),
    "another value": ([*without(TOPIC, 5), TOPIC[5]._replace(value=b"x")], [Finding("changed", 0, 5, 5, 1, CHANGED)]),
    "another time": ([*without(TOPIC, 5), TOPIC[5]._replace(ms=9 * HOUR_MS)], [Finding("changed", 0, 5, 5, 1, CHANGED)]),
    "two in each other's place": (
        [*without(TOPIC, 4, 5), TOPIC[4]._replace(offset=5), TOPIC[5]._replace(offset=4)],
        [Finding("changed", 0, 4, 5, 2, CHANGED)],
    ),
    "all an offset later": ([row._replace(offset=row.offset + 1) for row in TOPIC], [
        Finding("changed", 0, 1, 9, 9, CHANGED),
        Finding("extra", 0, 10, 10, 1, "not in the topic"),
        Finding("missing", 0, 0, 0, 1, "only in the topic"),
    ]),
    "one twice": ([*TOPIC, TOPIC[3]], [Finding("double", 0, 3, 3, 1, "partition 0 offset 3")]),
    "one twice and different": ([*TOPIC, TOPIC[3]._replace(key=b"x")], [
        Finding("double", 0, 3, 3, 1, "partition 0 offset 3"),
        Finding("changed", 0, 3, 3, 1, CHANGED),
    ]),
    "what retention has deleted": ([Row(0, -2), Row(0, -1), *TOPIC], []),
}  # fmt: skip


@pytest.mark.parametrize(("archive", "findings"), BY_OFFSET.values(), ids=list(BY_OFFSET))
def test_an_archive_is_compared_by_offset(spark: SparkSession, archive: list[Row], findings: list[Finding]) -> None:
    topic = Side(frame(spark, *TOPIC), {0: (0, 10)})
    assert compare.by_offset(topic, Side(frame(spark, *archive)), PLAN) == findings


class Looks:
    """The bounds of a topic now; `count` is how often somebody asked."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds, self.count = bounds, 0

    def __call__(self) -> Bounds:
        self.count += 1
        return self.bounds


def test_what_an_archive_took_in_since_the_snapshot_is_looked_up_once_more(spark: SparkSession) -> None:
    rows = frame(spark, *TOPIC[:6])
    for end, findings in ((10, []), (8, [Finding("extra", 0, 8, 9, 2, "not in the topic")])):
        look = Looks({0: (0, end)})
        assert compare.by_offset(Side(rows, {0: (0, 6)}, look), Side(frame(spark, *TOPIC)), PLAN) == findings
        assert look.count == 1
    look = Looks({})
    assert compare.by_offset(Side(rows, {0: (0, 6)}, look), Side(frame(spark, *TOPIC[:6])), PLAN) == []
    assert look.count == 0, "nothing is beyond the snapshot"
    gone = [Finding("extra", 0, 6, 9, 4, "not in the topic"), Finding("extra", 1, 5, 5, 1, "not in the topic")]
    archive = Side(frame(spark, *TOPIC, Row(1, 5)))
    assert compare.by_offset(Side(rows, {0: (0, 6)}, look), archive, PLAN) == gone, "it was truncated, or recreated"


def test_two_topics_that_are_both_written_to(spark: SparkSession) -> None:
    one, other = frame(spark, *TOPIC[:6]), frame(spark, *TOPIC[:8])
    here, there = Looks({0: (0, 8)}), Looks({0: (0, 8)})
    assert compare.by_offset(Side(one, {0: (0, 6)}, here), Side(other, {0: (0, 8)}, there), PLAN) == []
    assert compare.by_offset(Side(other, {0: (0, 8)}, there), Side(one, {0: (0, 6)}, here), PLAN) == []
    behind = Looks({0: (0, 6)})
    missing = [Finding("missing", 0, 6, 7, 2, "only in the topic")]
    assert compare.by_offset(Side(other, {0: (0, 8)}, there), Side(one, {0: (0, 6)}, behind), PLAN) == missing
    before = here.count
    assert compare.by_offset(Side(one, {0: (0, 6)}, here), Side(one, {0: (0, 6)}, there), PLAN) == []
    assert here.count == before, "neither goes beyond the other"


# Two sides, by content


BY_CONTENT: Final[dict[str, tuple[list[Row], list[Finding]]]] = {
    "the same, at other offsets": ([row._replace(offset=100 + 2 * row.offset) for row in TOPIC], []),
    "one is missing": (without(TOPIC, 4), [Finding("missing", 0, 4, 4, 1, "1 in the topic, 0 in the other")]),
    "one is extra": (
        [*TOPIC, Row(0, 50, b"new")],
        [Finding("extra", 0, -1, -1, 1, "0 in the topic, 1 in the other, first at its offset 50")],
    ),
    "one twice": (
        [*TOPIC, TOPIC[3]._replace(offset=51), TOPIC[3]._replace(offset=50)],
        [Finding("extra", 0, 3, 3, 2, "1 in the topic, 3 in the other, first at its offset 3")],
    ),
    "in another partition": ([*without(TOPIC, 9), TOPIC[9]._replace(partition=1)], [
        Finding("extra", 1, -1, -1, 1, "0 in the topic, 1 in the other, first at its offset 9"),
        Finding("missing", 0, 9, 9, 1, "1 in the topic, 0 in the other"),
    ]),
    "neighbours are missing": (without(TOPIC, 1, 2, 5), [
        Finding("missing", 0, 1, 2, 2, "1 in the topic, 0 in the other"),
        Finding("missing", 0, 5, 5, 1, "1 in the topic, 0 in the other"),
    ]),
    "two in each other's place": (
        [*without(TOPIC, 4, 6), TOPIC[4]._replace(offset=6), TOPIC[6]._replace(offset=4)],
        [Finding("order", 0, at, at, 1, "another record stands here") for at in (4, 6)],
    ),
    "two neighbours in each other's place": (
        [*without(TOPIC, 4, 5), TOPIC[4]._replace(offset=5), TOPIC[5]._replace(offset=4)],
        [Finding("order", 0, 4, 5, 2, "another record stands here")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("other", "findings"), BY_CONTENT.values(), ids=list(BY_CONTENT))
def test_a_copy_is_compared_by_content(spark: SparkSession, other: list[Row], findings: list[Finding]) -> None:
    assert compare.by_content(frame(spark, *TOPIC), frame(spark, *other), PLAN) == findings


@pytest.mark.parametrize("bucket_ms", [1, 1000, HOUR_MS, 1000 * HOUR_MS])
def test_the_span_of_a_checksum_changes_no_finding(spark: SparkSession, bucket_ms: int) -> None:
    topic, plan = frame(spark, *TOPIC), Audit(bucket_ms=bucket_ms)
    for name in ("the same", "another time", "two in each other's place"):
        archive, findings = BY_OFFSET[name]
        assert compare.by_offset(Side(topic, {0: (0, 10)}), Side(frame(spark, *archive)), plan) == findings, name
    other, findings = BY_CONTENT["one twice"]
    assert compare.by_content(topic, frame(spark, *other), plan) == findings


def test_findings_are_joined_before_they_are_limited(spark: SparkSession) -> None:
    rows = [
        ("a", 0, 1, 2, 2, "x"),
        ("a", 0, 3, 3, 1, "x"),
        ("a", 0, 4, 4, 1, "y"),
        ("a", 1, 5, 5, 1, "x"),
        ("b", 0, 9, 9, 1, "x"),
    ]
    rows += [("b", 0, -1, -1, 3, "z"), ("b", 0, 0, 0, 4, "z")]  # what has no place in the topic has no neighbour
    made = spark.createDataFrame(rows, "kind string, partition int, first long, last long, records long, detail string")
    first, second, third = Finding("a", 0, 1, 3, 3, "x"), Finding("a", 0, 4, 4, 1, "y"), Finding("a", 1, 5, 5, 1, "x")
    found = compare.islands(made, 10)
    assert found[:3] == [first, second, third]
    assert sorted(found[3:]) == [Finding("b", 0, -1, -1, 3, "z"), Finding("b", 0, 0, 0, 4, "z"), Finding("b", 0, 9, 9, 1, "x")]
    assert [one for one in compare.islands(made, 2) if one.kind == "a"] == [first, second]


def test_an_archive_from_the_topics_first_offset_on(spark: SparkSession) -> None:
    rows = frame(spark, *(Row(partition, at) for partition in (0, 1) for at in range(4)))
    left = compare.within(rows, {0: (2, 9)}).select("partition", "offset").collect()
    assert sorted(map(tuple, left)) == [(0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]
    assert compare.within(rows, {}).count() == 8
