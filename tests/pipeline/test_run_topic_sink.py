"""Settings of the producers that write micro-batches; compat_tests/test_pipeline_topic_sink.py writes some."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

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
