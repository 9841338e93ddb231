"""The pipeline logs in: Spark's own client, and the executors' librdkafka, with one client.properties of Apache Kafka's tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from pyspark.sql import SparkSession

from compat_tests.security.ways import SECRETS, TOPIC, EveryWay, Way, every_way
from ottla.commands.clients.client import cluster_of
from ottla.commands.pipeline.frame import kafka_cluster
from ottla.pipeline import archive, replay

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

RECORDS = 20


@pytest.fixture(scope="module")
def secured(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EveryWay]:
    with every_way(kind, tmp_path_factory.mktemp(f"spark-{kind}")) as broker:
        yield broker


@pytest.mark.kafka_in_full
def test_archive_and_replay(secured: EveryWay, spark: SparkSession, tmp_path: Path) -> None:
    way = Way("SECURE", "SCRAM-SHA-512")
    cluster = kafka_cluster(cluster_of(secured.bootstrap(way), (), Path(secured.client_properties(way))))
    producer = Producer({"bootstrap.servers": secured.process.bootstrap})
    for n in range(RECORDS):
        producer.produce(TOPIC, f"value {n}")
    assert producer.flush(30) == 0
    plan = cluster.read(spark, TOPIC)._jdf.queryExecution().toString()
    assert SECRETS["alice"] not in plan
    directory = str(tmp_path / "archive")
    assert archive.run(spark, archive.Archive(cluster, TOPIC, directory), lambda _: None).records == RECORDS
    assert replay.run(spark, replay.Replay(cluster, directory, TOPIC), 1) == replay.Totals(RECORDS, 0)
    reader = Consumer({"bootstrap.servers": secured.process.bootstrap, "group.id": "check", "auto.offset.reset": "earliest"})
    reader.subscribe([TOPIC])
    found: list[Any] = reader.consume(2 * RECORDS, 60)
    reader.close()
    assert [message.value() for message in found] == [f"value {n}".encode() for n in range(RECORDS)] * 2
