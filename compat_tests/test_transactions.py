"""Exactly once, by four client libraries: consume, transform, produce, commit the offsets in the same transaction, and be killed.

A topic of numbers is copied by each of them to a topic of its own, in transactions; every fourth one is aborted and done again.
When all have written a transaction that is not ended yet, the broker is killed and started again. In the end a reader of
committed records sees each number once, in its partition's order, and another reader sees that there was more.

The copiers run side by side, so that a run costs one kill and one start of each kind of broker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from compat_tests.copiers import PARTITIONS, SOURCE, AiokafkaCopier, ConfluentCopier, Copier, JavaCopier, KafkaPythonCopier
from compat_tests.java_client import Java, running
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.topics import make_topics

COUNT: Final = 800
"""Numbers, dealt to the partitions in turn."""
ABORT_EVERY: Final = 4
KILL_AT: Final = 6
"""The transaction of each copier that is open while the broker is killed."""
TIMEOUT_S: Final = 80
EXPECTED: Final = [[2 * number for number in range(COUNT) if number % len(PARTITIONS) == partition] for partition in PARTITIONS]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("java")) as program:
        yield program


def fill(bootstrap: str, names: list[str]) -> dict[int, int]:
    """Makes the topics, and the numbers, with an aborted transaction among them; the offset behind each partition's last one."""
    make_topics(bootstrap, len(PARTITIONS), SOURCE, *names)
    ends: dict[int, int] = {}

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        ends[message.partition() or 0] = (message.offset() or 0) + 1

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "filler"})
    producer.init_transactions(30)
    half = COUNT // 2
    for numbers, end in (
        (range(half), producer.commit_transaction),
        (range(half), producer.abort_transaction),
        (range(half, COUNT), producer.commit_transaction),
    ):
        producer.begin_transaction()
        for number in numbers:
            producer.produce(SOURCE, str(number).encode(), partition=number % len(PARTITIONS), on_delivery=delivered)
        producer.flush(30)
        end(30)
    return ends


def read(bootstrap: str, topic: str, isolation: str) -> list[list[int]]:
    """The numbers in each partition, up to its end."""
    settings = {"group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in PARTITIONS])
    found: list[list[int]] = [[] for _ in PARTITIONS]
    ended: set[int] = set()
    deadline = time.monotonic() + 30
    while len(ended) < len(PARTITIONS):
        assert time.monotonic() < deadline, f"{topic} has no end: {isolation} {found}"
        message: Message | None = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found[message.partition() or 0].append(int(message.value() or b""))
        elif error.name() == "_PARTITION_EOF":
            ended.add(message.partition() or 0)
    consumer.close()
    return found


class BrokerLost(Exception):
    """The broker went away under a copier that does not outlive that."""


class Kill:
    """The points at which the copiers and the one who kills meet: `gate` is passed twice in an open transaction, before and after
    the kill; `back` is set when the broker answers again."""

    def __init__(self, copiers: int) -> None:
        self.gate = threading.Barrier(copiers + 1)
        self.back = threading.Event()

    def over_copiers(self, broker: BrokerProcess) -> None:
        self.gate.wait(TIMEOUT_S)
        broker.kill()
        self.gate.wait(TIMEOUT_S)
        broker.start()
        self.back.set()

    def under(self, copier: Copier) -> None:
        """Raises BrokerLost."""
        self.gate.wait(TIMEOUT_S)
        self.gate.wait(TIMEOUT_S)
        if not copier.outlives_broker:
            assert self.back.wait(TIMEOUT_S)
            raise BrokerLost


class Copy(threading.Thread):
    """Copies until the group's committed offsets are at `ends`. A failure is in `failed` and opens the gate."""

    def __init__(self, make: Callable[[], Copier], ends: dict[int, int], kill: Kill) -> None:
        super().__init__(daemon=True)
        self.make, self.ends, self.kill = make, ends, kill
        self.transactions = 0
        self.said: list[str] = []
        self.failed: Exception | None = None

    def run(self) -> None:
        self.deadline = time.monotonic() + TIMEOUT_S
        try:
            while not self.over():
                assert time.monotonic() < self.deadline, self.said
        except Exception as error:  # noqa: BLE001 - told by the test
            self.failed = error
            self.kill.gate.abort()

    def over(self) -> bool:
        """One copier's life. False: it had an error, and another has to go on."""
        copier = self.make()
        expected: tuple[type[Exception], ...] = (*copier.errors, BrokerLost)
        try:
            copier.open()
            self.copy(copier)
        except expected as error:
            self.said.append(repr(error))
            return False
        else:
            return True
        finally:
            try:
                copier.close()
            except copier.errors as error:
                self.said.append(repr(error))

    def copy(self, copier: Copier) -> None:
        done = copier.committed()
        while done != self.ends:
            assert time.monotonic() < self.deadline, (done, self.ends, self.said)
            records = copier.read()
            if not records:
                continue
            offsets = done | {each.partition: each.offset + 1 for each in records}
            copier.write([(each.partition, str(2 * int(each.value))) for each in records], offsets)
            self.transactions += 1
            if self.transactions == KILL_AT:
                self.kill.under(copier)
            if self.transactions % ABORT_EVERY == 0:
                copier.abort(done)
            else:
                copier.commit()
                done = offsets


def test_each_number_is_copied_once_though_the_broker_is_killed(fresh_broker: Callable[..., BrokerProcess], java: Java) -> None:
    broker = fresh_broker()
    bootstrap = broker.bootstrap
    makers: dict[str, Callable[[], Copier]] = {
        "confluent": lambda: ConfluentCopier(bootstrap, "confluent"),
        "kafka-python": lambda: KafkaPythonCopier(bootstrap, "kafka-python"),
        "aiokafka": lambda: AiokafkaCopier(bootstrap, "aiokafka"),
        "java": lambda: JavaCopier(java.at(bootstrap), "java"),
    }
    ends = fill(bootstrap, list(makers))
    kill = Kill(len(makers))
    copies = {name: Copy(make, ends, kill) for name, make in makers.items()}
    for copy in copies.values():
        copy.start()
    try:
        kill.over_copiers(broker)
    except threading.BrokenBarrierError as broken:
        raise AssertionError({name: (copy.transactions, copy.said, copy.failed) for name, copy in copies.items()}) from broken
    until = time.monotonic() + TIMEOUT_S
    for copy in copies.values():
        copy.join(max(0, until - time.monotonic()))
    stuck = {name: (copy.transactions, copy.said, copy.failed) for name, copy in copies.items() if copy.failed or copy.is_alive()}
    assert not stuck
    for name in makers:
        assert read(bootstrap, name, "read_committed") == EXPECTED, (name, copies[name].said)
        assert sum(map(len, read(bootstrap, name, "read_uncommitted"))) > COUNT, f"nothing of {name} was aborted"
