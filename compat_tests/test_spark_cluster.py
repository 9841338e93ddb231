"""The pipeline on a standalone Spark cluster, a master and two workers: archive and run by --master, segments by spark-submit.

All must have put both workers to work, as Spark's own event log shows, and must say what the topic holds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from compat_tests.spark_cluster import SPARK_HOME, SparkCluster
from compat_tests.test_pipeline import command
from compat_tests.topics import committed_records, make_topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka_in_full, pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 4
RECORDS = 40_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark-cluster")) as started:
        yield started


def fill(bootstrap: str, topic: str) -> None:
    """RECORDS numbers over all partitions."""
    make_topics(bootstrap, PARTITIONS, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "zstd"})
    for number in range(RECORDS):
        producer.produce(topic, partition=number % PARTITIONS, key=str(number), value=str(number))
        producer.poll(0)
    assert producer.flush(60) == 0


def assert_both_worked(cluster: SparkCluster, application: str) -> None:
    tasks = cluster.workers_with_work(application)
    assert set(tasks) == {0, 1}, f"tasks by worker: {tasks}"


def settings_of(cluster: SparkCluster, application: str, option: str) -> list[str]:
    """The cluster's settings as words of a command."""
    return [word for pair in (cluster.settings | {"spark.app.name": application}).items() for word in (option, "=".join(pair))]


def run(words: list[str], **variables: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=400, env=os.environ | variables)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def test_archive_and_segments_have_work_on_both_workers(
    cluster: SparkCluster, fresh_broker: Callable[..., Any], unique: Callable[[str], str], tmp_path: Path
) -> None:
    broker, topic = fresh_broker(), unique("cluster")
    fill(broker.bootstrap, topic)

    table = tmp_path / "table"
    name = f"archive of {topic}"
    words = ["archive", topic, "--to", str(table), "--once", "--master", cluster.master]
    run(command(broker.bootstrap, *words, *settings_of(cluster, name, "--spark-conf")))
    archived = [number for file in table.glob("date=*/*.parquet") for number in pq.read_table(file)["value"].to_pylist()]
    assert sorted(int(value) for value in archived) == list(range(RECORDS))
    assert_both_worked(cluster, name)

    broker.stop()  # what it wrote is read without it
    name = f"segments of {topic}"
    conf = settings_of(cluster, name, "--conf")
    job = Path(__file__).with_name("spark_segments.py")
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master, *conf, str(job), str(broker.data_dir / topic)]
    said = run(submit, SPARK_HOME=str(SPARK_HOME), PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    assert json.loads(said.splitlines()[-1]) == {"records": RECORDS, "sum": sum(range(RECORDS))}
    assert_both_worked(cluster, name)


JOB = """-- /// job
-- [spark]
-- "spark.sql.shuffle.partitions" = 4
-- ///
CREATE STREAM numbers FROM TOPIC ${numbers} WITH (format = 'text');
CREATE SINK counts TO TOPIC ${counts} WITH (mode = 'complete', key = 'digit', partitions = '2');
INSERT INTO counts SELECT value % 10 AS digit, count(*) AS n FROM numbers GROUP BY value % 10;
"""


def test_a_job_with_state_runs_on_both_workers(
    cluster: SparkCluster, fresh_broker: Callable[..., Any], unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The executors write the state below the checkpoint's address, and the transactions of its topic."""
    broker, topics = fresh_broker(), {"numbers": unique("numbers"), "counts": unique("counts")}
    fill(broker.bootstrap, topics["numbers"])
    job, name = tmp_path / "job.sql", f"counts of {topics['numbers']}"
    job.write_text(JOB)
    variables = [word for pair in topics.items() for word in ("--set", "=".join(pair))]
    place = ["--master", cluster.master, "--checkpoint", f"file://{tmp_path}/new/here"]
    settings = settings_of(cluster, name, "--spark-conf")
    run(command(broker.bootstrap, "run", str(job), "--once", *variables, *place, *settings))
    found = [json.loads(record.value() or b"") for record in committed_records(broker.bootstrap, topics["counts"], 2)]
    assert sorted((row["digit"], row["n"]) for row in found) == [(digit, RECORDS // 10) for digit in range(10)]
    assert (tmp_path / "new" / "here" / "counts" / "state").is_dir()
    assert_both_worked(cluster, name)
