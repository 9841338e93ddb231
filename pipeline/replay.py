"""Writes an archive back into a topic: `ottla pipeline replay`.

Partitions, the order within them, keys, values, headers and timestamps stay the same. Spark's own kafka sink has no column for a
timestamp, so the executors use producers of their own: one task sorts one partition of the archive by offset and writes it.

**Resumable, and nothing twice.** Each partition has a transactional producer. With the records of a transaction it commits, in
the group `name`, how far into the archive they reach: the offset after the last of them. A run that is killed leaves a
transaction, which the next run aborts when it takes over the transactional id before it goes on from what is committed. So
readers of committed records see every record once. The group's offsets are those of the source, for the target's topic and
partition; like those of any group they expire a week after the last run (offsets.retention.minutes).

A record whose timestamp is 0 gets the time at which it is written, because 0 means that to librdkafka.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline import archive
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.group_offsets import committed_offset

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Producer
    from pyspark.sql import DataFrame, SparkSession

TRANSACTION_RECORDS: Final = 5_000
TRANSACTION_S: Final = 2.0
"""A transaction is committed when it has so many records, or is so old, because readers wait for it."""
TIMEOUT_S: Final = 60.0
RESULT: Final = "partition int, written long, already long"


@dataclass(frozen=True)
class Replay:
    """Says what to replay, where, and which records."""

    cluster: KafkaCluster
    directory: str
    topic: str
    name: str | None = None
    """The group that keeps how far the replay has come; None for a name derived from all other fields."""
    since_ms: int | None = None
    until_ms: int | None = None
    """The first timestamp that is not replayed."""
    keys: tuple[str, ...] = ()
    key_pattern: str | None = None
    """A regular expression of Spark that must match somewhere in the key."""
    rate: float | None = None
    """The records a second, over all partitions."""

    @property
    def group(self) -> str:
        if self.name is not None:
            return self.name
        told = repr((self.directory, self.topic, self.since_ms, self.until_ms, self.keys, self.key_pattern))
        return f"ottla-replay-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Totals:
    written: int
    already: int
    """The number of records that an earlier run had written."""


def run(spark: SparkSession, plan: Replay, target_partitions: int) -> Totals:
    """Writes what is not written yet. Raises PipelineError if the topic has too few partitions."""
    rows, _ = archive.read(spark, plan.directory)
    chosen = select(rows, plan)
    there = sorted(row["partition"] for row in chosen.select("partition").distinct().collect())
    if not there:
        return Totals(0, 0)
    if there[-1] >= target_partitions:
        raise PipelineError(f"{plan.topic} has {target_partitions} partitions, but the archive {there[-1] + 1}")
    tasks = min(len(there), spark.sparkContext.defaultParallelism)
    rate = None if plan.rate is None else plan.rate / tasks
    writer = Writer(plan.cluster, plan.topic, plan.group, rate)
    spread = chosen.repartition(tasks, "partition").sortWithinPartitions("partition", "offset")
    counts = spread.mapInArrow(writer, RESULT).collect()
    return Totals(sum(row["written"] for row in counts), sum(row["already"] for row in counts))


def select(rows: DataFrame, plan: Replay) -> DataFrame:
    """Returns the records that are to be replayed, with the columns that a producer needs."""
    from pyspark.sql import functions as F

    if plan.since_ms is not None:  # by the date Spark skips whole directories
        since = F.timestamp_millis(F.lit(plan.since_ms))
        rows = rows.where((F.col("timestamp") >= since) & (F.col("date") >= F.lit(_date(plan.since_ms))))
    if plan.until_ms is not None:
        until = F.timestamp_millis(F.lit(plan.until_ms))
        rows = rows.where((F.col("timestamp") < until) & (F.col("date") <= F.lit(_date(plan.until_ms))))
    if plan.keys:
        rows = rows.where(F.col("key").isin([F.lit(key.encode()) for key in plan.keys]))
    if plan.key_pattern is not None:
        rows = rows.where(F.col("key").cast("string").rlike(plan.key_pattern))
    return rows.select("partition", "offset", F.unix_millis("timestamp").alias("ms"), "key", "value", "headers")


def _date(ms: int) -> date:
    return datetime.fromtimestamp(ms / 1000, UTC).date()


@dataclass(frozen=True)
class Writer:
    """Writes partitions on an executor. It is pickled to get there, so it has no connection to a broker."""

    cluster: KafkaCluster
    topic: str
    group: str
    rate: float | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs in a task, for `mapInArrow`; yields the counts of its partitions.

        Raises PipelineError, in one line, for what librdkafka raises.
        """
        import pyarrow as pa
        from confluent_kafka import KafkaException

        try:
            counts = self._write(batches)
        except KafkaException as error:
            raise PipelineError(f"topic {self.topic}: {error.args[0].str()}") from error
        columns = list(zip(*counts, strict=True)) or [(), (), ()]
        types = (pa.int32(), pa.int64(), pa.int64())
        arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["partition", "written", "already"])

    def _write(self, batches: Iterable[pa.RecordBatch]) -> list[tuple[int, int, int]]:
        counts: list[tuple[int, int, int]] = []
        pace = Pace(self.rate)
        current: PartitionWriter | None = None
        try:
            for row in _rows(batches):
                if current is None or current.partition != row[0]:
                    if current is not None:
                        counts.append(current.finish())
                        current = None
                    current = PartitionWriter(self, row[0], pace)
                current.write(row)
            if current is not None:
                counts.append(current.finish())
        except BaseException:
            if current is not None:
                current.abandon()
            raise
        return counts


Row = tuple[int, int, int, bytes | None, bytes | None, list[dict[str, Any]] | None]


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class Pace:
    """Says when a task's next record is due: at most `rate` a second over all its partitions, None for no limit."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._started_at = time.monotonic()
        self._taken = 0

    def wait_s(self) -> float:
        """Returns how long to wait until the next record is due, 0 or less if it is due now."""
        return 0.0 if self._rate is None else self._started_at + self._taken / self._rate - time.monotonic()

    def take(self) -> None:
        self._taken += 1


class PartitionWriter:
    """Writes one partition, in transactions that also record how far it has come."""

    def __init__(self, task: Writer, partition: int, pace: Pace) -> None:
        from confluent_kafka import Consumer

        self.task = task
        self.pace = pace
        self.partition = partition
        common = {"client.id": "ottla-replay", "log_level": 0, **task.cluster.properties}
        own = {"transactional.id": f"{task.group}-{partition}", "compression.type": "zstd", "linger.ms": "20"}
        self._producer: Producer = _producer({**common, **own})
        self._consumer = Consumer({**common, "group.id": task.group, "enable.auto.commit": "false"})
        self._producer.init_transactions(
            TIMEOUT_S
        )  # aborts what a killed run began, so that from here on it is settled what is committed
        self._next = committed_offset(self._consumer, task.topic, partition, TIMEOUT_S) or 0
        self._in_transaction = False
        self._open = 0
        self._opened_at = 0.0
        self._failed: list[str] = []
        self.written = 0
        self.already = 0

    def write(self, row: Row) -> None:
        _, offset, ms, key, value, headers = row
        if offset < self._next:
            self.already += 1
            return
        self._wait()
        if not self._in_transaction:
            self._producer.begin_transaction()
            self._in_transaction = True
            self._opened_at = time.monotonic()
        pairs = [(header["key"], header["value"]) for header in headers or ()]
        self._produce(key, value, ms, pairs)
        self.pace.take()
        self._open += 1
        self.written += 1
        self._next = offset + 1
        if self._open >= TRANSACTION_RECORDS or time.monotonic() - self._opened_at > TRANSACTION_S:
            self._commit()

    def _produce(self, key: bytes | None, value: bytes | None, ms: int, headers: list[tuple[str, bytes | None]]) -> None:
        while True:
            try:
                self._producer.produce(
                    self.task.topic,
                    value,
                    key,
                    partition=self.partition,
                    timestamp=ms,
                    headers=headers,  # type: ignore[arg-type]  # a header without a value is None, which the stub leaves out
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                self._producer.poll(0.5)  # until the queue has room
            else:
                self._producer.poll(0)
                return

    def _on_delivery(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(error.str())

    def _wait(self) -> None:
        """Waits until the next record is due, and commits a transaction that would be open too long meanwhile."""
        while (wait_s := self.pace.wait_s()) > 0:
            if self._in_transaction and time.monotonic() - self._opened_at > TRANSACTION_S:
                self._commit()
            self._producer.poll(min(wait_s, TRANSACTION_S))

    def _commit(self) -> None:
        from confluent_kafka import TopicPartition

        reached = TopicPartition(self.task.topic, self.partition, self._next)
        self._producer.send_offsets_to_transaction([reached], self._consumer.consumer_group_metadata(), TIMEOUT_S)
        self._producer.commit_transaction(TIMEOUT_S)
        if self._failed:
            raise PipelineError(f"{self.task.topic} partition {self.partition}: {self._failed[0]}")
        self._open = 0
        self._in_transaction = False

    def finish(self) -> tuple[int, int, int]:
        """Commits the rest and closes; returns (partition, records written, records that an earlier run had written)."""
        if self._in_transaction:
            self._commit()
        self._consumer.close()
        return self.partition, self.written, self.already

    def abandon(self) -> None:
        """Aborts the open transaction after an error, so that nobody sees any of it."""
        from confluent_kafka import KafkaException

        if self._in_transaction:
            try:
                self._producer.abort_transaction(TIMEOUT_S)
            except KafkaException:
                self._failed.append("not aborted")  # the next run, or the transaction's timeout, ends it
        self._consumer.close()


def _producer(properties: Mapping[str, Any]) -> Producer:
    from confluent_kafka import Producer

    return Producer(dict(properties))
