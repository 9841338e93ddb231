"""Time, restart and reset of the test kit (docs/testkit.md), as a client of librdkafka sees them."""

from __future__ import annotations

import gc
import json
import os
import threading
import urllib.request
from functools import partial
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import ottla.testing
from compat_tests.waiting import collect, wait_for

DAY_MS = 86_400_000
RECONNECTS = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "log_level": 0}
KILLS = 20
RESETS = 100


def connect(broker: ottla.testing.Broker, **settings: object) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": broker.bootstrap, **RECONNECTS, **named}


def read(broker: ottla.testing.Broker, topic: str, count: int, **settings: object) -> list[Any]:
    """Reads partition 0 of a topic from its beginning."""
    consumer = Consumer(connect(broker, group_id="reader", enable_auto_commit=False, **settings))
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def poll() -> list[Any]:
        messages = consumer.consume(10_000, 0.2)
        assert [message.error() for message in messages if message.error()] == []
        return messages

    try:
        return collect(poll, count)
    finally:
        consumer.close()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_records_grow_old_and_the_broker_notes_the_advanced_time() -> None:
    with ottla.testing.Broker(log_retention_check_interval_ms=300_000) as broker:
        broker.create_topic("orders", 1, retention_ms=7 * DAY_MS, message_timestamp_type="LogAppendTime")
        producer = Producer(connect(broker, acks="all"))
        producer.produce("orders", b"old")
        assert producer.flush(30) == 0
        assert broker.clock.advance(days=8)["deleted_segments"] == 1
        before_ms = broker.clock.now_ms
        producer.produce("orders", b"new")
        assert producer.flush(30) == 0
        message = read(broker, "orders", 1)[0]
        kind, timestamp_ms = message.timestamp()
        assert (message.value(), message.offset(), kind) == (b"new", 1, TIMESTAMP_LOG_APPEND_TIME)
        assert before_ms <= timestamp_ms <= broker.clock.now_ms


def test_a_transaction_of_fifteen_minutes_is_aborted_and_its_producer_fenced() -> None:
    with ottla.testing.Broker() as broker:
        broker.create_topic("orders", 1)
        producer = Producer(connect(broker, transactional_id="t", transaction_timeout_ms=900_000))
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"lost")
        assert producer.flush(30) == 0
        assert broker.clock.advance(minutes=14)["aborted_transactions"] == []
        assert broker.clock.advance(minutes=2)["aborted_transactions"] == ["t"]
        with pytest.raises(KafkaException) as refused:
            producer.commit_transaction(30)
        assert refused.value.args[0].fatal() or refused.value.args[0].txn_requires_abort()
        plain = Producer(connect(broker))
        plain.produce("orders", b"kept")
        assert plain.flush(30) == 0
        assert [message.value() for message in read(broker, "orders", 1, isolation_level="read_committed")] == [b"kept"]


def test_a_silent_member_is_expelled_and_comes_back() -> None:
    with ottla.testing.Broker() as broker:
        broker.create_topic("orders", 1)
        consumer = Consumer(connect(broker, group_id="billing", client_id="app", session_timeout_ms=45_000))
        assigned: list[int] = []
        consumer.subscribe(["orders"], on_assign=lambda _, partitions: assigned.append(len(partitions)))

        def poll_until(times: int) -> None:
            def look() -> bool:
                consumer.poll(0.05)
                return len(assigned) >= times

            wait_for(look, f"assigned {times} times")

        poll_until(1)
        assert broker.clock.advance(hours=1, keep_members=True)["expired_members"] == []
        moved = broker.clock.advance(seconds=46)
        assert [each["group"] for each in moved["expired_members"]] == ["billing"]
        poll_until(2)
        consumer.close()


def test_nothing_that_was_acknowledged_is_lost_by_kills() -> None:
    """Two producers go on while the broker is killed and restarted; each record that was acknowledged is there, once."""
    acknowledged: list[bytes] = []
    stop = threading.Event()

    def acknowledge(error: Any, message: Any) -> None:
        assert error is None
        acknowledged.append(message.value())

    def more_than(before: int) -> bool:
        return len(acknowledged) > before

    def work(name: str, broker: ottla.testing.Broker) -> None:
        producer = Producer(connect(broker, acks="all", enable_idempotence=True, linger_ms=1))
        number = 0
        while not stop.is_set():
            producer.produce("orders", f"{name}{number}".encode(), on_delivery=acknowledge)
            number += 1
            producer.poll(0.01)
        assert producer.flush(60) == 0

    with ottla.testing.Broker() as broker:
        broker.create_topic("orders", 1)
        workers = [threading.Thread(target=work, args=(name, broker)) for name in "ab"]
        for worker in workers:
            worker.start()
        for _ in range(KILLS):
            wait_for(partial(more_than, len(acknowledged)), "something is acknowledged between two kills")
            broker.restart("kill")
        stop.set()
        for worker in workers:
            worker.join()
        found = [message.value() for message in read(broker, "orders", len(acknowledged))]
        assert sorted(found) == sorted(acknowledged)


def test_a_hundred_tests_with_a_reset_between_them() -> None:
    with ottla.testing.Broker() as broker:
        address, cluster_id, before = broker.bootstrap, broker.cluster_id, open_files()
        for number in range(RESETS):
            broker.create_topic("orders", 3)
            producer = Producer(connect(broker, acks="all"))  # a test of its own: an old one looks for the old topic first
            producer.produce("orders", str(number), partition=0)
            assert producer.flush(30) == 0
            log = (broker.data_dir / "orders-0" / "00000000000000000000.log").read_bytes()
            assert log.endswith(str(number).encode() + b"\0")
            assert len(list(broker.data_dir.glob("orders-*"))) == 3
            broker.reset()
            assert (broker.bootstrap, broker.cluster_id) == (address, cluster_id)
        admin = AdminClient(connect(broker))
        assert not admin.list_topics(timeout=30).topics
        gc.collect()  # brokers are cycles
        wait_for(lambda: open_files() < before + 20, lambda: f"{open_files()} descriptors, {before} before")


def test_a_clean_restart_and_a_restored_snapshot_keep_what_was_there() -> None:
    with ottla.testing.Broker() as broker:
        broker.create_topic("orders", 1)
        producer = Producer(connect(broker, acks="all"))

        def produce(value: bytes) -> None:
            producer.produce("orders", value)
            assert producer.flush(30) == 0

        produce(b"seed")
        seeded = broker.snapshot()
        produce(b"first")
        broker.restart()
        assert [message.value() for message in read(broker, "orders", 2)] == [b"seed", b"first"]
        broker.restore(seeded)
        produce(b"second")
        assert [message.value() for message in read(broker, "orders", 2)] == [b"seed", b"second"]


def test_other_programs_do_the_same_by_http() -> None:
    def post(path: str, body: object) -> Any:
        request = urllib.request.Request(
            f"{broker.test_url}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    with ottla.testing.Broker(test_port=0) as broker:
        broker.create_topic("orders", 1, retention_ms=7 * DAY_MS)
        producer = Producer(connect(broker, acks="all"))
        producer.produce("orders", b"old")
        assert producer.flush(30) == 0
        post("/v1/snapshots", {"name": "seeded"})
        assert post("/v1/clock/advance", {"ms": 8 * DAY_MS})["deleted_segments"] == 1
        assert post("/v1/snapshots/seeded/restore", {})["bootstrap"] == broker.bootstrap
        assert [message.value() for message in read(broker, "orders", 1)] == [b"old"]
        assert post("/v1/restart", {"how": "kill"})["cluster_id"] == broker.cluster_id
        post("/v1/reset", {})
        assert list(broker.data_dir.glob("orders-*")) == []
