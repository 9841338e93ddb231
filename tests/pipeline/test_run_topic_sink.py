"""Settings of the producers that write micro-batches; compat_tests/test_pipeline_topic_sink.py writes some."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.pipeline import run_topic_sink
from ottla.pipeline.run_topic_sink import NotWritten, TopicWriter


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

    def __init__(self, _: dict[str, Any]) -> None:
        self.calls.clear()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: self.calls.append(name)


@pytest.mark.parametrize(("noted", "written"), [(None, 1), (0, 1), (7, 1), (8, 0), (9, 0)])
def test_a_batch_is_written_unless_its_number_was_noted_as_done(
    monkeypatch: pytest.MonkeyPatch, noted: int | None, written: int
) -> None:
    notes = SimpleNamespace(close=lambda: None, consumer_group_metadata=lambda: None)
    monkeypatch.setattr("confluent_kafka.Producer", FakeProducer)
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: notes)
    monkeypatch.setattr(run_topic_sink, "committed_offset", lambda *_: noted)
    assert TopicWriter({}, "t", "q", 7).write(0, [(None, b"a", None)]) == written
    assert FakeProducer.calls.count("commit_transaction") == FakeProducer.calls.count("produce") == written
