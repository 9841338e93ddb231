"""The pipeline on a cluster of three brokers of ottla. One is killed in the middle of `archive` and of `run`, which both go on:
nothing is missing or doubled, and the audit says so. Then `format("ottla")` reads the directories of all three, one of them dead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

import ottla.testing
from compat_tests.audits import audited
from compat_tests.topics import committed_records
from compat_tests.waiting import wait_for
from ottla.pipeline import archive
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.run import RunningJob, RunOptions
from ottla.pipeline.signals import told_to_stop
from ottla.pipeline.source import register
from ottla.pipeline.sql.checkpoint import Checkpoint
from ottla.pipeline.sql.job import read_job
from ottla.pipeline.sql.sources import partitions_of_topics, topics_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PARTITIONS = 3
RECORDS = 240
A_BATCH = 90
PATIENCE_S = 120
SETTINGS: dict[str, Any] = {
    "broker_session_timeout_ms": 3000,
    "offsets_topic_num_partitions": PARTITIONS,
    "transaction_state_log_num_partitions": PARTITIONS,
    "replica_high_watermark_checkpoint_interval_ms": 500,
}
SOON = {"kafka.default.api.timeout.ms": "10000", "kafka.request.timeout.ms": "10000"}
"""A Java client that has asked a broker which dies waits for that long, which is a minute by default."""
WITH = ", ".join(f"{name} = '{value}'" for name, value in SOON.items())
JOB = f"""
CREATE STREAM events FROM TOPIC events WITH ({WITH}, rows_per_batch = '90');
CREATE SINK copies TO TOPIC copies WITH (key = 'k', timestamp = 't', format = 'text');
INSERT INTO copies SELECT _key AS k, _timestamp AS t, value FROM events;
"""


class Impatient(KafkaCluster):
    def spark_options(self, *, committed: bool = True) -> dict[str, str]:
        return super().spark_options(committed=committed) | SOON


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.Cluster(nodes=3, **SETTINGS) as made:
        admin = AdminClient({"bootstrap.servers": made.bootstrap})
        topics = [NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"}) for name in ("events", "copies")]
        for created in admin.create_topics(topics).values():
            created.result(30)
        yield made


def fill(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce("events", str(number), f"k{number % 7}", partition=number % PARTITIONS)
    assert producer.flush(60) == 0


@contextmanager
def running(spark: SparkSession, bootstrap: str, directory: Path) -> Iterator[RunningJob]:
    """The job, as `ottla pipeline run --from-beginning` runs it, until the end of the block."""
    path = directory / "job.sql"
    path.write_text(JOB)
    job, cluster = read_job(path, {}), KafkaCluster({"bootstrap.servers": bootstrap})
    partitions = partitions_of_topics(cluster, topics_of(job.steps))
    checkpoint = Checkpoint(spark, str(directory / "checkpoint"))
    job_running = RunningJob(job, spark, RunOptions(from_beginning=True), checkpoint, cluster, partitions, print)
    with told_to_stop(job_running.started) as stop:
        job_running.start(stop)
        try:
            yield job_running
        finally:
            spark.catalog.dropTempView("events")


def check_segments(spark: SparkSession, cluster: ottla.testing.Cluster) -> None:
    """The segments of all brokers are one table, though one of them is dead and its logs end earlier."""
    assert [broker.is_running for broker in cluster.brokers].count(False) == 1
    register(spark)
    paths = [str(broker.data_dir) for broker in cluster.brokers]
    pattern = f"{cluster.data_dir}/broker-*/data"

    def rows(path: str | list[str], topic: str, **options: str) -> list[tuple[int, int, bytes]]:
        frame = spark.read.format("ottla").option("topic", topic).options(**options).load(path)
        return [tuple(row) for row in frame.select("partition", "offset", "value").orderBy("partition", "offset").collect()]

    found: list[tuple[int, int, bytes]] = []

    def all_are_there() -> bool:
        found[:] = rows(pattern, "events")
        return len(found) >= 2 * RECORDS

    wait_for(all_are_there, lambda: f"{len(found)} rows")
    each = 2 * RECORDS // PARTITIONS
    assert [row[:2] for row in found] == [(partition, offset) for partition in range(PARTITIONS) for offset in range(each)]
    assert sorted(int(value) for _, _, value in found) == list(range(2 * RECORDS))
    assert rows(paths, "events") == found
    copies = rows(pattern, "copies", **{"isolation.level": "read_committed"})
    assert sorted(int(value) for _, _, value in copies) == list(range(2 * RECORDS))


def test_archive_and_run_go_on_when_a_broker_dies(spark: SparkSession, cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    bootstrap, directory = cluster.bootstrap, str(tmp_path / "archive")
    fill(bootstrap, 0, RECORDS)
    kafka = Impatient({"bootstrap.servers": bootstrap})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    leader = admin.list_topics("events", 30).topics["events"].partitions[0].leader
    (victim,) = [broker for broker in cluster.brokers if broker.node_id == leader]
    said: list[str] = []

    def tell(line: str) -> None:
        """Is told of each batch of the archive; at the first one the broker dies, and more records come."""
        said.append(line)
        if victim.is_running:
            victim.kill()
            fill(bootstrap, RECORDS, RECORDS)

    with running(spark, bootstrap, tmp_path) as job:
        (query,) = job.started()

        def copied() -> int:
            return sum(progress["numInputRows"] for progress in query.recentProgress)

        wait_for(copied, "the job has begun", PATIENCE_S)
        totals = archive.run(spark, archive.Archive(kafka, "events", directory, batch_records=A_BATCH), tell)
        assert not victim.is_running
        assert totals.batches > 1
        assert totals.records == RECORDS, "a run archives what was there when it began"
        wait_for(lambda: copied() >= 2 * RECORDS, lambda: f"{copied()} copies; {query.exception()}", PATIENCE_S)
    copies = committed_records(bootstrap, "copies", PARTITIONS)
    assert sorted(int(message.value() or b"") for message in copies) == list(range(2 * RECORDS))
    assert archive.run(spark, archive.Archive(kafka, "events", directory), said.append).records == RECORDS
    report = audited(spark, bootstrap, "events", directory)
    assert (report.records, report.findings) == (2 * RECORDS, [])
    check_segments(spark, cluster)
