"""The pipeline on a standalone Spark cluster, a master and two workers: archive by --master, segments by spark-submit.

Both must have put both workers to work, which Spark's own event log tells, and must say what the topic holds.
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
from compat_tests.topics import make_topics

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


def run(command: list[str], **variables: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400, env=os.environ | variables)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def test_archive_and_segments_have_work_on_both_workers(
    cluster: SparkCluster, fresh_broker: Callable[..., Any], unique: Callable[[str], str], tmp_path: Path
) -> None:
    broker, topic = fresh_broker(), unique("cluster")
    fill(broker.bootstrap, topic)

    table = tmp_path / "table"
    name = f"archive of {topic}"
    conf = [word for pair in (cluster.settings | {"spark.app.name": name}).items() for word in ("--spark-conf", "=".join(pair))]
    command = [
        sys.executable,
        "-m",
        "ottla",
        "pipeline",
        "archive",
        topic,
        "--to",
        str(table),
        "--once",
        "--master",
        cluster.master,
    ]
    run([*command, "--bootstrap", broker.bootstrap, *conf])
    archived = [number for file in table.glob("date=*/*.parquet") for number in pq.read_table(file)["value"].to_pylist()]
    assert sorted(int(value) for value in archived) == list(range(RECORDS))
    assert_both_worked(cluster, name)

    broker.stop()  # what it wrote is read without it
    name = f"segments of {topic}"
    conf = [word for pair in (cluster.settings | {"spark.app.name": name}).items() for word in ("--conf", "=".join(pair))]
    job = Path(__file__).with_name("spark_segments.py")
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master, *conf, str(job), str(broker.data_dir / topic)]
    said = run(submit, SPARK_HOME=str(SPARK_HOME), PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    assert json.loads(said.splitlines()[-1]) == {"records": RECORDS, "sum": sum(range(RECORDS))}
    assert_both_worked(cluster, name)
