"""`ottla pipeline run`: jobs in SQL and in Python, against ottla and against Apache Kafka; and the errors for bad ones.

The jobs run in the session that all tests with Spark share; one runs as the command, up to where it needs no Spark.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import functions as F

from compat_tests.test_pipeline import command
from compat_tests.times import TODAY_MS
from compat_tests.topics import committed_records, make_topics
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.run import RunningJob, RunOptions, run_job
from ottla.pipeline.signals import told_to_stop
from ottla.pipeline.sql.checkpoint import Checkpoint
from ottla.pipeline.sql.job import read_job
from ottla.pipeline.sql.sources import partitions_of_topics, topics_of
from ottla.pipeline.sql.topic_sink import TopicWriter

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

PARTITIONS = 2
HOUR = datetime.fromtimestamp(TODAY_MS / 1000, UTC).strftime("%Y-%m-%dT%H:")


class Bench:
    """A broker with topics of this test, and jobs run against it."""

    def __init__(self, bootstrap: str, spark: Any, unique: Callable[[str], str], directory: Path) -> None:
        self.bootstrap, self.spark, self.unique, self.directory = bootstrap, spark, unique, directory
        self.told: list[str] = []

    def topic(self, *values: str) -> str:
        name = self.unique("run")
        make_topics(self.bootstrap, PARTITIONS, name)
        self.produce(name, *values)
        return name

    def produce(self, topic: str, *values: str) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % PARTITIONS)
        assert producer.flush(30) == 0

    def records(self, topic: str, count: int, partitions: int = PARTITIONS) -> list[Any]:
        """Exactly so many committed ones."""
        found = committed_records(self.bootstrap, topic, partitions)
        assert len(found) == count, [message.value() for message in found]
        return found

    def run(self, text: str, name: str = "job.sql", checkpoint: str | None = "checkpoint", **variables: str) -> None:
        path = self.directory / name
        path.write_text(text)
        where = checkpoint if checkpoint is None or "://" in checkpoint else str(self.directory / checkpoint)
        options = RunOptions({"bootstrap.servers": self.bootstrap}, where, once=True, variables=variables, progress_s=1)
        with self.own_views():
            run_job(path, options, lambda _connectors, _settings: nullcontext(self.spark), self.told.append)

    @contextmanager
    def running(self, text: str, **variables: str) -> Iterator[RunningJob]:
        """A job that goes on until the end of the block."""
        path = self.directory / "job.sql"
        path.write_text(text)
        job, cluster = read_job(path, variables), KafkaCluster({"bootstrap.servers": self.bootstrap})
        options = RunOptions(from_beginning=True, variables=variables)
        partitions = partitions_of_topics(cluster, topics_of(job.steps))
        checkpoint = Checkpoint(self.spark, str(self.directory / "checkpoint"))
        running = RunningJob(job, self.spark, options, checkpoint, cluster, partitions, self.told.append)
        with self.own_views(), told_to_stop(running.started) as stop:
            running.start(stop)
            yield running

    @contextmanager
    def own_views(self) -> Iterator[None]:
        before = {view.name for view in self.spark.catalog.listTables()}
        try:
            yield
        finally:
            for name in {view.name for view in self.spark.catalog.listTables()} - before:
                self.spark.catalog.dropTempView(name)

    def more_partitions(self, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def last_commit(self, sink: str) -> Path:
        """Spark's note of the last micro-batch into a sink that is through."""
        files = (self.directory / "checkpoint" / sink / "commits").iterdir()
        return max((file for file in files if file.name.isdecimal()), key=lambda file: int(file.name))

    def error(self, text: str, name: str = "job.sql", checkpoint: str | None = "checkpoint", **variables: str) -> str:
        with pytest.raises(PipelineError) as raised:
            self.run(text, name, checkpoint, **variables)
        said = str(raised.value)
        assert "\n" not in said
        return said.removeprefix(f"{self.directory}/")


@pytest.fixture
def bench(bootstrap: str, spark: Any, unique: Callable[[str], str], tmp_path: Path) -> Bench:
    return Bench(bootstrap, spark, unique, tmp_path)


JOB = """
CREATE STREAM clicks (user STRING, at TIMESTAMP, n INT) FROM TOPIC ${clicks} WATERMARK at DELAY OF INTERVAL 1 MINUTE;
CREATE TABLE people (user STRING, name STRING) FROM TOPIC ${people};
CREATE TEMPORARY VIEW named AS SELECT name, at, n, clicks._offset FROM clicks JOIN people USING (user);

CREATE SINK minutes TO TOPIC ${minutes} WITH (key = 'name', timestamp = 'minute', partitions = '2');
CREATE SINK rows TO PARQUET '${rows}' WITH (partition_by = 'name');
INSERT INTO minutes
SELECT name, window.start AS minute, sum(n) AS n, CAST(NULL AS INT) AS nothing FROM named GROUP BY name, window(at, '1 minute');
INSERT INTO rows SELECT * FROM named;
"""


def click(user: str, minute: int, number: int) -> str:
    return json.dumps({"user": user, "at": f"{HOUR}{minute:02}:30Z", "n": number})


def test_windows_and_joins_go_to_a_topic_and_a_table_and_on_from_the_checkpoint(bench: Bench) -> None:
    people = bench.topic(*(json.dumps({"user": user, "name": name}) for user, name in (("a", "Ada"), ("b", "Bob"))))
    clicks = bench.topic(click("a", 1, 3), click("b", 1, 5), click("a", 1, 4), click("c", 1, 9), click("a", 5, 1))
    topics = {"people": people, "clicks": clicks, "minutes": bench.unique("minutes"), "rows": str(bench.directory / "rows")}
    bench.run(JOB, **topics)
    first = {
        message.key(): (message.timestamp()[1], json.loads(message.value())) for message in bench.records(topics["minutes"], 2)
    }
    at_ms = int(datetime.fromisoformat(f"{HOUR}01:00Z").timestamp() * 1000)
    minute = f"{HOUR}01:00.000Z"
    assert first == {
        b"Ada": (at_ms, {"name": "Ada", "minute": minute, "n": 7, "nothing": None}),
        b"Bob": (at_ms, {"name": "Bob", "minute": minute, "n": 5, "nothing": None}),
    }
    assert any(line.startswith("rows: 5 rows, ") and "lag 0 records" in line for line in bench.told), bench.told

    bench.run(JOB, **topics)  # nothing new: nothing twice
    bench.produce(clicks, click("b", 9, 2), click("b", 9, 6))
    bench.run(JOB, **topics)
    assert sorted(json.loads(message.value())["n"] for message in bench.records(topics["minutes"], 3)) == [1, 5, 7]
    table = bench.spark.read.parquet(topics["rows"])
    assert sorted((row.name, row.n) for row in table.select("name", "n").collect()) == [
        ("Ada", 1), ("Ada", 3), ("Ada", 4), ("Bob", 2), ("Bob", 5), ("Bob", 6),
    ]  # fmt: skip


PYTHON = """# /// job
# [streams.words]
# topic = "${words}"
# format = "text"
# [sinks.loud]
# topic = "${loud}"
# format = "text"
# delivery = "at-least-once"
# ///
def run(job):
    words = job.stream("words")
    job.insert("loud", words.selectExpr("upper(value) AS value"))
"""


def test_a_job_in_python_with_all_in_its_header(bench: Bench) -> None:
    topics = {"words": bench.topic("one", "two"), "loud": bench.topic()}
    bench.run(PYTHON, "job.py", **topics)
    assert sorted(message.value() for message in bench.records(topics["loud"], 2)) == [b"ONE", b"TWO"]
    broken = PYTHON.replace("upper(value)", "upper(valeu)")
    said = bench.error(broken, "job.py", **topics)
    assert said.startswith("job.py:12: AnalysisException: A column"), said


VARIABLES = """# /// job
# [streams.words]
# topic = "${words}"
# format = "text"
# ///
def run(job):
    price = 3
    assert f"${price}" == "$3"
    job.sql("CREATE SINK loud TO TOPIC ${loud} WITH (format = 'text')")
    job.insert("loud", job.stream("words").selectExpr(f"concat(value, '{job.variables['end']}') AS value"))
    if job.variables["end"] == "?":
        job.sql("SELECT '${nothing}'")
"""


def test_a_job_in_python_has_variables_and_dollars_of_its_own(bench: Bench) -> None:
    topics = {"words": bench.topic("one", "two"), "loud": bench.topic()}
    bench.run(VARIABLES, "job.py", **topics, end="!")
    assert sorted(message.value() for message in bench.records(topics["loud"], 2)) == [b"one!", b"two!"]
    said = bench.error(VARIABLES, "job.py", "other", **topics, end="?")
    assert said == "job.py:12: ${nothing} is not given: --set nothing=VALUE"


COPY = """
CREATE STREAM words FROM TOPIC ${words} WITH (format = 'text');
CREATE SINK out TO TOPIC ${out} WITH (format = 'text');
INSERT INTO out SELECT value FROM words;
"""


def test_a_half_written_batch_runs_again_by_as_many_tasks_as_before(bench: Bench) -> None:
    """Its driver died after one of two tasks, and meanwhile the topic has got a third partition."""
    topics = {"words": bench.topic("first"), "out": bench.topic()}
    bench.run(COPY, **topics)
    words = [f"word {number}" for number in range(40)]
    bench.produce(topics["words"], *words)
    rows = bench.spark.createDataFrame([(None, word.encode(), None) for word in words], "key BINARY, value BINARY, ms BIGINT")
    spread = rows.repartition(2, F.coalesce("key", "value")).where(F.spark_partition_id() == 0).collect()
    half = [(None, bytes(row.value), None) for row in spread]
    assert 0 < len(half) < len(words)
    query = json.loads((bench.directory / "checkpoint" / "out" / "metadata").read_text())["id"]
    batch = int(bench.last_commit("out").name) + 1
    assert TopicWriter({"bootstrap.servers": bench.bootstrap}, topics["out"], query, batch).write(0, half) == len(half)
    bench.more_partitions(topics["out"], 3)
    bench.run(COPY, **topics)
    found = [message.value().decode() for message in bench.records(topics["out"], len(words) + 1, 3)]
    assert sorted(found) == sorted(["first", *words])


def test_a_checkpoint_that_does_not_say_how_many_tasks_is_refused(bench: Bench) -> None:
    topics = {"words": bench.topic("first"), "out": bench.topic()}
    bench.run(COPY, **topics)
    note = bench.directory / "checkpoint" / "out" / "_ottla.json"
    note.write_text('{"tasks": 3}')
    note.with_name("._ottla.json.crc").unlink()
    assert bench.error(COPY, **topics) == f"job.sql:4: {topics['out']} has 2 partitions, and the checkpoint of out is of 3"
    note.write_text("{}")
    assert bench.error(COPY, **topics).endswith("_ottla.json does not say by how many tasks the query into out writes")
    note.write_text("{")
    assert "_ottla.json cannot be read: " in bench.error(COPY, **topics)
    note.unlink()
    assert "_ottla.json cannot be read: there is no such file, though the query has run" in bench.error(COPY, **topics)


JOIN = """
CREATE STREAM clicks (user STRING, n INT) FROM TOPIC ${clicks};
CREATE TABLE people (user STRING, name STRING) FROM TOPIC ${people};
CREATE SINK out TO TOPIC ${out} WITH (format = 'text', delivery = 'at-least-once');
INSERT INTO out SELECT concat(n, ' ', name) AS value FROM clicks JOIN people USING (user);
"""


def person(user: str, name: str) -> str:
    return json.dumps({"user": user, "name": name})


def test_a_table_is_what_the_topic_held_when_the_job_started(bench: Bench) -> None:
    topics = {"people": bench.topic(person("a", "Ada")), "clicks": bench.topic(click("a", 1, 1)), "out": bench.topic()}
    with bench.running(JOIN, **topics) as running:
        (query, _line) = running.queries["out"]
        query.processAllAvailable()
        bench.more_partitions(topics["people"], 3)
        bench.produce(topics["people"], person("b", "Bob"), person("a", "Eve"))
        bench.produce(topics["clicks"], click("a", 1, 2), click("b", 1, 3))
        query.processAllAvailable()
    assert sorted(message.value() for message in bench.records(topics["out"], 2)) == [b"1 Ada", b"2 Ada"]


def test_a_batch_that_runs_again_joins_what_it_joined_and_the_next_start_what_is_there(bench: Bench) -> None:
    topics = {"people": bench.topic(person("a", "Ada")), "clicks": bench.topic(click("a", 1, 1)), "out": bench.topic()}
    bench.run(JOIN, **topics)
    last = bench.last_commit("out")  # as if its driver had died just before
    for file in (last, last.with_name(f".{last.name}.crc")):
        file.unlink()
    bench.produce(topics["people"], person("b", "Bob"), person("a", "Eve"))
    bench.run(JOIN, **topics)
    assert [message.value() for message in bench.records(topics["out"], 2)] == [b"1 Ada", b"1 Ada"]
    assert "people stays as it was: a micro-batch of out runs again" in bench.told
    bench.produce(topics["clicks"], click("a", 1, 2), click("b", 1, 3))
    bench.run(JOIN, **topics)
    found = sorted(message.value() for message in bench.records(topics["out"], 5))
    assert found == [b"1 Ada", b"1 Ada", b"2 Ada", b"2 Eve", b"3 Bob"]


def test_a_table_begins_at_a_time_and_stays_so(bench: Bench) -> None:
    """In a partition without a record of that time it has no rows, whatever comes."""
    topics = {"people": bench.topic(person("a", "Ada")), "clicks": bench.topic(click("a", 1, 1)), "out": bench.topic()}
    soon = "9999-01-01T00:00"
    job = JOIN.replace("${people};", f"${{people}} WITH (from = '{soon}');")
    with bench.running(job, **topics) as running:
        (query, _line) = running.queries["out"]
        query.processAllAvailable()
        bench.produce(topics["people"], person("a", "Ada"), person("a", "Eve"))
        bench.produce(topics["clicks"], click("a", 1, 2))
        query.processAllAvailable()
    assert bench.records(topics["out"], 0) == []


INTO_OUT = "INSERT INTO out SELECT n FROM s;"
STREAM = "CREATE STREAM s (n INT, at TIMESTAMP) FROM TOPIC ${topic};\nCREATE SINK out TO PARQUET '${out}';\n"


@pytest.mark.kafka_in_full
@pytest.mark.parametrize(
    ("job", "said"),
    [
        (STREAM + "INSERT INTO out\nSELECT n,\n  wrong FROM s;", "job.sql:5: A column, variable, or function parameter"),
        (STREAM + "INSERT INTO out\nSELECT n FORM s WHERE;", "job.sql:4: Syntax error at or near"),
        (STREAM.replace("INT", "INTT") + INTO_OUT, 'job.sql:1: bad schema of s: Unsupported data type'),
        (STREAM.replace("'${out}'", "'${out}' WITH (partition_by = 'x')") + INTO_OUT, "job.sql:3: sink out is part"),
        (STREAM + "INSERT INTO out SELECT count(*) AS n FROM s GROUP BY at;", "job.sql:3: query into out: Invalid"),
        (STREAM + "INSERT INTO out SELECT 1 AS n;", "job.sql:3: nothing in the query into out is a stream"),
        (STREAM + "INSERT INTO nowhere SELECT n FROM s;", "job.sql:3: there is no sink nowhere; there are out"),
        (STREAM + "SELECT * FROM s;", "job.sql:3: a stream of rows that goes nowhere"),
        (STREAM, "job.sql: the job inserts into no sink"),
        (STREAM.replace("${topic};", "${topic} WATERMARK n DELAY OF INTERVAL 1 DAY;"), "job.sql:1: the watermark of s"),
        (STREAM.replace("${topic}", "none-such"), "job.sql:1: unknown topic none-such at "),
        (STREAM.replace("PARQUET", "DELTA") + INTO_OUT, "job.sql:3: query into out: Spark has no delta: name its"),
        (STREAM + INTO_OUT, "job.sql:3: query into out: "),  # the value is no JSON
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_with_the_line_of_the_file(bench: Bench, job: str, said: str) -> None:
    assert bench.error(job, topic=bench.topic("no json"), out=str(bench.directory / "out")).startswith(said)


def test_a_checkpoint_is_an_address_of_any_file_system(bench: Bench) -> None:
    topics = {"words": bench.topic("one"), "out": bench.topic()}
    where = f"file://{bench.directory}/new/directories"
    for _ in range(2):
        bench.run(COPY, checkpoint=where, **topics)
    assert [message.value() for message in bench.records(topics["out"], 1)] == [b"one"]
    assert {path.name for path in (bench.directory / "new" / "directories" / "out").iterdir()} >= {"metadata", "_ottla.json"}
    said = bench.error(COPY, checkpoint="nowhere://host/x", **topics)
    assert said.startswith("job.sql: the checkpoint directory nowhere://host/x cannot be made: "), said
    assert not Path("nowhere:").exists()


def test_a_checkpoint_must_be_named_and_possible(bench: Bench) -> None:
    topic, out = bench.topic(), str(bench.directory / "out")
    assert bench.error(STREAM, checkpoint=None, topic=topic, out=out).startswith("job.sql: no checkpoint directory")
    said = bench.error(STREAM, checkpoint="job.sql/below-a-file", topic=topic, out=out)
    assert said.startswith("job.sql: the checkpoint directory ")


def test_the_command_ends_with_one_line(bench: Bench) -> None:
    job = bench.directory / "job.sql"
    job.write_text(STREAM)
    words = ["run", str(job), "--checkpoint", str(bench.directory / "c"), "--set", "out=o"]
    unreachable = command("127.0.0.1:1", *words, "--set", "topic=t")
    unknown = command(bench.bootstrap, *words, "--set", "topic=none-such")
    for arguments, said in ((unreachable, "no broker answers at 127.0.0.1:1"), (unknown, "unknown topic none-such")):
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)
        assert (done.returncode, done.stdout) == (1, "")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
