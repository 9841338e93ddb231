"""`format("ottla")` beside Spark's kafka connector: the same rows from a broker's directory as from the broker, while it runs.

Both kinds of broker write the directory: transactions that commit, abort and stay open, every codec, headers, nulls, small
segments, and a topic that was compacted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from compat_tests.audits import COMPACTED, audited, compact
from compat_tests.brokers import CLASSES, Address
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.test_spark import run_stream
from compat_tests.times import TODAY_MS
from compat_tests.topics import make_topics
from compat_tests.wire import Wire
from ottla.commands.clients.client import Cluster
from ottla.commands.pipeline.gaps import is_compacted
from ottla.pipeline import archive, audit_job, replay
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.source import register
from ottla.wire.records import Record, build_batch

pytestmark = pytest.mark.spark

LONGEST_TRANSACTION_MS = 900_000
"""The most that brokers allow (transaction.max.timeout.ms)."""
COMPACTED_BYTES = 15_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COLUMNS = ("topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers")
SMALL = {"log.cleaner.backoff.ms": "200", "log.segment.delete.delay.ms": "1000"}
PARTITIONS = {"mixed": 3, "stamped": 1, "compacted": 1, "untimed": 1}
CONFIGS = {
    "mixed": {"segment.bytes": "1048576", "index.interval.bytes": "512"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "untimed": {"retention.ms": "-1"},
    "compacted": COMPACTED,
}


@pytest.fixture(scope="module")
def written(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker with the topics `mixed`, `stamped`, `untimed` and `compacted`."""
    broker = CLASSES[kind](tmp_path_factory.mktemp(f"segments-{kind}") / "broker", dict(SMALL))
    try:
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topics = [NewTopic(name, partitions, 1, config=CONFIGS[name]) for name, partitions in PARTITIONS.items()]
        for future in admin.create_topics(topics).values():
            future.result(timeout=30)
        for codec in CODECS:
            write(broker.bootstrap, codec)
        transactions(broker.bootstrap)
        untimed(kind, broker)
        compact(broker.bootstrap, "compacted", lambda: is_small(broker.data_dir / "compacted-0"))
        keep_compacted(broker.bootstrap)
        yield broker
    finally:
        broker.stop()


def write(bootstrap: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, "enable.idempotence": True})
    for at in range(2000):
        producer.produce(
            "mixed" if at % 10 else "stamped",
            partition=at % 3 if at % 10 else 0,
            key=None if at % 5 == 0 else f"{codec}-{at}",
            value=None if at % 7 == 0 else f"value {at} ".encode() * 20,
            timestamp=TODAY_MS + at * 1000 - (at % 13) * 5000,
            headers=[("codec", codec.encode()), ("none", None)] if at % 4 == 0 else None,
        )
    assert producer.flush(30) == 0


def transactions(bootstrap: str) -> None:
    """Some of each end; the last one stays open and holds back partition 1, for longer than these tests take."""
    for at, end in enumerate(["commit", "abort", "abort", "commit", "open"]):
        named = {"transactional.id": f"segments-{at}", "transaction.timeout.ms": LONGEST_TRANSACTION_MS}
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": CODECS[at], **named})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(30):
            partition = 1 if end == "open" else number % 3
            producer.produce("mixed", partition=partition, key=end, value=f"{end} {at} {number}", timestamp=TODAY_MS)
        assert producer.flush(30) == 0
        if end == "commit":
            producer.commit_transaction(30)
        elif end == "abort":
            producer.abort_transaction(30)
        write_one(bootstrap, at)


def write_one(bootstrap: str, at: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(3):
        producer.produce("mixed", partition=partition, key="between", value=f"between {at}", timestamp=TODAY_MS)
    assert producer.flush(30) == 0


def untimed(kind: str, broker: BrokerProcess) -> None:
    """Records of no time (-1) and of the first time there is (0), in batches of their own and with others."""
    wire = Wire(Address(kind, broker.port, 0, ""), "unused")
    for number, times in enumerate([[-1] * 20, [0] * 20, [-1, 0, TODAY_MS] * 10]):
        records = [Record(0, ms, b"k%d" % at, b"untimed %d %d" % (number, at)) for at, ms in enumerate(times)]
        answer = wire.produce("untimed", build_batch(records, codec=number))
        assert answer.responses[0].partition_responses[0].error_code == 0
    wire.close()


def keep_compacted(bootstrap: str) -> None:
    """The cleaner leaves it as it is now."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    still = ConfigEntry("min.cleanable.dirty.ratio", "1.0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "compacted", incremental_configs=[still])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(timeout=30)


def is_small(partition: Path) -> bool:
    """Are the partition's segments compacted, all in all? While the cleaner renames one, that cannot be said."""
    try:
        return sum(file.stat().st_size for file in partition.glob("*.log")) < COMPACTED_BYTES
    except FileNotFoundError:
        return False


def rows(frame: DataFrame) -> list[Any]:
    return sorted(map(tuple, frame.select(*COLUMNS).collect()), key=lambda row: row[:3])


def through_the_broker(spark: SparkSession, broker: BrokerProcess, topic: str, isolation: str, **options: str) -> list[Any]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("includeHeaders", "true")
    reader = reader.option("kafka.isolation.level", isolation).option("subscribe", topic)
    return rows(reader.options(**options).load())


def directly(spark: SparkSession, path: Path | str, isolation: str, **options: str) -> list[Any]:
    register(spark)
    reader = spark.read.format("ottla").option("includeHeaders", "true").option("isolation.level", isolation)
    return rows(reader.options(**options).load(str(path)))


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("topic", ["mixed", "stamped", "compacted", "untimed"])
def test_a_live_directory_reads_as_the_broker_does(
    spark: SparkSession, written: BrokerProcess, topic: str, isolation: str
) -> None:
    expected = through_the_broker(spark, written, topic, isolation)
    assert directly(spark, written.data_dir / topic, isolation) == expected
    assert directly(spark, written.data_dir, isolation, topic=topic, splitBytes="20000") == expected
    assert len(expected) > 45


def test_what_the_topics_hold_is_worth_the_comparison(spark: SparkSession, written: BrokerProcess) -> None:
    every, committed = (directly(spark, written.data_dir / "mixed", f"read_{kind}") for kind in ("uncommitted", "committed"))
    values = [bytes(row[4] or b"") for row in committed]
    assert any(value.startswith(b"commit") for value in values)
    assert not any(value.startswith((b"abort", b"open")) for value in values)
    assert len(every) > len(committed) + 60
    assert {row[6] for row in directly(spark, written.data_dir / "stamped", "read_committed")} == {1}
    offsets = [row[2] for row in directly(spark, written.data_dir / "compacted", "read_committed")]
    assert len(offsets) < 2000 < offsets[-1]
    assert {header.key for row in every for header in row[7] or ()} == {"codec", "none"}


@pytest.mark.parametrize("topic", ["compacted", "untimed"])
def test_archive_replay_and_audit(spark: SparkSession, written: BrokerProcess, topic: str, tmp_path: Path) -> None:
    expected = through_the_broker(spark, written, topic, "read_committed")
    kafka, directory, target = KafkaCluster({"bootstrap.servers": written.bootstrap}), str(tmp_path / "archive"), f"{topic}-again"
    assert archive.run(spark, archive.Archive(kafka, topic, directory), print).records == len(expected)
    kept, _ = archive.read(spark, directory)
    assert rows(kept.withColumnRenamed("timestamp_type", "timestampType")) == expected

    make_topics(written.bootstrap, 1, target)
    assert replay.run(spark, replay.Replay(kafka, directory, target), 1) == replay.Totals(len(expected), 0)
    again = through_the_broker(spark, written, target, "read_committed")
    pairs = list(zip(expected, again, strict=True))
    assert all((one[3:5], one[7]) == (other[3:5], other[7]) for one, other in pairs)
    first = datetime.fromtimestamp(0)
    assert all(one[5] == other[5] or (one[5] == first and other[5] > first) for one, other in pairs)  # librdkafka's 0 is now

    is_to_lose = is_compacted(Cluster({"bootstrap.servers": written.bootstrap}), topic)
    assert is_to_lose == (topic == "compacted")
    for against in [directory, *([target] if is_to_lose else [])]:
        report = audited(spark, written.bootstrap, topic, against, allow_gaps=is_to_lose)
        assert report == audit_job.Report(len(expected), [])
        if is_to_lose:
            found = audited(spark, written.bootstrap, topic, against).findings
            assert {finding.kind for finding in found} == {"gap"}


def test_a_range_of_offsets_and_of_times(spark: SparkSession, written: BrokerProcess) -> None:
    starting, ending = '{"mixed": {"0": 100, "1": 7, "2": -2}}', '{"mixed": {"0": 900, "1": 1000, "2": -1}}'
    options = {"startingOffsets": starting, "endingOffsets": ending}
    expected = through_the_broker(spark, written, "mixed", "read_committed", **options)
    assert directly(spark, written.data_dir / "mixed", "read_committed", **options) == expected
    later = str(TODAY_MS + 1_234_567)
    expected = through_the_broker(spark, written, "mixed", "read_uncommitted", startingTimestamp=later)
    assert directly(spark, written.data_dir / "mixed", "read_uncommitted", startingTimestamp=later) == expected
    exact = [
        row for row in through_the_broker(spark, written, "mixed", "read_uncommitted") if row[5].timestamp() * 1000 >= int(later)
    ]
    assert directly(spark, written.data_dir / "mixed", "read_uncommitted", fromTimestamp=later) == exact


def test_a_copy_of_the_directory_as_a_power_cut_leaves_it(spark: SparkSession, written: BrokerProcess, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(written.data_dir, copy, ignore=shutil.ignore_patterns("*.tmp"))  # of the running broker: they come and go
    for isolation in ("read_uncommitted", "read_committed"):
        assert directly(spark, copy / "mixed", isolation) == through_the_broker(spark, written, "mixed", isolation)


def test_a_stream_tails_the_directory(spark: SparkSession, written: BrokerProcess, tmp_path: Path) -> None:
    make_topics(written.bootstrap, 2, "tailed")
    register(spark)

    def run_once() -> None:
        stream = spark.readStream.format("ottla").option("startingOffsets", "earliest").load(str(written.data_dir / "tailed"))
        run_stream(
            stream.select("partition", "offset", F.col("value").cast("string").alias("value"))
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    expected: list[str] = []
    producer = Producer({"bootstrap.servers": written.bootstrap})
    for turn in ("a", "b"):
        for at in range(500):
            producer.produce("tailed", partition=at % 2, value=f"{turn}{at}")
        assert producer.flush(30) == 0
        expected += [f"{turn}{at}" for at in range(500)]
        run_once()
        found = spark.read.parquet(str(tmp_path / "out")).collect()
        assert sorted(row.value for row in found) == sorted(expected)
        assert len({(row.partition, row.offset) for row in found}) == len(expected)


def test_a_mistake_is_told_by_load(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    with pytest.raises(Exception, match=r"SourceError: .* is not a log directory: it has neither partitions"):
        spark.read.format("ottla").load(str(tmp_path))
