"""What `ottla pipeline audit` takes for a difference, where a topic or an archive goes on meanwhile, and where records were lost.

The other half of its tests is in test_pipeline.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
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

from compat_tests.test_pipeline import PARTITIONS, archived, audited, command, fill, kafka, rewrite, run
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for
from ottla.pipeline import audit_job
from ottla.pipeline.audit import Audit, Bounds, Finding, Gap, doubles, gaps, out_of_order
from ottla.server.commands.client import Cluster
from ottla.server.commands.pipeline_gaps import explained, snapshot

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

Look = Callable[[], Bounds]
SMALL: Final = {"log_cleaner_backoff_ms": "200", "log_cleaner_threads": "1"}
COMPACTED: Final = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}


def now(bootstrap: str, topic: str) -> Look:
    return partial(snapshot, Cluster({"bootstrap.servers": bootstrap}), topic)


def as_it_was(bootstrap: str, topic: str, records: int) -> Look:
    """What a snapshot says that was taken so many records of each partition ago; the next one is of now."""
    ages = chain([records], repeat(0))

    def look() -> Bounds:
        age = next(ages)
        return {number: (first, end - age) for number, (first, end) in now(bootstrap, topic)().items()}

    return look


def compared(
    spark: SparkSession, bootstrap: str, topic: str, against: str, *, look: Look | None = None, far: Look | None = None
) -> audit_job.Report:
    """An audit by offset, with snapshots of this test's."""
    other = audit_job.other_side(kafka(bootstrap), topic, against, "offset")
    if isinstance(other, audit_job.Topic):
        other = other._replace(look=far or now(bootstrap, against))
    explain = partial(explained, Cluster({"bootstrap.servers": bootstrap}), topic)
    return audit_job.run(spark, kafka(bootstrap), topic, look or now(bootstrap, topic), other, Audit(), explain)


def test_what_an_archive_took_in_since_the_snapshot_is_no_difference(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path
) -> None:
    topic, directory = topic_of("audit-ahead"), tmp_path / "archive"
    fill(bootstrap, topic, 300)
    archived(spark, bootstrap, topic, directory)
    ahead_again = partial(as_it_was, bootstrap, topic, 40)
    assert compared(spark, bootstrap, topic, str(directory), look=ahead_again()) == audit_job.Report(180, [])

    file = max(directory.glob("date=*/*.parquet"), key=lambda path: path.stat().st_size)
    table = pq.ParquetFile(file).read()
    at = table.schema.get_field_index("offset")
    forged = table.slice(0, 1).set_column(at, table.schema.field(at), pa.chunked_array([pa.array([100], pa.int64())]))
    rewrite(directory, file, pa.concat_tables([table, forged]))
    extra = Finding("extra", forged["partition"][0].as_py(), 100, 100, 1, "not in the topic")
    for look in (None, ahead_again()):
        assert compared(spark, bootstrap, topic, str(directory), look=look).findings == [extra]


def test_what_came_into_either_topic_since_its_snapshot_is_no_difference_by_offset(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str]
) -> None:
    one, other = topic_of("audit-one"), topic_of("audit-other")
    for topic in (one, other):
        fill(bootstrap, topic, 90)
    before = [as_it_was(bootstrap, topic, 5) for topic in (one, other)]
    assert compared(spark, bootstrap, one, other, look=before[0]) == audit_job.Report(75, [])
    assert compared(spark, bootstrap, one, other, far=before[1]) == audit_job.Report(90, [])
    fill(bootstrap, other, 3, start=90)
    found = compared(spark, bootstrap, one, other).findings
    assert found == [Finding("extra", partition, 30, 30, 1, "not in the topic") for partition in range(PARTITIONS)]
    fill(bootstrap, one, 6, start=90)
    found = compared(spark, bootstrap, one, other).findings
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
    compact(bootstrap)
    words = command(bootstrap, "audit", "compacted", "--master", "local[2]", "--limit", "1", "--json")
    done = run(words)
    assert (done.returncode, json.loads(done.stdout)) == (0, []), done.stderr
    assert done.stderr.splitlines()[-1].endswith(" records in 1 partitions, no difference")

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


def compact(bootstrap: str) -> None:
    """Writes 50 keys many times, and goes on until the cleaner has taken most of them away."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for at in range(2000):
        producer.produce("compacted", key=f"k{at % 50}", value=f"v{at}", timestamp=TODAY_MS)
    assert producer.flush(30) == 0
    seconds = count(1)

    def is_compacted() -> bool:
        """Records that are a second later each roll the segment."""
        producer.produce("compacted", key="last", value="x", timestamp=TODAY_MS + 1000 * next(seconds))
        assert producer.flush(30) == 0
        return records_of(bootstrap) < 1000

    wait_for(is_compacted, "the cleaner", timeout_s=90)


def records_of(bootstrap: str) -> int:
    """How many records a reader gets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True})
    consumer.assign([TopicPartition("compacted", 0, 0)])
    found = 0
    while (message := consumer.poll(30)) is not None and not message.error():
        found += 1
    consumer.close()
    return found
