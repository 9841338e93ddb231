"""The test kit's disk faults, power cuts and archives (docs/testkit.md), as clients of librdkafka and Apache Kafka see them."""

from __future__ import annotations

import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import ottla.testing
from compat_tests.acknowledging import acknowledged_over, connect, read
from compat_tests.forms import FULL, LONGER_IN_FULL
from compat_tests.reference.kafka import RealKafka
from compat_tests.waiting import TIMEOUT_S, collect, wait_for

POWER_CUTS = 200 if FULL else 3


def send(producer: Producer, *values: bytes, topic: str = "orders") -> list[Any]:
    """The error of each record, None where there is none."""
    errors: list[Any] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    return errors


def test_without_room_records_are_refused_and_others_are_not() -> None:
    with ottla.testing.Broker() as broker:
        for topic in ("orders", "prices"):
            broker.create_topic(topic, 1)
        producer = Producer(connect(broker, retries=0))
        with broker.disk.fail("enospc", path="orders-*") as full:
            (error,) = send(producer, b"lost")
            assert error.code() == KafkaError.KAFKA_STORAGE_ERROR
            assert full.hits > 0
            assert send(producer, b"kept", topic="prices") == [None]
        assert send(producer, b"kept") == [None]
        assert [message.value() for message in read(broker, "orders", 1)] == [b"kept"]


def test_a_producer_that_tries_again_gets_through_when_there_is_room() -> None:
    with ottla.testing.Broker() as broker:
        broker.create_topic("orders", 1)
        delivered: list[Any] = []
        producer = Producer(connect(broker, enable_idempotence=True, retry_backoff_ms=20))
        fault = broker.disk.fail("enospc", path="orders-*", after_bytes=50)
        producer.produce("orders", b"one", on_delivery=lambda error, _: delivered.append(error))
        wait_for(lambda: fault.hits >= 2, "it does not try again")
        assert delivered == []
        broker.disk.clear()
        assert producer.flush(60) == 0
        assert delivered == [None]
        assert len(read(broker, "orders", 1)) == 1


def test_a_slow_fsync_delays_whom_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fsync takes until the test has looked, so that nothing depends on how quick this machine is."""
    looked = threading.Event()
    stopped: list[float] = []

    def stop_thread(seconds: float) -> None:
        stopped.append(seconds)
        looked.wait(TIMEOUT_S)

    with ottla.testing.Broker() as broker:
        monkeypatch.setattr(broker._lives().disk_faults, "_stop_thread", stop_thread)
        broker.create_topic("orders", 1, flush_messages=1)
        producer = Producer(connect(broker, linger_ms=0))
        assert send(producer, b"first") == [None]
        delivered: list[Any] = []
        admin = AdminClient(connect(broker))
        assert admin.list_topics(timeout=30).topics
        with broker.disk.slow(fsync_ms=5000, path="orders-*") as slow:
            producer.produce("orders", b"second", on_delivery=lambda error, _: delivered.append(error))
            producer.poll(0)
            try:
                wait_for(lambda: stopped == [5.0], "it is not synced")
                assert slow.hits == 1
                for _ in range(5):
                    assert admin.list_topics(timeout=30).topics
                producer.poll(0)
                assert delivered == []  # five questions were answered during one fsync
            finally:
                looked.set()
            assert producer.flush(60) == 0
        assert delivered == [None]


@LONGER_IN_FULL
def test_nothing_that_was_acknowledged_and_synced_is_lost_by_power_cuts() -> None:
    with ottla.testing.Broker(disk="memory", log_flush_interval_messages=1) as broker:
        broker.create_topic("orders", 1)
        acknowledged = acknowledged_over(broker, "orders", POWER_CUTS, lambda: broker.restart("power_cut"))
        found = [message.value() for message in read(broker, "orders", len(acknowledged))]
        assert sorted(found) == sorted(acknowledged)


def test_what_a_power_cut_takes_was_not_synced() -> None:
    lost = 0
    with ottla.testing.Broker(disk="memory", seed=1) as broker:
        for _ in range(2):
            broker.create_topic("orders", 1)
            producer = Producer(connect(broker))
            values = [str(number).encode() for number in range(20)]
            for value in values[:10]:
                assert send(producer, value) == [None]
            broker.restart("clean")  # which syncs everything
            for value in values[10:]:
                assert send(producer, value) == [None]
            broker.restart("power_cut")
            consumer = Consumer(connect(broker, group_id="reader"))
            low, high = consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=30)
            consumer.close()
            assert low == 0
            assert high >= 10
            assert [message.value() for message in read(broker, "orders", high)] == values[:high]
            lost += len(values) - high
            broker.reset()
    assert lost > 0


def test_apache_kafka_starts_on_an_archive(tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path / "kafka")
    (tmp_path / "kafka").mkdir()
    with ottla.testing.Broker() as broker:
        broker.create_topic("orders", 3)
        values = [str(number).encode() for number in range(100)]
        assert set(send(Producer(connect(broker, partitioner="random")), *values)) == {None}
        broker.archive(broker.snapshot(), tmp_path / "seeded.tar")
    with tarfile.open(tmp_path / "seeded.tar") as archive:
        archive.extractall(kafka.data_dir, filter="data")
    kafka.settings["controller.quorum.voters"] = f"1@{kafka.settings.pop('controller.quorum.bootstrap.servers')}"
    kafka.start()
    try:
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition("orders", partition, 0) for partition in range(3)])
        found = [message.value() or b"" for message in collect(lambda: consumer.consume(100, 0.2), len(values))]
        assert sorted(found) == sorted(values)
        consumer.close()
    finally:
        kafka.stop()


def test_after_a_reset_that_keeps_connections_clients_go_on() -> None:
    with ottla.testing.Broker() as broker:
        broker.create_topic("orders", 1)
        producer = Producer(connect(broker, topic_metadata_refresh_interval_ms=100))
        consumer = Consumer(
            connect(
                broker,
                group_id="billing",
                auto_offset_reset="earliest",
                topic_metadata_refresh_interval_ms=100,
                heartbeat_interval_ms=100,
                session_timeout_ms=6000,
            )
        )
        consumer.subscribe(["orders"])
        seen: list[bytes | None] = []

        def got(value: bytes) -> bool:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                seen.append(message.value())
            return value in seen

        assert send(producer, b"before") == [None]
        wait_for(lambda: got(b"before"), "nothing is read")
        broker.reset(connections="keep")
        broker.create_topic("orders", 1)
        seen.clear()
        assert send(producer, b"after") == [None]
        wait_for(lambda: got(b"after"), "nothing is read after the reset")
        assert b"before" not in seen
        consumer.close()
