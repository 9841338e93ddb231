"""`ottla cluster` and `ottla.testing.Cluster` with real controllers: one life of each, and the same directory again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from compat_tests.reference import maven
from compat_tests.test_apache_tools import Tools
from compat_tests.waiting import collect, wait_for

PARTITIONS = 6
RECORDS = 60
START_S = 240
STOP_S = 120


@contextmanager
def running(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any], IO[str]]]:
    """Runs `ottla cluster`, and yields its process, what it said on standard output, and its standard error."""
    command = [sys.executable, "-m", "ottla", "cluster", "--dir", str(folder / "c"), "--json", *words]
    with open(folder / "errors", "w+") as errors, open(folder / "output", "w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=errors, text=True)
        try:
            said = folder / "output"
            wait_for(
                lambda: process.poll() is not None or said.read_text().endswith("\n"), (folder / "errors").read_text, START_S
            )
            assert process.poll() is None, (folder / "errors").read_text()
            yield process, json.loads(said.read_text()), errors
        finally:
            process.terminate()
            process.wait(STOP_S)


def produce(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for n in range(RECORDS):
        producer.produce(topic, str(n).encode(), partition=n % PARTITIONS)
    assert producer.flush(60) == 0


def consume(bootstrap: str, topic: str, group: str) -> set[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        return {int(message.value()) for message in collect(lambda: consumer.consume(RECORDS, 0.5), RECORDS)}
    finally:
        consumer.close()


def leaders(bootstrap: str, topic: str) -> set[int]:
    partitions = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, 30).topics[topic].partitions
    return {partition.leader for partition in partitions.values()}


def test_a_cluster_serves_loses_a_broker_ends_and_comes_back(tmp_path: Path) -> None:
    with running(tmp_path, "--nodes", "2", "--port", "0", "--override", "broker.session.timeout.ms=2000") as (process, where, _):
        bootstrap = where["bootstrap"]
        said = Tools(bootstrap).run("topics", "--create", "--topic", "t", "--partitions", str(PARTITIONS))
        assert "Created topic t" in said
        wait_for(lambda: leaders(bootstrap, "t") == {1, 2}, "both brokers lead")
        produce(bootstrap, "t")
        assert consume(bootstrap, "t", "first") == set(range(RECORDS))
        second = where["brokers"][1]["pid"]
        os.kill(second, signal.SIGKILL)
        wait_for(lambda: f"(pid {second}) has ended by SIGKILL" in (tmp_path / "errors").read_text(), "the broker is reported")
        wait_for(lambda: leaders(where["brokers"][0]["address"], "t") == {1}, "the other broker leads all partitions")
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 1, "a node had ended by itself"
    assert "did not stop in order" not in (tmp_path / "errors").read_text()
    assert (tmp_path / "c" / "broker-1" / "data" / ".kafka_cleanshutdown").exists()
    with running(tmp_path) as (process, again, _):
        assert [again[key] for key in ("cluster_id", "bootstrap")] == [where[key] for key in ("cluster_id", "bootstrap")]
        assert consume(bootstrap, "t", "second") == set(range(RECORDS))
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_S) == 0


def test_what_groups_committed_outlives_any_broker() -> None:
    """The topic of the groups' offsets has three replicas. Each broker is killed in turn, and comes back; the groups that it
    coordinated go on with another, and commit there."""
    groups = [f"group-{n}" for n in range(9)]
    with ottla.testing.Cluster(nodes=3, broker_session_timeout_ms=3000, offsets_topic_num_partitions=3) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("t", 1, -1)])["t"].result(30)

        def in_sync() -> list[int]:
            partitions = admin.list_topics("__consumer_offsets", 30).topics["__consumer_offsets"].partitions
            return [len(partition.isrs) for partition in partitions.values()]

        def commit(group: str, offset: int, expected: int | None) -> None:
            consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False})
            try:
                if expected is not None:
                    assert consumer.committed([TopicPartition("t", 0)], 60)[0].offset == expected, group
                consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
            finally:
                consumer.close()

        for at, group in enumerate(groups):
            commit(group, at, None)
        for number, broker in enumerate(cluster.brokers, 1):
            wait_for(lambda: in_sync() == [3, 3, 3], lambda: f"in sync are {in_sync()} replicas")
            broker.kill()
            for at, group in enumerate(groups):
                commit(group, at + 100 * number, at + 100 * (number - 1))
            broker.start()


def leads(admin: AdminClient, node: int) -> bool:
    return bool(admin.list_topics("t", 30).topics["t"].partitions[0].leader == node)


def test_a_cluster_for_tests_with_an_unpacked_kafka(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "libs").symlink_to(maven.jar_dir("kafka"))
    with ottla.testing.Cluster(nodes=2, kafka=tmp_path / "kafka", num_partitions=PARTITIONS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("t", -1, -1)])["t"].result(30)
        produce(cluster.bootstrap, "t")
        for node in (2, 1, 2):
            cluster.move_leader("t", 0, to=node)
            wait_for(partial(leads, admin, node), f"{node} leads")  # it may be the other broker that answers
        cluster.nodes[1].down()
        wait_for(lambda: leaders(cluster.brokers[1].bootstrap, "t") == {2}, "the broker has left")
        with pytest.raises(ottla.testing.ClusterError, match="broker 1 is not in sync in t-0, so it cannot lead"):
            cluster.move_leader("t", 0, to=1)
        with pytest.raises(ottla.testing.ClusterError, match="broker 3 has no replica of t-0"):
            cluster.move_leader("t", 0, to=3)
        cluster.nodes[1].up()
        assert consume(cluster.bootstrap, "t", "readers") == set(range(RECORDS))
    with pytest.raises(RuntimeError, match="not running"):
        _ = cluster.bootstrap
