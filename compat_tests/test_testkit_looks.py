"""The test kit's waits, looks and seeds (docs/testkit.md), with clients of librdkafka and kafka-python."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from kafka import KafkaConsumer, KafkaProducer

import ottla.testing
from compat_tests.kafka_python_consumers import subscribe
from compat_tests.waiting import wait_for

KEYS: Final = 50


@pytest.fixture(scope="module")
def running() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.Broker(
        group_consumer_assignment_interval_ms=0,
        group_consumer_min_heartbeat_interval_ms=100,
        group_consumer_heartbeat_interval_ms=100,
    ) as broker:
        yield broker


@pytest.fixture
def broker(running: ottla.testing.Broker) -> ottla.testing.Broker:
    running.reset()
    running.create_topic("orders", 2)
    return running


@contextmanager
def polled(consumer: Any) -> Iterator[None]:
    """Has a consumer polled in a thread of its own, and closes it at the end."""
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            consumer.poll(0.05) if isinstance(consumer, Consumer) else consumer.poll(timeout_ms=50)
        consumer.close()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def confluent(broker: ottla.testing.Broker, client_id: str, **settings: Any) -> Consumer:
    named = {name.replace("_", "."): value for name, value in settings.items()} or {"heartbeat.interval.ms": 100}
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "billing",
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 50,
            **named,
        }
    )
    consumer.subscribe(["orders"])
    return consumer


def kafka_python(broker: ottla.testing.Broker, client_id: str) -> KafkaConsumer:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        group_id="billing",
        client_id=client_id,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=50,
        heartbeat_interval_ms=100,
    )
    return subscribe(consumer, "orders")


@pytest.mark.parametrize("make", [confluent, kafka_python])
def test_a_rebalance_is_waited_for_and_a_seeded_topic_is_read_to_its_end(broker: ottla.testing.Broker, make: Any) -> None:
    for number in range(20):
        broker.produce("orders", str(number), partition=number % 2)
    with polled(make(broker, "app-1")):
        broker.wait(group="billing", state="Stable", members=1)
        with polled(make(broker, "app-2")):
            broker.wait(group="billing", state="Stable", members=2)
            broker.wait(group="billing", lag=0)
            found = broker.group("billing")
            assert {each["client_id"]: len(each["assignment"]["orders"]) for each in found["members"]} == {"app-1": 1, "app-2": 1}
            assert [(each["partition"], each["offset"], each["lag"]) for each in found["offsets"]] == [(0, 10, 0), (1, 10, 0)]
            assert {each["client_id"] for each in broker.connections()} >= {"app-1", "app-2"}
        broker.wait(group="billing", state="Stable", members=1)
    broker.wait(group="billing", state="Empty")
    broker.wait(connections=0)


def test_a_rebalance_that_hangs_says_for_whom(broker: ottla.testing.Broker) -> None:
    """app-1 has joined and is polled no more, so it does not learn that it has to join again."""
    silent = confluent(broker, "app-1")

    def is_assigned() -> bool:
        silent.poll(0.05)
        return bool(silent.assignment())

    wait_for(is_assigned, "app-1 gets no partitions")
    with polled(confluent(broker, "app-2")):
        broker.wait(group="billing", state="PreparingRebalance", members=2)
        with pytest.raises(
            TimeoutError, match=r"^after 50 ms: billing is PreparingRebalance, 2 of 2 members; waits for app-1 until \+\d+\.\d s"
        ):
            broker.wait(group="billing", state="Stable", members=2, timeout=0.05)
        with polled(silent):
            broker.wait(group="billing", state="Stable", members=2)


def test_a_consumer_group_of_the_new_protocol(broker: ottla.testing.Broker) -> None:
    broker.produce("orders", "one")
    with polled(confluent(broker, "app-1", group_protocol="consumer")):
        broker.wait(group="billing", state="Stable", members=1)
        broker.wait(committed={"group": "billing", "topic": "orders", "partition": 0, "offset": 1})
        found = broker.group("billing")
        assert (found["kind"], found["members"][0]["assignment"]) == ("consumer", {"orders": [0, 1]})
        assert [each["timer"] for each in found["timers"]] == ["session"]
    broker.wait(group="billing", members=0)


def test_a_transaction_is_waited_for_and_its_lag_ends_before_the_marker(broker: ottla.testing.Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t-1"})
    producer.init_transactions(30)
    with polled(confluent(broker, "app-1", isolation_level="read_committed", heartbeat_interval_ms=100)):
        producer.begin_transaction()
        producer.produce("orders", b"one", partition=0)
        producer.flush(30)
        broker.wait(transaction="t-1", state="Ongoing")
        assert broker.records("orders", isolation="read_committed") == []
        producer.commit_transaction(30)
        broker.wait(transaction="t-1", state="CompleteCommit")
        assert [(each.value, each.control) for each in broker.records("orders")] == [(b"one", None), (None, "COMMIT")]
        broker.wait(group="billing", lag=0)
    assert broker.producers("orders")[0]["last_sequence"] == 0


def test_a_key_is_in_the_same_partition_from_all_sides(broker: ottla.testing.Broker) -> None:
    broker.create_topic("keys", 7)
    keys = [f"key-{number}".encode() * (number % 3 + 1) for number in range(KEYS)]
    wanted = [broker.produce("keys", None, key=key)["partition"] for key in keys]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    other = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for key in keys:
        producer.produce("keys", b"v", key=key)
        other.send("keys", key=key, value=b"v")
    producer.flush(30)
    other.close()
    for key, partition in zip(keys, wanted, strict=True):
        assert [record.partition for record in broker.records("keys") if record.key == key] == [partition] * 3


def test_positions_of_a_consumer_that_commits_by_hand(broker: ottla.testing.Broker) -> None:
    for _ in range(3):
        broker.produce("orders", "v", partition=1)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "audit", "enable.auto.commit": False})
    consumer.commit(offsets=[Position("orders", 1, 2)], asynchronous=False)
    found = broker.wait(committed={"group": "audit", "topic": "orders", "partition": 1, "offset": 2})
    assert found["offset"] == 2
    assert broker.group("audit")["offsets"] == [
        {**broker.group("audit")["offsets"][0], "topic": "orders", "partition": 1, "offset": 2, "lag": 1}
    ]
    consumer.close()
