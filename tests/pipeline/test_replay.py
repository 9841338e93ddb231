"""A replay's pace, by a clock that only its producer's waiting moves; and what it does with errors. compat tests have brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.pipeline import replay
from ottla.pipeline.cluster import KafkaCluster
from ottla.pipeline.errors import PipelineError
from ottla.pipeline.replay import Row, Writer


class Clock:
    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class FakeProducer:
    """Delivers at once; to wait for a delivery is to let the time pass."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.calls: list[tuple[str, float]] = []
        """What was asked for, and when."""
        self.refusal: KafkaException | None = None
        self.longest_s = 0.0

    def _did(self, what: str) -> None:
        self.calls.append((what, self.clock.now_s))

    def at(self, what: str) -> list[float]:
        return [when - 1000.0 for call, when in self.calls if call == what]

    def init_transactions(self, _timeout_s: float) -> None:
        self._did("init")

    def begin_transaction(self) -> None:
        self._did("begin")

    def produce(self, *_: Any, **__: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self._did("produce")

    def poll(self, wait_s: float) -> None:
        self.longest_s = max(self.longest_s, wait_s)
        self.clock.now_s += wait_s

    def send_offsets_to_transaction(self, *_: Any) -> None:
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
