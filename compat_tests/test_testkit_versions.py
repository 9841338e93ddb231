"""A broker that pretends to be an older release (docs/testkit.md), with clients of three libraries that go by what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

import ottla.testing
from compat_tests import java_client
from compat_tests.acknowledging import connect, read
from compat_tests.java_client import Java
from compat_tests.waiting import TIMEOUT_S, collect, wait_for

Unique = Callable[[str], str]
PRETENDED: Final = ("3.3", "3.9")
"""The oldest release, and the last before the second protocol of transactions."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with java_client.running(tmp_path_factory.mktemp("java")) as java:
        yield java


@pytest.fixture(scope="module", params=PRETENDED)
def broker(request: pytest.FixtureRequest) -> Iterator[ottla.testing.Broker]:
    with ottla.testing.Broker() as made:
        made.pretend(as_=request.param)
        yield made


def test_librdkafka_produces_in_transactions_and_reads(broker: ottla.testing.Broker, unique: Unique) -> None:
    topic = unique("rd")
    broker.create_topic(topic, 1)
    producer = Producer(connect(broker, transactional_id=unique("tx")))
    producer.init_transactions(TIMEOUT_S)
    for value, ends in ((b"lost", producer.abort_transaction), (b"kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(TIMEOUT_S) == 0
        ends(TIMEOUT_S)
    found = read(broker, topic, 1, isolation_level="read_committed")
    assert [message.value() for message in found] == [b"kept"]


def test_kafka_python_produces_and_reads(broker: ottla.testing.Broker, unique: Unique) -> None:
    topic = unique("py")
    broker.create_topic(topic, 1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send(topic, b"one", partition=0).get(TIMEOUT_S)
    producer.close()
    reader = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    partition = KafkaPythonPartition(topic, 0)
    reader.assign([partition])
    found: list[Any] = []

    def look() -> bool:
        for records in reader.poll(timeout_ms=100).values():
            found.extend(record.value for record in records)
        return bool(found)

    wait_for(look, "nothing is read")
    assert found == [b"one"]
    reader.close()


def test_java_copies_in_a_transaction_as_a_member_of_a_group(broker: ottla.testing.Broker, program: Java, unique: Unique) -> None:
    java = program.at(broker.bootstrap)
    source, target = java.topic(unique("source"), 1), java.topic(unique("target"), 1)
    java.call("produce", topic=source, records=[{"value": f"v{number}"} for number in range(5)])
    assert "transaction.version" not in java.call("describe_features")
    java.call("copier_open", name=target, source=source, count=5)
    found = collect(lambda: java.call("copier_read"), 5)
    java.call("copier_write", target=target, records=[[0, value] for _, _, value in found], offsets={"0": 5})
    java.call("copier_commit")
    assert java.call("copier_committed", partitions=[0]) == {"0": 5}
    java.call("copier_close")
    copied = java.call("consume", topic=target, partitions=[0], count=5, settings={"isolation.level": "read_committed"})
    assert [record["value"] for record in copied] == [f"v{number}" for number in range(5)]


def test_a_request_that_the_release_did_not_have_is_not_sent(program: Java, unique: Unique) -> None:
    with ottla.testing.Broker() as broker:
        broker.pretend(as_="3.5")
        java, member = program.at(broker.bootstrap), unique("member")
        topic = java.topic(unique("new"), 1)
        seen = broker.fault(api="ConsumerGroupHeartbeat", observe=True)
        settings = {"group.protocol": "consumer", "group.id": unique("group")}
        java.call("join", member=member, topics=[topic], settings=settings)
        wait_for(lambda: java.java.call("member", member=member)["error"], "it does not give up")
        assert "UnsupportedVersion" in java.java.call("leave", member=member)["error"]
        assert seen.state["matches"] == 0


def test_a_client_that_learned_newer_versions_learns_the_older_ones(unique: Unique, tmp_path: Path) -> None:
    with ottla.testing.Broker() as broker:
        topic = unique("both")
        broker.create_topic(topic, 1)
        producer = Producer(connect(broker, acks="all"))

        def produce() -> None:
            errors: list[Any] = []
            producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
            assert producer.flush(TIMEOUT_S) == 0
            assert errors == [None]

        produce()
        broker.pretend(Produce=[3, 7])
        old = broker.fault(api="Produce", version="<=7", observe=True)
        produce()
        assert old.hits == 1
        broker.pretend()
        assert len(read(broker, topic, 2)) == 2
