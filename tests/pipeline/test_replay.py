"""Tests of what a replay chooses of an archive; its pace, by a clock that only its producer's waiting moves; and what it does
with errors. compat tests have brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.pipeline import replay
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.replay import Replay, Row, Totals, Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # py4j leaves some


class Clock:
    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class FakeProducer:
    """Delivers at once; to wait for a delivery is to let the time pass."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.calls: list[tuple[str, float]] = []
        """The calls, each with its time."""
        self.refusal: KafkaException | None = None
        self.longest_s = 0.0
        self.full = 0
        """The number of times that the queue is full before it takes a record."""
        self.lost: KafkaError | None = None
        """The reason why records are not delivered."""
        self.reached: list[tuple[str, int, int]] = []
        """The positions that the transactions have reached, by their own account: (topic, partition, next offset)."""

    def _did(self, what: str) -> None:
        self.calls.append((what, self.clock.now_s))

    def at(self, what: str) -> list[float]:
        return [when - 1000.0 for call, when in self.calls if call == what]

    def init_transactions(self, _timeout_s: float) -> None:
        self._did("init")

    def begin_transaction(self) -> None:
        self._did("begin")

    def produce(self, *_: Any, on_delivery: Callable[[KafkaError | None, Any], None], **__: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        if self.full:
            self.full -= 1
            raise BufferError
        self._did("produce")
        on_delivery(self.lost, None)

    def poll(self, wait_s: float) -> None:
        self.longest_s = max(self.longest_s, wait_s)
        self.clock.now_s += wait_s

    def send_offsets_to_transaction(self, offsets: list[confluent_kafka.TopicPartition], *_: Any) -> None:
        self.reached += [(place.topic, place.partition, place.offset) for place in offsets]
        self._did("offsets")

    def commit_transaction(self, _timeout_s: float) -> None:
        self._did("commit")

    def abort_transaction(self, _timeout_s: float) -> None:
        self._did("abort")


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    clock = Clock()
    made = FakeProducer(clock)
    consumer = SimpleNamespace(close=lambda: None, consumer_group_metadata=lambda: None)
    monkeypatch.setattr(replay, "time", clock)
    monkeypatch.setattr(replay, "_producer", lambda _properties: made)
    monkeypatch.setattr(replay, "committed_offset", lambda *_: None)
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda _properties: consumer)
    return made


def write(rate: float | None, rows: list[Row]) -> list[Any]:
    names = ["partition", "offset", "ms", "key", "value", "headers"]
    batch = pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    (counts,) = Writer(KafkaCluster({}), "late", "group", rate)([batch])
    return [tuple(row.values()) for row in counts.to_pylist()]


def rows_of(partition: int, count: int) -> list[Row]:
    return [(partition, offset, 1, None, b"x", None) for offset in range(count)]


def test_no_record_before_it_is_due(producer: FakeProducer) -> None:
    assert write(4.0, rows_of(0, 9)) == [(0, 9, 0)]
    assert producer.at("produce") == pytest.approx([number / 4 for number in range(9)])


def test_a_tasks_partitions_share_its_rate(producer: FakeProducer) -> None:
    assert write(4.0, rows_of(0, 5) + rows_of(3, 5)) == [(0, 5, 0), (3, 5, 0)]
    assert producer.at("produce") == pytest.approx([number / 4 for number in range(10)])


def test_without_a_rate_nothing_waits(producer: FakeProducer) -> None:
    assert write(None, rows_of(0, 9)) == [(0, 9, 0)]
    assert producer.at("commit") == [0]


def test_a_slow_replay_does_not_keep_its_readers_waiting(producer: FakeProducer) -> None:
    """A transaction holds back who reads committed records: it ends in time though the next record is not due yet."""
    write(0.1, rows_of(0, 3))
    assert producer.at("produce") == pytest.approx([0, 10, 20])
    commits = producer.at("commit")
    assert len(commits) == 3
    for written, committed in zip(producer.at("produce"), commits, strict=True):
        assert written <= committed <= written + 2 * replay.TRANSACTION_S
    assert producer.longest_s <= replay.TRANSACTION_S


def test_what_librdkafka_refuses_is_one_line_and_its_transaction_is_given_up(producer: FakeProducer) -> None:
    producer.refusal = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
    with pytest.raises(PipelineError, match=r"^topic late: too large$"):
        write(None, rows_of(0, 1))
    assert producer.calls[-2:] == [("begin", 1000.0), ("abort", 1000.0)]


def test_a_transaction_ends_after_so_many_records_and_the_next_one_counts_anew(
    producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "TRANSACTION_RECORDS", 3)
    write(None, rows_of(0, 8))
    calls = [call for call, _ in producer.calls if call in {"produce", "commit"}]
    assert calls == [*["produce"] * 3, "commit", *["produce"] * 3, "commit", *["produce"] * 2, "commit"]


def test_a_transaction_that_is_open_too_long_ends_with_its_next_record(producer: FakeProducer) -> None:
    def slowly(*_: Any, **__: Any) -> None:
        producer.clock.now_s += replay.TRANSACTION_S * 0.6
        producer._did("produce")

    producer.produce = slowly  # type: ignore[method-assign]  # this test only
    write(None, rows_of(0, 4))
    calls = [call for call, _ in producer.calls if call in {"produce", "commit"}]
    assert calls == [*["produce"] * 2, "commit"] * 2


def test_a_transaction_says_how_far_it_has_come_and_the_next_run_goes_on_there(
    producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "TRANSACTION_RECORDS", 2)
    write(None, rows_of(4, 3))
    assert producer.reached == [("late", 4, 2), ("late", 4, 3)]
    monkeypatch.setattr(replay, "committed_offset", lambda *_: 3)
    assert write(None, rows_of(4, 5)) == [(4, 2, 3)]
    assert producer.reached[2:] == [("late", 4, 5)]


def test_a_task_without_records_counts_none(producer: FakeProducer) -> None:
    (counts,) = Writer(KafkaCluster({}), "late", "group", None)([])
    assert (counts.schema.names, counts.num_rows, producer.calls) == (["partition", "written", "already"], 0, [])


def test_a_full_queue_is_waited_for(producer: FakeProducer) -> None:
    producer.full = 2
    assert write(None, rows_of(0, 2)) == [(0, 2, 0)]
    assert producer.at("produce") == [1.0, 1.0]


def test_a_record_that_is_not_delivered_ends_the_replay(producer: FakeProducer) -> None:
    producer.lost = KafkaError(KafkaError._MSG_TIMED_OUT, "too late")
    with pytest.raises(PipelineError, match=r"^late partition 0: too late$"):
        write(None, rows_of(0, 1))


# What is replayed


class Rows:
    """Stands for the rows of an archive that has these partitions; notes by how many tasks they are written, and by whom."""

    def __init__(self, *partitions: int) -> None:
        self.there = [{"partition": partition} for partition in partitions]
        self.tasks = 0
        self.writer: Any = None

    def select(self, *_: str) -> Rows:
        return self

    def distinct(self) -> Rows:
        return self

    def collect(self) -> list[dict[str, int]]:
        return self.there if self.writer is None else [{"written": 5, "already": 1}, {"written": 7, "already": 2}]

    def repartition(self, tasks: int, _column: str) -> Rows:
        self.tasks = tasks
        return self

    def sortWithinPartitions(self, *_: str) -> Rows:
        return self

    def mapInArrow(self, writer: Writer, _result: str) -> Rows:
        self.writer = writer
        return self


def replayed(
    rows: Rows, monkeypatch: pytest.MonkeyPatch, *, target: int = 9, cores: int = 9, rate: float | None = None
) -> Totals:
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=cores))
    monkeypatch.setattr("ottla.pipeline.archive.read", lambda *_: (rows, {}))
    monkeypatch.setattr(replay, "select", lambda found, _plan: found)
    return replay.run(spark, Replay(KafkaCluster({}), "dir", "t", rate=rate), target)


def test_an_archive_of_which_nothing_is_wanted_is_replayed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows()
    assert replayed(rows, monkeypatch, target=0) == Totals(0, 0)
    assert rows.writer is None


def test_a_topic_has_at_least_the_partitions_of_what_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert replayed(Rows(2, 0), monkeypatch, target=3) == Totals(12, 3)
    with pytest.raises(PipelineError, match=r"^t has 2 partitions, but the archive 3$"):
        replayed(Rows(2, 0), monkeypatch, target=2)


@pytest.mark.parametrize(("cores", "tasks", "rate"), [(1, 1, 12.0), (2, 2, 6.0), (9, 3, 4.0)])
def test_tasks_share_the_rate(monkeypatch: pytest.MonkeyPatch, cores: int, tasks: int, rate: float) -> None:
    rows = Rows(0, 1, 2)
    replayed(rows, monkeypatch, cores=cores, rate=12.0)
    assert (rows.tasks, rows.writer.rate) == (tasks, rate)


DAY_MS = 86_400_000
MOMENTS = (DAY_MS - 2, DAY_MS - 1, DAY_MS, DAY_MS + 1, 2 * DAY_MS)
"""The timestamps of an archive's records in ms, the n-th of offset n; the second day begins with the third."""


@pytest.mark.parametrize(
    ("plan", "offsets"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"since_ms": DAY_MS - 1}, [1, 2, 3, 4]),
        ({"since_ms": DAY_MS + 1}, [3, 4]),
        ({"until_ms": DAY_MS - 1}, [0]),
        ({"until_ms": DAY_MS}, [0, 1]),
        ({"until_ms": DAY_MS + 1}, [0, 1, 2]),
        ({"since_ms": DAY_MS - 1, "until_ms": DAY_MS + 1}, [1, 2]),
        ({"keys": ("k1", "k3", "k")}, [1, 3]),
        ({"key_pattern": "[34]$"}, [3, 4]),
        ({"key_pattern": "k", "keys": ("k2",)}, [2]),
    ],
)
def test_records_are_chosen_by_time_and_key(spark: SparkSession, plan: dict[str, Any], offsets: list[int]) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    rows = [
        (0, at, epoch + timedelta(milliseconds=ms), date(1970, 1, 1 + ms // DAY_MS), b"k%d" % at, None, None)
        for at, ms in enumerate(MOMENTS)
    ]
    columns = "partition int, offset bigint, timestamp timestamp, date date, key binary, value binary, headers binary"
    found = replay.select(spark.createDataFrame(rows, columns), Replay(KafkaCluster({}), "dir", "t", **plan)).collect()
    assert [(row["offset"], row["ms"]) for row in found] == [(at, MOMENTS[at]) for at in offsets]
