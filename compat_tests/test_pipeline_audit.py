"""What `ottla pipeline audit` takes for a difference, where a topic or an archive goes on meanwhile, and where records were lost.

The other half of its tests is in test_pipeline.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from compat_tests.audits import COMPACTED, as_it_was, audited, compact
from compat_tests.test_pipeline import PARTITIONS, archived, command, fill, rewrite, run
from compat_tests.topics import committed_records
from ottla.pipeline import audit_job
from ottla.pipeline.audit import Bounds, Finding, Gap, doubles, gaps, out_of_order

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

Look = Callable[[], Bounds]
SMALL: Final = {"log_cleaner_backoff_ms": "200", "log_cleaner_threads": "1"}


def test_what_an_archive_took_in_since_the_snapshot_is_no_difference(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path
) -> None:
    topic, directory = topic_of("audit-ahead"), tmp_path / "archive"
    fill(bootstrap, topic, 300)
    archived(spark, bootstrap, topic, directory)
    ahead_again = partial(as_it_was, bootstrap, topic, 40)
    assert audited(spark, bootstrap, topic, str(directory), match="offset", look=ahead_again()) == audit_job.Report(180, [])

    file = max(directory.glob("date=*/*.parquet"), key=lambda path: path.stat().st_size)
    table = pq.ParquetFile(file).read()
    at = table.schema.get_field_index("offset")
    forged = table.slice(0, 1).set_column(at, table.schema.field(at), pa.chunked_array([pa.array([100], pa.int64())]))
    rewrite(directory, file, pa.concat_tables([table, forged]))
    extra = Finding("extra", forged["partition"][0].as_py(), 100, 100, 1, "not in the topic")
    for look in (None, ahead_again()):
        assert audited(spark, bootstrap, topic, str(directory), match="offset", look=look).findings == [extra]


def test_what_came_into_either_topic_since_its_snapshot_is_no_difference_by_offset(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str]
) -> None:
    one, other = topic_of("audit-one"), topic_of("audit-other")
    for topic in (one, other):
        fill(bootstrap, topic, 90)
    before = [as_it_was(bootstrap, topic, 5) for topic in (one, other)]
    assert audited(spark, bootstrap, one, other, match="offset", look=before[0]) == audit_job.Report(75, [])
    assert audited(spark, bootstrap, one, other, match="offset", far=before[1]) == audit_job.Report(90, [])
    fill(bootstrap, other, 3, start=90)
    found = audited(spark, bootstrap, one, other, match="offset").findings
    assert found == [Finding("extra", partition, 30, 30, 1, "not in the topic") for partition in range(PARTITIONS)]
    fill(bootstrap, one, 6, start=90)
    found = audited(spark, bootstrap, one, other, match="offset").findings
    assert found == [Finding("missing", partition, 31, 31, 1, "only in the topic") for partition in range(PARTITIONS)]


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        (["9", "10", "11"], []),
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


def test_a_double_in_another_partition_is_told_with_its_partition(spark: SparkSession) -> None:
    places = [(0, 7, "b"), (0, 9, "b"), (0, 8, "b"), (0, 3, "a"), (1, 5, "a"), (1, 6, "c"), (2, 1, None), (2, 2, None)]
    rows = spark.createDataFrame(places, "partition int, offset long, found string")
    assert doubles(rows, "found", "identity", 10) == [
        Finding("double", 0, 3, 3, 1, "identity a, the last in partition 1 at offset 5"),
        Finding("double", 0, 7, 9, 2, "identity b"),
    ]


def test_gaps_are_at_both_ends_and_between_and_come_in_order(spark: SparkSession) -> None:
    held = {9: [], 7: [0, 1, 2], 1: [6, 3, 2, 3], 0: [5]}
    rows = spark.createDataFrame([(number, at) for number, those in held.items() for at in those], "partition int, offset long")
    bounds = {0: (5, 6), 1: (1, 9), 7: (0, 3), 9: (3, 5), 12: (4, 4)} | dict.fromkeys(range(20, 30), (0, 1))
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")  # else so few are in one task of Spark
    try:
        found = list(gaps(spark, rows, bounds))
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    assert found == [Gap(1, 1, 1), Gap(1, 4, 5), Gap(1, 7, 8), Gap(9, 3, 4), *(Gap(number, 0, 0) for number in range(20, 30))]
    assert list(gaps(spark, rows, {})) == []


def test_an_archive_goes_on_behind_lost_records_only_where_it_may(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topic_of("audit-lost")
    fill(bootstrap, topic, 30)
    archived(spark, bootstrap, topic, tmp_path)
    fill(bootstrap, topic, 30, start=30)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, number, 15) for number in range(PARTITIONS)]).values():
        deleted.result(30)
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        archived(spark, bootstrap, topic, tmp_path)
    assert archived(spark, bootstrap, topic, tmp_path, allow_loss=True).records == 15
    assert audited(spark, bootstrap, topic, str(tmp_path)) == audit_job.Report(15, [])


@pytest.mark.kafka_in_full
def test_a_compacted_topic_has_no_gaps_and_the_same_records_in_another_have(fresh_broker: Callable[..., Any]) -> None:
    bootstrap = fresh_broker(**SMALL).bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("compacted", 1, 1, config=COMPACTED)]).values():
        made.result(30)
    compact(bootstrap, "compacted", lambda: records_of(bootstrap) < 1000)
    words = command(bootstrap, "audit", "compacted", "--master", "local[2]", "--limit", "1", "--json")
    done = run(words)
    assert (done.returncode, json.loads(done.stdout)) == (0, []), done.stderr
    assert done.stderr.splitlines()[-1].endswith(" records in 1 partition, no differences")

    policy = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    never = ConfigEntry("min.cleanable.dirty.ratio", "1.0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "compacted", incremental_configs=[policy, never])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(30)
    done = run([*words, "--unique", "1", "--ordered", "-offset"])
    assert done.returncode == 1
    found = {one["kind"]: one for one in json.loads(done.stdout)}
    assert set(found) == {"gap", "double", "order"}
    assert {tuple(one) for one in found.values()} == {("kind", "partition", "from", "to", "records", "detail")}
    gap, double = found["gap"], found["double"]
    assert (gap["partition"], gap["records"], gap["detail"]) == (0, gap["to"] - gap["from"] + 1, "offsets without a record")
    assert (double["records"], double["detail"]) == (records_of(bootstrap) - 1, "identity 1")
    notes = done.stderr.splitlines()[-2:]
    assert notes[0].startswith("only the first 1 are listed of: ")
    assert notes[1] == f"ottla: compacted: at least 3 differences in {double['records'] + 1:,} records"


def records_of(bootstrap: str) -> int:
    """How many records a reader gets."""
    return len(committed_records(bootstrap, "compacted", 1))
