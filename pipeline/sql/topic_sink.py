"""Writes a streaming query into a topic exactly once: with a transaction for each partition of each of its micro-batches.

Spark repeats a micro-batch when its driver died before the checkpoint recorded its completion, and Spark's own Kafka sink then
writes the records a second time. Here the task of partition p of a batch

1. takes over the transactional id `ottla-pipeline-<query id>-<p>`, which fences an earlier task that may still write with it and
aborts what that left open, 2. reads from the group `ottla-pipeline-<query id>` which batch was committed last for partition p of
the topic, and is done if it was this one or a later one, 3. writes its rows and commits, in one transaction, the rows and the
number of the batch after this.

So a batch's rows are in the topic together with the number that says so, or neither is. It works with any broker that has
transactions; readers need isolation.level=read_committed. There are two conditions: a repeated batch must have the same rows
(Spark's checkpoint keeps its offsets, and checkpoint.py those of the tables that it joins), and each row must go to the same
task (rows are spread by the hash of their key, or of the value if there is no key, over as many tasks as the topic had partitions
at the query's first batch; checkpoint.py keeps that number). The query id is the checkpoint's: with a new checkpoint a job
begins again. A broker forgets the offsets of a group that is idle for offsets.retention.minutes, a week: a killed job that is
started later than that may repeat one batch.

A transaction has all rows of a task in a batch, so it may take long: its timeout is the longest that brokers allow by default,
and a stream takes no more than MOST_RECORDS at once unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.group_offsets import committed_offset

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

WAIT_S: Final = 60.0
"""The time to wait for a broker that is being restarted, in seconds."""
ATTEMPTS: Final = 3
"""The number of attempts at a transaction that had to be given up, for example because its broker died."""

MOST_RECORDS: Final = 500_000
"""The most records of a stream in one micro-batch, unless the stream says otherwise."""
TIMEOUTS: Final = {"transaction.timeout.ms": 900_000, "message.timeout.ms": 300_000, "socket.timeout.ms": 60_000}
"""The first is the brokers' default transaction.max.timeout.ms; librdkafka would lengthen the others with it."""

Record = tuple[bytes | None, bytes | None, int | None]
"""The key, the value, and the timestamp in ms (None: now)."""


class NotWritten(RuntimeError):
    """Records of a batch could not be written. The query ends with this as its reason; started again, it goes on from its
    checkpoint."""


@dataclass(frozen=True)
class TopicWriter:
    """Writes the partitions of one micro-batch. It is pickled for the executors. `kafka` has the settings by librdkafka's
    names."""

    kafka: Mapping[str, str] = field(repr=False)
    topic: str
    query_id: str
    batch_id: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs in a task, for `mapInArrow`: writes the columns key, value and timestamp_ms, and yields the number of records."""
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "only a task writes"
        columns = ("key", "value", "timestamp_ms")
        records: list[Record] = []
        for batch in batches:
            records += zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
        written = self.write(context.partitionId(), records)
        yield pa.RecordBatch.from_pydict({"written": pa.array([written], pa.int64())})

    def write(self, partition: int, records: Sequence[Record]) -> int:
        """Writes the records; returns how many: all of them, or 0 for a batch that was in the topic already. Raises
        NotWritten."""
        from confluent_kafka import KafkaException

        for attempt in range(1, ATTEMPTS + 1) if records else ():
            try:
                return self._write(partition, records)
            except KafkaException as error:
                if attempt == ATTEMPTS:
                    raise NotWritten(f"topic {self.topic}: {error.args[0].str()}") from error
        return 0

    def _write(self, partition: int, records: Sequence[Record]) -> int:
        from confluent_kafka import Consumer, Producer, TopicPartition

        common = {"log_level": 0, **self.kafka}
        timeouts = {} if "transaction.timeout.ms" in self.kafka else TIMEOUTS
        name = f"ottla-pipeline-{self.query_id}"
        settings = {
            "compression.type": "zstd",
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            **timeouts,
            **common,
        }  # spreads keys over partitions like Java
        producer = Producer({**settings, "transactional.id": f"{name}-{partition}"})
        producer.init_transactions(WAIT_S)
        notes = Consumer({**common, "group.id": name, "isolation.level": "read_committed", "enable.auto.commit": False})
        try:
            noted = committed_offset(notes, self.topic, partition, WAIT_S)
            if noted is not None and noted > self.batch_id:
                return 0
            producer.begin_transaction()
            _send(producer, self.topic, records)
            after = TopicPartition(self.topic, partition, self.batch_id + 1)
            producer.send_offsets_to_transaction([after], notes.consumer_group_metadata(), WAIT_S)
            producer.commit_transaction(WAIT_S)
        finally:
            notes.close()
        return len(records)


def _send(producer: Any, topic: str, records: Iterable[Record]) -> None:
    for key, value, timestamp_ms in records:
        while True:
            try:
                producer.produce(topic, key=key, value=value, timestamp=0 if timestamp_ms is None else timestamp_ms)
                break
            except BufferError:  # the local queue is full: wait until deliveries make room
                producer.poll(1)
        producer.poll(0)


@dataclass(frozen=True)
class BatchWriter:
    """Passes the records of a micro-batch (key, value and timestamp_ms) to the writers of their partitions, for
    `foreachBatch`."""

    kafka: Mapping[str, str] = field(repr=False)
    topic: str
    tasks: int

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions as F

        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query_id is not None, "a batch belongs to a query"
        writer = TopicWriter(self.kafka, self.topic, query_id, batch_id)
        spread = batch.repartition(self.tasks, F.coalesce("key", "value"))
        spread.mapInArrow(writer, "written bigint").collect()
