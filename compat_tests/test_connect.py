"""Kafka Connect 4.3.1 in distributed mode, against ottla and against Apache Kafka: from a file through a topic into a file.

The worker is killed (kill -9) on the way and goes on where it stopped, by what it keeps in its three internal topics; so does it
when the broker is killed. With exactly.once.source.support the source's records and positions are written in transactions.

`OTTLA_FULL=1 python -m pytest compat_tests/test_connect.py` kills that one ten times instead of twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests.connect import EXACTLY_ONCE, LINES_TOPIC, TOPICS, Files, Worker
from compat_tests.forms import FULL, LONGER_IN_FULL
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.topics import committed_records, described
from compat_tests.waiting import collect, wait_for

pytestmark = LONGER_IN_FULL

KILLS: Final = 10 if FULL else 2
BROKER: Final = {
    "offsets_topic_num_partitions": "2",
    "transaction_state_log_num_partitions": "2",
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": "500",
}
WAITS_BRIEFLY: Final = {"producer_override_transaction_timeout_ms": "10000"}
"""Of a source: a new worker waits for what a killed one began."""


@pytest.fixture
def worker_on(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    made: list[Worker] = []

    def make(broker: BrokerProcess, **settings: str) -> Worker:
        worker = Worker(broker.bootstrap, tmp_path, **settings)
        made.append(worker)
        worker.start()
        return worker

    yield make
    for worker in made:
        worker.kill()


def committed(worker: Worker, files: Files) -> bool:
    """Returns whether both connectors have committed all of their offsets to Kafka."""
    position = [each["offset"]["position"] for each in worker.offsets("source")]
    offset = [each["offset"]["kafka_offset"] for each in worker.offsets("sink")]
    return position == [files.source.stat().st_size] and bool(offset) and offset[0] >= len(files.written)


def lines_of(bootstrap: str, count: int) -> list[str]:
    """The committed records of the topic, without their JSON quotes."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(LINES_TOPIC, 0, 0)])
    try:
        return collect(lambda: [(each.value() or b"").decode().strip('"') for each in consumer.consume(1000, 0.5)], count)
    finally:
        consumer.close()


def without_repeats(lines: list[str], once: int) -> list[str]:
    """The lines, those after the first `once` without what they repeat of each other."""
    return lines[:once] + list(dict.fromkeys(lines[once:]))


def test_a_file_goes_through_a_topic_into_a_file(
    fresh_broker: Callable[..., BrokerProcess], worker_on: Callable[..., Worker], tmp_path: Path
) -> None:
    broker = fresh_broker(**BROKER)
    worker, files = worker_on(broker), Files(tmp_path)
    for name, settings in files.connectors().items():
        worker.create(name, settings)
    files.write()
    wait_for(lambda: files.sunk() == files.written, "all lines are through")
    internal = described(broker.bootstrap, TOPICS.__contains__)
    assert internal == {name: (count, {"cleanup.policy": "compact"}) for name, count in TOPICS.items()}

    wait_for(lambda: committed(worker, files), "both have committed")
    worker.kill()
    files.write()  # while nobody looks
    worker.start()
    wait_for(lambda: files.sunk() == files.written, "it goes on where it stopped")

    wait_for(lambda: committed(worker, files), "both have committed again")
    once = len(files.written)
    broker.kill()
    files.write()
    broker.start()
    # A worker that misses its coordinator for a heartbeat's interval gives up its tasks. What they had not committed comes again:
    # these connectors promise that a line comes at least once.
    wait_for(lambda: without_repeats(files.sunk(), once) == files.written, "it goes on when the broker is back")
    sent = [(each.value() or b"").decode().strip('"') for each in committed_records(broker.bootstrap, LINES_TOPIC, 1)]
    assert without_repeats(sent, once) == files.written
    worker.settled("DELETE", "/connectors/source")
    worker.settled("DELETE", "/connectors/sink")
    wait_for(lambda: worker.ask("GET", "/connectors") == [], "both are gone")


def test_a_source_writes_each_line_exactly_once_though_its_worker_is_killed(
    fresh_broker: Callable[..., BrokerProcess], worker_on: Callable[..., Worker], tmp_path: Path
) -> None:
    """Killed anywhere, committed or not: what the topic shows to readers of committed records is the file."""
    broker = fresh_broker(**BROKER)
    worker, files = worker_on(broker, exactly_once_source_support="enabled"), Files(tmp_path)
    for name, settings in files.connectors(**EXACTLY_ONCE, **WAITS_BRIEFLY).items():
        worker.create(name, settings)
    for _ in range(KILLS):
        before = len(files.sunk())
        files.write()

        def moved(before: int = before) -> bool:
            worker.restart_failed("source")
            return len(files.sunk()) > before

        wait_for(moved, "some lines are through")
        worker.kill()
        worker.start()
    files.write()

    def read_whole() -> bool:
        worker.restart_failed("source")
        return [each["offset"]["position"] for each in worker.offsets("source")] == [files.source.stat().st_size]

    wait_for(read_whole, "the source has written all")
    assert lines_of(broker.bootstrap, len(files.written)) == files.written
