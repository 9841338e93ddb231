"""`ottla pipeline` with tables of Delta and of Iceberg, by their released packages.

Of each: the driver of an archive is killed -9 where the table has a batch that the checkpoint has not; another goes on, and every
record is in the table once, as it is in the topic. The table is audited and goes back into a topic; a SQL job writes both.

What the formats do with a broker's records is the same whichever broker it is, and a driver takes seconds: against ottla only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from compat_tests.reference import maven
from compat_tests.spark_tables import BATCH, BEFORE
from compat_tests.test_pipeline import PARTITIONS, fill, kill, kill_when, seen
from ottla.pipeline import archive
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400), pytest.mark.parametrize("kind", ["ottla"], scope="session")]

ROOT = Path(__file__).parents[1]
RUN_S = 300
QUICK = {**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"}
"""Of drivers that live for seconds: a JVM that compiles twice for a speed it never has takes twice as long."""
FIRST, MORE = 1300, 200
COMMITTED = {"delta": f"_delta_log/{1:020}.json", "iceberg": "{topic}/metadata/v3.metadata.json"}
"""The file that is there when batch 1 is in the table; Iceberg's first version is the empty table."""

JOB = """
CREATE STREAM records FROM TOPIC {topic};
CREATE SINK into_delta TO DELTA '{delta}' WITH (partition_by = 'part');
CREATE SINK into_iceberg TO ICEBERG '{iceberg}' WITH (partition_by = 'part');
CREATE OR REPLACE TEMPORARY VIEW numbers AS SELECT _partition AS part, _offset AS number, value FROM records;
INSERT INTO into_delta SELECT * FROM numbers;
INSERT INTO into_iceberg SELECT * FROM numbers;
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """A driver as leader of a process group, gone at the end in any case."""
    made: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        with open(tmp_path / f"driver-{len(made)}.log", "wb") as log:
            made.append(subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True, env=QUICK))
        return made[-1]

    yield start
    for process in made:
        if process.poll() is None:
            kill(process)


def jars() -> list[str]:
    return [str(jar) for name in ("spark-kafka", "spark-tables") for jar in sorted(maven.jar_dir(name).iterdir())]


def forget_what_came_after(checkpoint: Path, batch: int) -> None:
    """The checkpoint of a driver that died where the table had this batch, and nothing had been written since."""
    for log, last in (("commits", batch - 1), ("offsets", batch)):
        for file in (checkpoint / log).iterdir():
            if file.name.isdecimal() and int(file.name) > last:
                file.unlink()
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def test_tables_of_delta_and_iceberg_are_exactly_what_the_topic_holds(
    bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path, started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    topic = topic_of("tables")
    fill(bootstrap, topic, FIRST)
    places = {
        table: {"archive": str(tmp_path / f"{table}-archive"), "target": topic_of(table), "sink": str(tmp_path / f"{table}-sink")}
        for table in COMMITTED
    }
    few = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g", "spark.databricks.delta.snapshotPartitions": "2"}
    told = [word for pair in few.items() for word in ("--spark-conf", "=".join(pair))]
    for number, (table, place) in enumerate(places.items()):
        words = [sys.executable, "-m", "ottla", "pipeline", "archive", topic, "--to", place["archive"], "--format", table]
        words += ["--batch", str(BATCH), "--jars", ",".join(jars()), "--master", "local[2]", "--bootstrap", bootstrap, *told]
        directory = Path(place["archive"])
        kill_when(started(*words), (directory / COMMITTED[table].format(topic=topic)).exists, tmp_path / f"driver-{number}.log")
        forget_what_came_after(directory / "_checkpoint", 1)

    fill(bootstrap, topic, MORE, start=FIRST)
    job = tmp_path / "job.sql"
    job.write_text(JOB.format(topic=topic, delta=places["delta"]["sink"], iceberg=places["iceberg"]["sink"]))
    result = run_driver(
        tmp_path,
        {
            "bootstrap": bootstrap, "jars": jars(), "conf": few, "topic": topic, "formats": places, "job": str(job),
            "checkpoint": str(tmp_path / "job-checkpoint"),
        },
    )  # fmt: skip
    records = expected(bootstrap, topic)
    assert len(records) == FIRST + MORE
    for table, place in places.items():
        found = result[table]
        assert found["rows"] == records
        assert found["again"] == 0
        assert found["empty"] == f"{place['archive']}-empty has no records yet"
        assert found["findings"] == []
        assert found["ahead"] == [len(records) - PARTITIONS * BEFORE, []]
        assert found["written"] == len(records)
        assert seen(bootstrap, place["target"]) == seen(bootstrap, topic)
        assert found["sink"] == [row[:2] for row in records]


@pytest.mark.parametrize("table", COMMITTED)
def test_a_package_that_is_missing_is_named(spark: SparkSession, bootstrap: str, table: str, tmp_path: Path) -> None:
    plan = archive.Archive(KafkaCluster({"bootstrap.servers": bootstrap}), "any", str(tmp_path / "archive"), table=table)
    with pytest.raises(PipelineError, match=f"^Spark has no {table}: name its package with --packages$"):
        archive.run(spark, plan, print)
    assert not (tmp_path / "archive").exists()  # else it would be an archive of this format


def expected(bootstrap: str, topic: str) -> list[Any]:
    """The topic's records as the driver tells rows. Nothing is transactional: offsets have no gaps."""
    rows: list[Any] = []
    for partition, ms, key, value, headers in seen(bootstrap, topic):
        offset = rows[-1][1] + 1 if rows and rows[-1][0] == partition else 0
        named = [[name, None if content is None else content.hex()] for name, content in headers]
        day = time.strftime("%Y-%m-%d", time.gmtime(ms / 1000))
        key_hex, value_hex = (None if content is None else content.hex() for content in (key, value))
        rows.append([partition, offset, ms, key_hex, value_hex, named or None, day])
    return rows


def run_driver(directory: Path, plan: dict[str, Any]) -> dict[str, Any]:
    (directory / "plan.json").write_text(json.dumps(plan))
    words = [sys.executable, "-m", "compat_tests.spark_tables", str(directory / "plan.json"), str(directory / "result.json")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S, check=False, env=QUICK, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    found: dict[str, Any] = json.loads((directory / "result.json").read_text())
    return found
