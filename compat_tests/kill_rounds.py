"""kill -9 a whole broker under load, start it again, and ask it for everything that it ever promised. Through the wire only.

test_kill_rounds.py plays three rounds, scripts/kill_rounds.py as many as one likes.

The load, in threads of their own: one idempotent producer, which lives through all rounds and repeats by itself what was not
answered; a transactional one; a committer of a group's offsets; a maker of topics. The kill comes at a random moment between 0.3
and 2 s of load. kill -9 takes no page cache, so the promise is the same for a topic with flush.messages=1 and for one without:

- every acknowledged record is at its partition and offset; every record of the idempotent producer is there once and in order;
- of transactions, readers of committed records see the committed ones whole, the aborted ones not, and one that was cut off
  whole or not at all;
- a committed offset is the last that was acknowledged, or one that was asked for later;
- every topic whose creation was acknowledged is there.

The first broken promise is an AssertionError.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for

SYNCED, PLAIN, TRANSACTIONS, GROUP = "synced", "plain", "transactions", "committer"
PARTITIONS = {SYNCED: 1, PLAIN: 3, TRANSACTIONS: 1}
_PATIENCE_S = 120
_IN_FLIGHT = 500
_log = logging.getLogger("kill_rounds")
_quiet = logging.getLogger("kill_rounds.librdkafka")  # which says at length that a killed broker is gone


class Promises:
    """The acknowledgements of the broker. One lock for all threads of the load."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.records: dict[tuple[str, int], dict[int, bytes]] = defaultdict(dict)
        self.committed_offset = -1
        self.asked_offset = -1
        self.topics: set[str] = set()
        self.transactions: dict[str, bool | None] = {}
        """Its name -> committed; None: nobody knows."""

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, f"a record was given up: {error}"
        topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        with self.lock:
            self.records[topic, partition][offset] = value


class Rounds:
    """A broker and its load, over all rounds."""

    def __init__(self, broker: BrokerProcess, seed: int) -> None:
        self.broker = broker
        self.promises = Promises()
        self.produced = 0
        self._random = Random(seed)
        self._stop = threading.Event()
        self._failed: list[BaseException] = []
        self._producer = self._new_producer({"enable.idempotence": True, "linger.ms": 1})

    def config(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.broker.bootstrap, "reconnect.backoff.max.ms": 200, **more}

    def _new_producer(self, more: dict[str, Any]) -> Producer:
        return Producer(self.config(**{"message.timeout.ms": _PATIENCE_S * 1000, **more}), logger=_quiet)

    def prepare(self) -> None:
        admin = AdminClient(self.config(), logger=_quiet)
        topics = [
            NewTopic(name, count, 1, config={"flush.messages": "1"} if name == SYNCED else {})
            for name, count in PARTITIONS.items()
        ]
        for future in admin.create_topics(topics).values():
            future.result(_PATIENCE_S)

    def play(self, number: int) -> float:
        """Plays one round; returns the seconds of load before the kill. Like clients, the load goes on until the broker is
        back."""
        self._stop.clear()
        loads: list[Callable[[int], None]] = [self._produce, self._transact, self._commit, self._make_topics]
        threads = [threading.Thread(target=self._guarded, args=(load, number)) for load in loads]
        for thread in threads:
            thread.start()
        seconds = self._random.uniform(0.3, 2)
        time.sleep(seconds)
        self.broker.kill()
        self.broker.start()
        self._stop.set()
        for thread in threads:
            thread.join()
        if self._failed:
            raise self._failed[0]
        left = self._producer.flush(_PATIENCE_S)
        assert left == 0, f"{left} records were not delivered after the start"
        self._check()
        return seconds

    def _guarded(self, load: Callable[[int], None], number: int) -> None:
        """Ignores errors that the kill causes: what fails is neither promised nor repeated in this round."""
        try:
            load(number)
        except KafkaException as error:
            _log.warning("round %d: %s: %s", number, load.__name__, error)
        except AssertionError as error:
            self._failed.append(error)

    # The load

    def _produce(self, number: int) -> None:
        while not self._stop.is_set():
            if len(self._producer) < _IN_FLIGHT:
                topic = (SYNCED, PLAIN)[self.produced % 5 > 0]
                partition = self.produced % PARTITIONS[topic]
                value = b"%d %d" % (self.produced, number)
                self._producer.produce(topic, value, partition=partition, on_delivery=self.promises.delivered)
                self.produced += 1
            self._producer.poll(0 if self.produced % 20 else 0.001)

    def _transact(self, number: int) -> None:
        producer = self._new_producer(
            {"transactional.id": "kill-rounds", "transaction.timeout.ms": _PATIENCE_S * 1000}
        )  # ends what an earlier one left open
        producer.init_transactions(_PATIENCE_S)
        at = 0
        while not self._stop.is_set():
            at += 1
            name, commit = f"{number}.{at}", at % 3 > 0
            with self.promises.lock:
                self.promises.transactions[name] = None
            producer.begin_transaction()
            for part in range(3):
                producer.produce(TRANSACTIONS, f"{name} {part}".encode(), partition=0)
            if commit:
                producer.commit_transaction(_PATIENCE_S)
            else:
                producer.abort_transaction(_PATIENCE_S)
            with self.promises.lock:
                self.promises.transactions[name] = commit

    def _commit(self, number: int) -> None:
        consumer = Consumer(self.config(**{"group.id": GROUP, "enable.auto.commit": False}), logger=_quiet)
        try:
            while not self._stop.is_set():
                self.promises.asked_offset += 1
                offset = self.promises.asked_offset
                consumer.commit(offsets=[TopicPartition(PLAIN, 0, offset)], asynchronous=False)
                self.promises.committed_offset = offset
        finally:
            consumer.close()

    def _make_topics(self, number: int) -> None:
        admin = AdminClient(self.config(), logger=_quiet)
        for at in range(5):
            name = f"made-{number}-{at}"
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(_PATIENCE_S)
            self.promises.topics.add(name)
            if self._stop.wait(0.2):
                break

    # The check

    def _check(self) -> None:
        promises = self.promises
        order: dict[tuple[str, int], list[int]] = defaultdict(list)
        for topic in (SYNCED, PLAIN):
            for partition in range(PARTITIONS[topic]):
                found = self._read(topic, partition, "read_uncommitted")
                for offset, value in promises.records[topic, partition].items():
                    assert found.get(offset) == value, f"{topic}-{partition}: {found.get(offset)!r} at {offset}, not {value!r}"
                order[topic, partition] = [int(value.split()[0]) for value in found.values()]
        for name, numbers in order.items():
            assert numbers == sorted(set(numbers)), f"{name}: records twice or out of order"
        assert sum(map(len, order.values())) == self.produced, "records are missing, or too many"
        self._check_transactions()
        self._check_group()
        there = set(AdminClient(self.config(), logger=_quiet).list_topics(timeout=_PATIENCE_S).topics)
        assert promises.topics <= there, f"topics are gone: {promises.topics - there}"

    def _check_transactions(self) -> None:
        """All that was committed is there. Apache Kafka has some time for that: it answers a commit before its markers are in the
        partitions, and what is behind a missing marker is not read."""
        patience = _PATIENCE_S if self.broker.kind == "kafka" else 0
        unread: list[str] = []

        def are_all_read() -> bool:
            unread[:] = self._unread()
            return not unread

        wait_for(are_all_read, lambda: f"0 of {unread}, which were committed", patience)

    def _unread(self) -> list[str]:
        """Returns the committed transactions of which nothing was read. Whatever else is wrong is an AssertionError."""
        seen: dict[str, set[bytes]] = defaultdict(set)
        for value in self._read(TRANSACTIONS, 0, "read_committed").values():
            of, part = value.split()
            assert part not in seen[of.decode()], f"{value!r} twice"
            seen[of.decode()].add(part)
        transactions = self.promises.transactions
        for name, committed in transactions.items():
            parts = len(seen.get(name, ()))
            assert parts in ((0,) if committed is False else (0, 3)), f"{parts} of {name}, {committed=}"
        return [name for name, committed in transactions.items() if committed and name not in seen]

    def _check_group(self) -> None:
        promises = self.promises
        consumer = Consumer(self.config(**{"group.id": GROUP}), logger=_quiet)
        try:
            committed = consumer.committed([TopicPartition(PLAIN, 0)], _PATIENCE_S)[0].offset
        finally:
            consumer.close()
        least = promises.committed_offset
        assert max(committed, -1) >= least, f"the committed offset is {committed}, not {least}"
        assert committed <= promises.asked_offset, f"the committed offset {committed} was never asked for"

    def _read(self, topic: str, partition: int, isolation: str) -> dict[int, bytes]:
        """Returns the offset -> value, of all that is there."""
        consumer = Consumer(
            self.config(**{"group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True}), logger=_quiet
        )
        found: dict[int, bytes] = {}
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            deadline = time.monotonic() + _PATIENCE_S
            while time.monotonic() < deadline:
                for message in consumer.consume(1000, 0.5):
                    error = message.error()
                    if error is not None:
                        assert error.code() == KafkaError._PARTITION_EOF, error
                        return found
                    value, offset = message.value(), message.offset()
                    assert isinstance(value, bytes)
                    assert offset is not None
                    found[offset] = value
            raise AssertionError(f"{topic}-{partition} was not read to its end within {_PATIENCE_S} s")
        finally:
            consumer.close()
