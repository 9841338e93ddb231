"""Tests of what `ottla pipeline audit` takes for a difference, where a topic or an archive goes on meanwhile, and where records
were lost.

More of its tests are in test_pipeline.py; what needs no broker is in tests/pipeline/test_audit.py.
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
from ottla.pipeline.audit import Bounds, Finding

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
    """Returns how many records a reader gets."""
    return len(committed_records(bootstrap, "compacted", 1))
