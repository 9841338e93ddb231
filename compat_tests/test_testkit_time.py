"""Time, restart and reset of the test kit (docs/testkit.md), as a client of librdkafka sees them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

import ottla.testing
from compat_tests.acknowledging import acknowledged_over, connect, read
from compat_tests.forms import FULL, LONGER_IN_FULL
from compat_tests.testkit_port import call
from compat_tests.waiting import wait_for

DAY_MS = 86_400_000
KILLS = 200 if FULL else 12
RESETS = 1000 if FULL else 100
WORKERS, STARTS = (8, 125) if FULL else (3, 10)
MORE_MEMORY_BYTES = 32 << 20
"""The memory that a process may have more after the last reset than after the first tenth of them."""
START_MANY = """
import socket, sys, ottla.testing
for _ in range(int(sys.argv[1])):
    with ottla.testing.Broker() as broker:
        broker.restart("kill")
        socket.create_connection(("127.0.0.1", broker.port)).close()
        print(broker.port)
"""


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def memory_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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


@LONGER_IN_FULL
def test_nothing_that_was_acknowledged_is_lost_by_kills() -> None:
    """Two producers go on while the broker is killed and restarted; each record that was acknowledged is there, once."""
    with ottla.testing.Broker() as broker:
        broker.create_topic("orders", 1)
        acknowledged = acknowledged_over(broker, "orders", KILLS, lambda: broker.restart("kill"))
        found = [message.value() for message in read(broker, "orders", len(acknowledged))]
        assert sorted(found) == sorted(acknowledged)


@LONGER_IN_FULL
def test_many_tests_with_a_reset_between_them() -> None:
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
            if number == RESETS // 10:
                gc.collect()
                memory = memory_bytes()
        admin = AdminClient(connect(broker))
        assert not admin.list_topics(timeout=30).topics
        gc.collect()  # brokers are cycles
        assert memory_bytes() - memory < MORE_MEMORY_BYTES
        wait_for(lambda: open_files() < before + 20, lambda: f"{open_files()} descriptors, {before} before")


@LONGER_IN_FULL
def test_workers_with_a_broker_each_never_take_each_other_s_ports() -> None:
    command = [sys.executable, "-c", START_MANY, str(STARTS)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(WORKERS)]
    for worker in workers:
        told, errors = worker.communicate()
        assert worker.returncode == 0, errors
        assert len(told.splitlines()) == STARTS


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
        return call(broker.test_url, "POST", path, body)

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
