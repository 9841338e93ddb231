"""`ottla pipeline archive`, `replay` and `audit` against ottla and against Apache Kafka.

A topic with every kind of record goes to Parquet and back; what a plain consumer reads of both topics is the same, record for
record. The driver is killed -9 where a batch is planned, where its files are listed, and in the middle of a replay. An audit
passes after each, and names the record that was removed, doubled or changed on purpose.

One Spark session serves what needs no process of its own. The commands themselves run where they are killed, and where they fail.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from compat_tests.audits import audited
from compat_tests.times import TODAY_MS
from compat_tests.topics import committed_records
from compat_tests.waiting import wait_for
from ottla.commands.clients.client import Cluster
from ottla.commands.pipeline.gaps import snapshot
from ottla.pipeline import archive, audit_job, replay
from ottla.pipeline.audit import Finding
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.compare import islands
from ottla.pipeline.errors import PipelineError, in_one_line
from ottla.pipeline.files import Files

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PARTITIONS = 3  # of `topic_of`
SPAN_MS = 100_000_000
EARLIEST_MS = TODAY_MS - SPAN_MS  # a broker takes no time that is an hour ahead
RUN_S = 300
WAIT_S = 240
TOO_LARGE = "Unable to produce message: Broker: Message size too large"  # as librdkafka says it

Name = Callable[[str], str]
Seen = list[tuple[Any, int, bytes | None, bytes | None, Any]]
"""(partition, time in ms, key, value, headers). Any: the client's stub allows no partition, and a dict of headers."""


def fill(bootstrap: str, topic: str, count: int, start: int = 0) -> None:
    """Records with and without key, value and headers, with empty ones, and times that go back and forth over two days."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    failed: list[Any] = []
    for i in range(start, start + count):
        key = (None, b"", b"k%d" % (i % 17))[min(i % 5, 2)]
        value = (None, b"", b'{"id": %d, "name": "n%d"}' % (i, i))[min(i % 7, 2)]
        headers: Any = [("a", b"1"), ("a", None), ("b", b"")] if i % 3 == 0 else []
        at_ms = EARLIEST_MS + (i * 7_919_000) % SPAN_MS
        told = {"partition": i % PARTITIONS, "timestamp": at_ms, "headers": headers}
        producer.produce(topic, value, key, **told, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    assert not failed


def seen(bootstrap: str, topic: str) -> Seen:
    """Returns what a reader of committed records gets, partition by partition."""
    found: Seen = [
        (message.partition(), message.timestamp()[1], message.key(), message.value(), message.headers() or [])
        for message in committed_records(bootstrap, topic, PARTITIONS)
    ]
    return sorted(found, key=lambda record: record[0])  # stable: the order within a partition stays


def kafka(bootstrap: str) -> KafkaCluster:
    return KafkaCluster({"bootstrap.servers": bootstrap})


def archived(spark: SparkSession, bootstrap: str, topic: str, to: Path, **more: Any) -> archive.Totals:
    lines: list[str] = []
    totals = archive.run(spark, archive.Archive(kafka(bootstrap), topic, str(to), **more), lines.append)
    assert len(lines) == totals.batches
    return totals


def test_there_and_back_is_the_same(spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path) -> None:
    source, target = topic_of("pipe-source"), topic_of("pipe-target")
    directory = tmp_path / "archive"
    assert archived(spark, bootstrap, source, directory).records == 0
    with pytest.raises(PipelineError, match="has no records yet"):
        archive.read(spark, str(directory))
    fill(bootstrap, source, 1000)
    assert archived(spark, bootstrap, source, directory).records == 1000
    fill(bootstrap, source, 500, start=1000)
    assert archived(spark, bootstrap, source, directory, batch_records=200).records == 500
    assert archived(spark, bootstrap, source, directory).records == 0

    plan = replay.Replay(kafka(bootstrap), str(directory), target)
    assert replay.run(spark, plan, PARTITIONS) == replay.Totals(1500, 0)
    assert replay.run(spark, plan, PARTITIONS) == replay.Totals(0, 1500)  # kept in the plan's group
    assert seen(bootstrap, target) == seen(bootstrap, source)

    for against in (str(directory), target):
        report = audited(spark, bootstrap, source, against)
        assert report == audit_job.Report(1500, [])
    days = {time.strftime("date=%Y-%m-%d", time.gmtime(record[1] / 1000)) for record in seen(bootstrap, source)}
    assert {path.name for path in directory.glob("date=*")} == days


def test_replay_of_a_time_and_of_keys(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path
) -> None:
    source, target, by_key, by_pattern = (topic_of(f"pipe-{name}") for name in ("all", "time", "key", "pattern"))
    fill(bootstrap, source, 300)
    archived(spark, bootstrap, source, tmp_path / "archive")
    since, until = EARLIEST_MS + 10_000_000, EARLIEST_MS + 60_000_000
    plan = replay.Replay(kafka(bootstrap), str(tmp_path / "archive"), target, since_ms=since, until_ms=until)
    replay.run(spark, plan, PARTITIONS)
    everything = seen(bootstrap, source)
    chosen = [record for record in everything if since <= record[1] < until]
    assert 100 < len(chosen) < 200
    assert seen(bootstrap, target) == chosen

    replay.run(spark, changed(plan, topic=by_key, since_ms=None, until_ms=None, keys=("k3", "")), PARTITIONS)
    assert seen(bootstrap, by_key) == [record for record in everything if record[2] in {b"k3", b""}]
    replay.run(spark, changed(plan, topic=by_pattern, since_ms=None, until_ms=None, key_pattern="^k1[0-3]$|9"), PARTITIONS)
    wanted = {b"k9", b"k10", b"k11", b"k12", b"k13"}
    assert seen(bootstrap, by_pattern) == [record for record in everything if record[2] in wanted]
    assert {record[2] for record in everything} > wanted
    with pytest.raises(PipelineError, match="has 2 partitions, but the archive 3"):
        replay.run(spark, plan, 2)


def test_a_second_run_is_refused_and_what_it_may_have_written_stays(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path
) -> None:
    topic, directory = topic_of("pipe-twice"), tmp_path / "archive"
    fill(bootstrap, topic, 30)
    archived(spark, bootstrap, topic, directory)
    (file, *_) = directory.glob("date=*/*.parquet")
    old, new = (file.with_name(f"{name}.parquet") for name in ("old", "new"))
    for stray, at_s in ((old, TODAY_MS / 1000), (new, time.time() + 3600)):
        shutil.copy(file, stray)
        os.utime(stray, (at_s, at_s))
    with Files(spark, f"file://{directory}").alone(), pytest.raises(PipelineError, match=r"^another run is at work in "):
        archived(spark, bootstrap, topic, directory)
    assert archived(spark, bootstrap, topic, directory).orphans == 1
    assert (old.exists(), new.exists(), file.exists()) == (False, True, True)


def test_an_audit_finds_what_was_done_to_an_archive(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topic_of("pipe-audit")
    fill(bootstrap, topic, 600)
    directory = tmp_path / "archive"
    archived(spark, bootstrap, topic, directory)

    def after(change: Callable[[pa.Table], pa.Table]) -> tuple[list[Finding], tuple[int, int]]:
        file = max(directory.glob("date=*/*.parquet"), key=lambda path: path.stat().st_size)
        before = file.read_bytes()
        table = pq.ParquetFile(file).read()
        place = (table["partition"][5].as_py(), table["offset"][5].as_py())
        rewrite(directory, file, change(table))
        found = audited(spark, bootstrap, topic, str(directory)).findings
        rewrite(directory, file, before)
        return found, place

    found, place = after(lambda table: pa.concat_tables([table.slice(0, 5), table.slice(6)]))
    assert [finding[:5] for finding in found] == [("missing", place[0], place[1], place[1], 1)]
    found, place = after(lambda table: pa.concat_tables([table, table.slice(5, 1)]))
    assert [finding[:5] for finding in found] == [("double", place[0], place[1], place[1], 1)]
    found, place = after(swap_headers)
    assert [finding[:5] for finding in found] == [("changed", place[0], place[1], place[1], 1)]
    assert audited(spark, bootstrap, topic, str(directory)).findings == []

    fill(bootstrap, topic, 3, start=600)
    assert [finding[:2] for finding in audited(spark, bootstrap, topic, str(directory)).findings] == [
        ("missing", partition) for partition in range(PARTITIONS)
    ]


def rewrite(directory: Path, file: Path, content: pa.Table | bytes) -> None:
    """Another content for a data file, with its size where the sink has listed it."""
    size = file.stat().st_size
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        pq.write_table(content, file, use_deprecated_int96_timestamps=True)  # as Spark writes them
    for checksum in (file.with_name(f".{file.name}.crc"), directory / "_spark_metadata" / ".0.crc"):
        checksum.unlink(missing_ok=True)
    listed = directory / "_spark_metadata" / "0"
    lines = listed.read_text().splitlines()
    told = [line.replace(f'"size":{size}', f'"size":{file.stat().st_size}') if file.name in line else line for line in lines]
    listed.write_text("\n".join(told))


def swap_headers(table: pa.Table) -> pa.Table:
    """Row 5 with another header."""
    rows = table.column("headers").to_pylist()
    rows[5] = [{"key": "forged", "value": b"x"}]
    at = table.schema.get_field_index("headers")
    return table.set_column(at, table.schema.field(at), pa.chunked_array([pa.array(rows, table.schema.field(at).type)]))


def test_an_audit_of_two_topics_names_what_only_one_has_and_what_stands_elsewhere(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str]
) -> None:
    one, other = topic_of("pipe-one"), topic_of("pipe-other")
    fill(bootstrap, one, 90)
    fill(bootstrap, other, 90)
    assert audited(spark, bootstrap, one, other) == audit_job.Report(90, [])
    assert audited(spark, bootstrap, one, f"{bootstrap}/{other}") == audit_job.Report(90, [])
    fill(bootstrap, other, 1, start=30)  # one more time
    assert [finding[:5] for finding in audited(spark, bootstrap, one, other).findings] == [("extra", 0, 10, 10, 1)]
    fill(bootstrap, one, 3, start=90)
    fill(bootstrap, one, 1, start=30)
    fill(bootstrap, other, 3, start=90)
    found = audited(spark, bootstrap, one, other).findings
    assert [(finding.kind, finding.partition, finding.first, finding.last) for finding in found] == [("order", 0, 30, 31)]


def test_neighbours_are_one_finding_and_the_rest_is_known_of(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topic_of("pipe-limit")
    fill(bootstrap, topic, 30)
    directory = tmp_path / "archive"
    archived(spark, bootstrap, topic, directory)
    fill(bootstrap, topic, 60, start=30)
    report = audited(spark, bootstrap, topic, str(directory), limit=PARTITIONS)
    whole = [Finding("missing", partition, 10, 29, 20, "only in the topic") for partition in range(PARTITIONS)]
    assert report == audit_job.Report(90, whole)
    assert audited(spark, bootstrap, topic, str(directory), limit=1) == audit_job.Report(90, whole[:1], ("missing",))

    empty = topic_of("pipe-limit-none")
    report = audited(spark, bootstrap, topic, empty)
    assert {finding.kind for finding in report.findings} == {"missing"}
    assert sum(finding.records for finding in report.findings) == 90


def test_findings_are_joined_where_kind_partition_and_reason_are_the_same(spark: SparkSession) -> None:
    def one(offset: int, kind: str = "missing", partition: int = 0, detail: str = "why") -> Finding:
        return Finding(kind, partition, offset, offset, 1, detail)

    rows = [one(3), one(5), one(4), one(7), one(8, partition=1), one(9, "extra", 1), one(-1, "extra", 1), one(0, "extra", 1)]
    found = islands(spark.createDataFrame([*rows, one(9, detail="else"), one(8, detail="else")]), 10)
    assert [f[:5] for f in found if f.kind == "missing"] == [
        ("missing", 0, 3, 5, 3),
        ("missing", 0, 7, 7, 1),
        ("missing", 0, 8, 9, 2),
        ("missing", 1, 8, 8, 1),
    ]
    assert [f[:5] for f in found if f.kind == "extra"] == [("extra", 1, -1, -1, 1), ("extra", 1, 0, 0, 1), ("extra", 1, 9, 9, 1)]


def test_identity_and_order_by_expressions(spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str]) -> None:
    topic = topic_of("pipe-id")
    fill(bootstrap, topic, 60)
    identity = "get_json_object(value, '$.id')"
    assert audited(spark, bootstrap, topic, id_expression=identity).findings == []
    fill(bootstrap, topic, 1, start=9)
    (found,) = audited(spark, bootstrap, topic, id_expression=identity).findings
    assert found == Finding("double", 0, 3, 20, 1, "identity 9")
    assert audited(spark, bootstrap, topic, id_expression="value:id").findings == [found]
    (found,) = audited(spark, bootstrap, topic, order_expression="value:id").findings
    assert found[:3] == ("order", 0, 20)
    with pytest.raises(PipelineError, match="is not an expression over the records"):
        audited(spark, bootstrap, topic, id_expression="nothing(")


def test_markers_and_aborted_records_are_no_gaps(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], unique: Name, tmp_path: Path
) -> None:
    topic = topic_of("pipe-txn")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("pipe")})
    producer.init_transactions(30)
    for round_ in range(6):
        producer.begin_transaction()
        for i in range(10):
            producer.produce(topic, f"{round_}-{i}", partition=i % PARTITIONS, timestamp=TODAY_MS + i)
        producer.flush(30)
        if round_ % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    assert audited(spark, bootstrap, topic) == audit_job.Report(30, [])
    archived(spark, bootstrap, topic, tmp_path / "archive")
    assert audited(spark, bootstrap, topic, str(tmp_path / "archive")) == audit_job.Report(30, [])


def test_json_by_a_schema_given_and_inferred(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topic_of("pipe-json")
    fill(bootstrap, topic, 50)
    for name, schema in (("given", "id BIGINT, name STRING"), ("inferred", None)):
        archived(spark, bootstrap, topic, tmp_path / name, kind="json", schema=schema)
        rows, what = archive.read(spark, str(tmp_path / name))
        assert what["value"] == "json"
        unpacked = [(row["value"], row["data"]) for row in rows.collect()]
        pairs = {(None if value is None else bytes(value), data and (data["id"], data["name"])) for value, data in unpacked}
        assert pairs == {
            (
                None if i % 7 == 0 else b"" if i % 7 == 1 else b'{"id": %d, "name": "n%d"}' % (i, i),
                None if i % 7 < 2 else (i, f"n{i}"),
            )
            for i in range(50)
        }
    with pytest.raises(PipelineError, match="by another schema"):
        archived(spark, bootstrap, topic, tmp_path / "given", kind="json", schema="id INT")
    with pytest.raises(PipelineError, match="--schema cannot be read"):
        archived(spark, bootstrap, topic, tmp_path / "bad", kind="json", schema="id BIGINT, name")
    with pytest.raises(PipelineError, match="is an archive with value json, not raw"):
        archived(spark, bootstrap, topic, tmp_path / "given")


def test_what_a_worker_raises_is_told_in_one_line(spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str]) -> None:
    topic = topic_of("pipe-refused")
    columns = "partition int, offset long, ms long, key binary, value binary, headers array<struct<key: string, value: binary>>"
    rows = spark.createDataFrame([(0, 0, TODAY_MS, None, bytes(5000), None)], columns)
    writer = replay.Writer(KafkaCluster({"bootstrap.servers": bootstrap, "message.max.bytes": "2000"}), topic, topic, None)

    def boom(_: Any) -> Any:
        raise ValueError("boom")

    for function, told in ((writer, f"topic {topic}: {TOO_LARGE}"), (boom, "ValueError: boom")):
        with pytest.raises(PythonException) as raised:
            rows.mapInArrow(function, replay.RESULT).collect()
        assert in_one_line(raised.value) == told


# The commands, in processes of their own


def command(bootstrap: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "ottla", "pipeline", *arguments, "--bootstrap", bootstrap]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """A command as leader of a process group, which its JVM is in, too; gone at the end in any case."""
    made: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        with open(tmp_path / f"command-{len(made)}.log", "wb") as log:
            made.append(subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True))
        return made[-1]

    yield start
    for process in made:
        if process.poll() is None:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of the driver, both its halves."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def kill_when(process: subprocess.Popen[bytes], condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.002)  # between two looks
    kill(process)


@pytest.mark.kafka_in_full
def test_archive_is_exactly_once_though_its_driver_is_killed(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path, started: Any
) -> None:
    topic = topic_of("pipe-killed")
    fill(bootstrap, topic, 6000)
    directory = tmp_path / "archive"
    planned, listed = directory / "_checkpoint" / "offsets", directory / "_spark_metadata"
    words = command(bootstrap, "archive", topic, "--to", str(directory), "--batch", "600", "--master", "local[2]")

    def files() -> int:
        return sum(1 for _ in directory.glob("date=*/*.parquet"))

    moments: list[Callable[[], bool]] = [
        (planned / "1").exists,  # planned, nothing read
        (listed / "3").exists,  # its files are listed, and the batch is not committed
        lambda: (planned / "5").exists() and files() > held[0],  # some of its files lie there, listed nowhere
    ]
    held = [10**9]
    for number, moment in enumerate(moments):
        if number == 2:
            held[0] = files() + 4
        kill_when(started(*words), moment, tmp_path / f"command-{number}.log")

    archived(spark, bootstrap, topic, directory, batch_records=600)
    assert audited(spark, bootstrap, topic, str(directory)) == audit_job.Report(6000, [])
    rows = pq.ParquetDataset([str(path) for path in directory.glob("date=*/*.parquet")]).read(["partition", "offset"])
    assert rows.num_rows == 6000  # also for readers that know nothing of the sink's lists


@pytest.mark.kafka_in_full
def test_archive_goes_on_until_ctrl_c(bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path, started: Any) -> None:
    topic, log = topic_of("pipe-goes-on"), tmp_path / "command-0.log"
    fill(bootstrap, topic, 30)
    words = command(bootstrap, "archive", topic, "--to", str(tmp_path / "archive"), "--master", "local[2]")
    process = started(*words, "--continuous", "--interval", "0.5")
    for number in range(2):
        told = f"batch {number}: "
        wait_for(lambda: told in log.read_text(), told, WAIT_S)  # noqa: B023 - asked before the next round
        fill(bootstrap, topic, 30, start=30 * number + 30)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the JVM gets it, too
    assert process.wait(60) == 0, log.read_text()
    # A batch that was under way is cancelled, and Spark's executor may log that, in the same file, whenever its task ends.
    ours = [line for line in log.read_text().splitlines() if line.startswith((f"{topic}: ", "batch "))]
    assert [line.startswith(f"{topic}: ") for line in ours] == [False] * (len(ours) - 1) + [True]
    assert "Traceback" not in log.read_text()


@pytest.mark.kafka_in_full
def test_replay_goes_on_where_it_was_killed(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path, started: Any
) -> None:
    source, target = topic_of("pipe-from"), topic_of("pipe-to")
    fill(bootstrap, source, 3000)
    directory = tmp_path / "archive"
    archived(spark, bootstrap, source, directory)
    words = command(bootstrap, "replay", str(directory), "--to", target, "--rate", "300", "--master", "local[3]")
    cluster = Cluster({"bootstrap.servers": bootstrap})

    def some_are_there() -> bool:
        return sum(end - begin for begin, end in snapshot(cluster, target).values()) > 300

    kill_when(started(*words), some_are_there, tmp_path / "command-0.log")
    totals = replay.run(spark, replay.Replay(kafka(bootstrap), str(directory), target), PARTITIONS)
    assert totals.already > 0
    assert totals.written + totals.already == 3000
    assert seen(bootstrap, target) == seen(bootstrap, source)
    assert audited(spark, bootstrap, source, target) == audit_job.Report(3000, [])


@pytest.mark.kafka_in_full
def test_avro_and_the_exit_codes_of_an_audit(
    spark: SparkSession, bootstrap: str, topic_of: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topic_of("pipe-avro")
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]}
    (tmp_path / "r.avsc").write_text(json.dumps(schema))
    producer = Producer({"bootstrap.servers": bootstrap})
    for i in range(20):
        body = bytes([2 * i, 2 * len(f"n{i}")]) + f"n{i}".encode()
        producer.produce(topic, b"\0\0\0\0\1" + body, partition=0, timestamp=TODAY_MS)
    assert producer.flush(30) == 0
    told = ["--value", "framed-avro", "--schema", str(tmp_path / "r.avsc"), "--master", "local[2]"]
    done = run(command(bootstrap, "archive", topic, "--to", str(tmp_path / "archive"), *told))
    assert done.returncode == 0, done.stderr
    rows, _ = archive.read(spark, str(tmp_path / "archive"))
    assert sorted((row["data"]["id"], row["data"]["name"]) for row in rows.collect()) == [(i, f"n{i}") for i in range(20)]

    producer.produce(topic, b"one more", partition=0, timestamp=TODAY_MS)
    assert producer.flush(30) == 0
    done = run(command(bootstrap, "audit", topic, "--against", str(tmp_path / "archive"), "--json", "--master", "local[2]"))
    assert done.returncode == 1
    assert [(found["kind"], found["from"]) for found in json.loads(done.stdout)] == [("missing", 20)]
    assert done.stderr.splitlines()[-1] == f"ottla: {topic}: 1 difference in 21 records"


def run(words: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=RUN_S, check=False, env={**os.environ, **environment})
