"""Batches into a topic, exactly once: what `ottla pipeline run` writes when Spark runs a batch again. Needs no Spark."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.topics import make_topics
from compat_tests.waiting import collect
from ottla.pipeline.sql.topic_sink import NotWritten, Record, TopicWriter

PARTITIONS = 2


@pytest.fixture
def topic(bootstrap: str, unique: Callable[[str], str]) -> str:
    name = unique("sink")
    make_topics(bootstrap, PARTITIONS, name)
    return name


def batch(number: int) -> list[Record]:
    return [(f"k{at}".encode(), f"{number}-{at}".encode(), None) for at in range(50)]


def values(bootstrap: str, topic: str, count: int) -> list[str]:
    """Exactly so many committed records, sorted; one after them in each partition shows that there are no more."""
    end = Producer({"bootstrap.servers": bootstrap})
    for partition in range(PARTITIONS):
        end.produce(topic, partition=partition, value="end")
    assert end.flush(30) == 0
    settings = {"bootstrap.servers": bootstrap, "group.id": str(uuid.uuid4()), "isolation.level": "read_committed"}
    reader = Consumer(settings)
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found = collect(lambda: reader.consume(100, timeout=0.2), count + PARTITIONS)
    reader.close()
    texts = [message.value().decode() for message in found]
    assert texts.count("end") == PARTITIONS
    return sorted(text for text in texts if text != "end")


def test_a_batch_that_is_run_again_writes_nothing(bootstrap: str, topic: str) -> None:
    kafka, query = {"bootstrap.servers": bootstrap}, str(uuid.uuid4())
    for partition in range(PARTITIONS):
        assert TopicWriter(kafka, topic, query, 0).write(partition, batch(partition)) == 50
    assert TopicWriter(kafka, topic, query, 0).write(1, batch(1)) == 0  # its driver died, and one task of two was through
    assert TopicWriter(kafka, topic, query, 1).write(1, batch(2)) == 50
    assert TopicWriter(kafka, topic, query, 0).write(1, batch(1)) == 0
    assert TopicWriter(kafka, topic, query, 1).write(0, []) == 0  # nothing fell to this task
    assert TopicWriter(kafka, topic, str(uuid.uuid4()), 0).write(1, batch(3)) == 50  # a new checkpoint begins anew
    assert values(bootstrap, topic, 200) == sorted(
        value.decode() for number in range(4) for _, value, _ in batch(number) if value
    )


def test_a_writer_that_was_killed_leaves_nothing_and_is_fenced(bootstrap: str, topic: str) -> None:
    query = str(uuid.uuid4())
    killed = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"ottla-pipeline-{query}-0", "log_level": 0})
    killed.init_transactions(30)
    killed.begin_transaction()
    killed.produce(topic, partition=0, value="half")
    assert killed.flush(30) == 0  # it is in the log, and its transaction is open

    assert TopicWriter({"bootstrap.servers": bootstrap}, topic, query, 0).write(0, batch(0)) == 50
    assert "half" not in values(bootstrap, topic, 50)


def test_what_cannot_be_written_is_told_in_one_line(bootstrap: str, unique: Callable[[str], str]) -> None:
    writer = TopicWriter({"bootstrap.servers": bootstrap, "message.max.bytes": "2000"}, unique("none"), str(uuid.uuid4()), 0)
    with pytest.raises(NotWritten) as raised:
        writer.write(0, [(None, bytes(5000), None)])
    assert "\n" not in str(raised.value)
