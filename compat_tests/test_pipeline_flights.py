"""A year of flights through `ottla pipeline run`, driver and broker each killed -9 twice on the way, equal to pandas row for row.

scripts/flights_pipeline.py is the show, and runs all 336,776 flights; here are those of the first weeks. Then the audit: nothing
is missing or doubled, and it is told when one record is, on purpose. Same test for ottla and for Apache Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from scripts import flights_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1200)]

DAYS = 31


def test_flights_survive_kills_of_driver_and_broker_and_the_audit_misses_nothing(
    fresh_broker: Callable[..., Any], spark: Any, tmp_path: Path
) -> None:
    broker = fresh_broker()
    directory = tmp_path / "show"
    directory.mkdir()
    show = flights_pipeline.Show(broker, directory, DAYS)
    assert len(show.flights) > 26_000
    show.run()
    assert show.differences(spark) == []

    topic = show.names["joined"]
    passed = flights_pipeline.audit(broker.bootstrap, topic, "--unique", "value:number")
    assert passed.returncode == 0, passed.stdout + passed.stderr

    rows = flights_pipeline.read_topic(broker.bootstrap, topic)
    assert_one_removed_is_found(broker.bootstrap, topic, rows)
    append(broker.bootstrap, topic, rows[1000:1001])
    doubled = flights_pipeline.audit(broker.bootstrap, topic, "--unique", "value:number")
    assert doubled.returncode == 1, doubled.stdout + doubled.stderr


def assert_one_removed_is_found(bootstrap: str, topic: str, rows: list[dict[str, Any]]) -> None:
    """Held against a copy of the topic that lacks one row."""
    copy = f"{topic}-copy"
    flights_pipeline.create_topics(bootstrap, [copy])
    append(bootstrap, copy, rows[:500] + rows[501:])
    removed = flights_pipeline.audit(bootstrap, topic, "--against", copy, "--match", "content")
    assert removed.returncode == 1, removed.stdout + removed.stderr


def append(bootstrap: str, topic: str, rows: list[dict[str, Any]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "partitioner": "murmur2_random"})
    for row in rows:
        producer.produce(topic, key=row["origin"], value=json.dumps(row, separators=(",", ":")))
        producer.poll(0)
    assert producer.flush(60) == 0
