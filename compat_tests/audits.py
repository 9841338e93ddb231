"""Audits as `ottla pipeline audit` makes them, with snapshots older than what is read, and a topic that has gaps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain, count, repeat
from typing import Any, Final

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for
from ottla.commands.clients.client import Cluster
from ottla.commands.pipeline.gaps import explained, snapshot
from ottla.pipeline import audit_job
from ottla.pipeline.audit import Audit, Bounds
from ottla.pipeline.cluster import KafkaCluster

Look = Callable[[], Bounds]

COMPACTED: Final = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
"""The settings of a topic for `compact`."""


def now(bootstrap: str, topic: str) -> Look:
    """The topic's bounds of the moment."""
    return partial(snapshot, Cluster({"bootstrap.servers": bootstrap}), topic)


def as_it_was(bootstrap: str, topic: str, records: int) -> Look:
    """Returns a look whose first answer is what a snapshot says that was taken so many records of each partition ago; the next
    one is of now."""
    ages = chain([records], repeat(0))

    def look() -> Bounds:
        age = next(ages)
        return {number: (first, end - age) for number, (first, end) in now(bootstrap, topic)().items()}

    return look


def audited(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    against: str | None = None,
    *,
    match: str = "auto",
    look: Look | None = None,
    far: Look | None = None,
    **plan: Any,
) -> audit_job.Report:
    """`look` and `far`: snapshots of the topic and of the one it is compared with, those of now by default. `plan`: of Audit."""
    kafka = KafkaCluster({"bootstrap.servers": bootstrap})
    other = audit_job.other_side(kafka, topic, against, match)
    if isinstance(other, audit_job.Topic):
        other = other._replace(look=far or now(bootstrap, other.name))
    explain = partial(explained, Cluster({"bootstrap.servers": bootstrap}), topic)
    return audit_job.run(spark, kafka, topic, look or now(bootstrap, topic), other, Audit(**plan), explain)


def compact(bootstrap: str, topic: str, is_done: Callable[[], bool]) -> None:
    """Writes 50 keys 40 times into the topic's one partition, and goes on until the cleaner has taken what the test waits for."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "none"})
    for at in range(2000):
        producer.produce(topic, key=f"k{at % 50}", value=f"v{at}", timestamp=TODAY_MS)
    assert producer.flush(30) == 0
    seconds = count(1)

    def is_compacted() -> bool:
        """Records that are a second later each roll the segment."""
        producer.produce(topic, key="last", value="x", timestamp=TODAY_MS + 1000 * next(seconds))
        assert producer.flush(30) == 0
        return is_done()

    wait_for(is_compacted, "the cleaner", timeout_s=90)
