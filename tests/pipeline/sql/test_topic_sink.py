"""Settings of the producers that write micro-batches; compat_tests/test_pipeline_topic_sink.py writes some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ottla.pipeline.sql import topic_sink
from ottla.pipeline.sql.topic_sink import NotWritten, TopicWriter


def settings(monkeypatch: pytest.MonkeyPatch, **kafka: str) -> dict[str, Any]:
    """Of the producer that a writer makes."""
    found: dict[str, Any] = {}

    def producer(given: dict[str, Any]) -> None:
        found.update(given)
        raise KafkaException(KafkaError(KafkaError._FAIL))

    monkeypatch.setattr("confluent_kafka.Producer", producer)
    with pytest.raises(NotWritten):
        TopicWriter(kafka, "t", "q", 0).write(0, [(None, b"a", None)])
    return {key: value for key, value in found.items() if key.endswith("timeout.ms")}


def test_a_transaction_may_last_as_long_as_brokers_allow_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"transaction.timeout.ms": 900_000, "message.timeout.ms": 300_000, "socket.timeout.ms": 60_000}
    assert settings(monkeypatch) == ours
    assert settings(monkeypatch, **{"socket.timeout.ms": "5000"}) == {**ours, "socket.timeout.ms": "5000"}
    assert settings(monkeypatch, **{"transaction.timeout.ms": "30000"}) == {"transaction.timeout.ms": "30000"}


class FakeProducer:
    """Notes what it is asked for."""

    calls: ClassVar[list[str]] = []
    noted: ClassVar[list[tuple[str, int, int]]] = []
    """The (topic, partition, offset) that transactions commit."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.calls.clear()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: self.calls.append(name)

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], *_: Any) -> None:
        self.noted[:] = [(place.topic, place.partition, place.offset) for place in offsets]


@pytest.mark.parametrize(("noted", "written"), [(None, 1), (0, 1), (7, 1), (8, 0), (9, 0)])
def test_a_batch_is_written_unless_its_number_was_noted_as_done(
    monkeypatch: pytest.MonkeyPatch, noted: int | None, written: int
) -> None:
    notes = SimpleNamespace(close=lambda: None, consumer_group_metadata=lambda: None)
    monkeypatch.setattr("confluent_kafka.Producer", FakeProducer)
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: notes)
    monkeypatch.setattr(topic_sink, "committed_offset", lambda *_: noted)
    FakeProducer.noted.clear()
    assert TopicWriter({}, "t", "q", 7).write(5, [(None, b"a", None)]) == written
    assert FakeProducer.calls.count("commit_transaction") == FakeProducer.calls.count("produce") == written
    assert FakeProducer.noted == [("t", 5, 8)] * written


@pytest.mark.parametrize(("failures", "written"), [(0, 2), (2, 2), (3, None)])
def test_a_transaction_is_tried_three_times(monkeypatch: pytest.MonkeyPatch, failures: int, written: int | None) -> None:
    tries: list[int] = []

    def write(_: TopicWriter, partition: int, records: Sequence[Any]) -> int:
        tries.append(partition)
        if len(tries) <= failures:
            raise KafkaException(KafkaError(KafkaError._FAIL, "no luck"))
        return len(records)

    monkeypatch.setattr(TopicWriter, "_write", write)
    records: list[Any] = [(None, b"a", None), (None, b"b", None)]
    if written is None:
        with pytest.raises(NotWritten, match=r"^topic t: no luck$"):
            TopicWriter({}, "t", "q", 0).write(4, records)
    else:
        assert TopicWriter({}, "t", "q", 0).write(4, records) == written
    assert tries == [4] * min(failures + 1, 3)


def test_without_records_there_is_no_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicWriter, "_write", lambda *_: pytest.fail("nothing is to be written"))
    assert TopicWriter({}, "t", "q", 0).write(0, []) == 0


def test_a_record_waits_for_room_and_has_its_own_time_or_the_present() -> None:
    sent: list[tuple[Any, ...]] = []
    waits: list[float] = []

    def produce(topic: str, **record: Any) -> None:
        if len(waits) < 2:
            raise BufferError
        sent.append((topic, *record.values()))

    topic_sink._send(SimpleNamespace(produce=produce, poll=waits.append), "t", [(b"k", b"v", 77), (None, None, None)])
    assert sent == [("t", b"k", b"v", 77), ("t", None, None, 0)]
    assert waits == [1, 1, 0, 0], "until there is room, and not at all where there is"
