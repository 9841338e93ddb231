"""Apache's drivers of transactions, 4.3.1, against ottla and against Apache Kafka: the copier of its system tests, and the tool.

TransactionalMessageCopier copies a partition in transactions, aborting some at random. It and the broker are killed on the way;
it is started again until nothing is left. A reader of committed records then sees what went in, in order and once.

The tool's words are compared as a whole, so that both kinds of broker make it say the same.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import maven
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from reference_kafka import BrokerProcess

from compat_tests.java_client import SMALL_JVM, Java, running
from compat_tests.waiting import collect, wait_for

MESSAGES: Final = 5_000
A_TRANSACTION: Final = 250
KILL_AFTER: Final = (1_000, 3_000)
"""Of committed messages, by what the copiers say: the copier is killed, then the broker."""
TIMEOUT_S: Final = 90


class MessageCopier:
    """A process of the copier; `committed` is how many messages it says to have copied."""

    def __init__(self, bootstrap: str) -> None:
        names = ["--transactional-id", "copier", "--consumer-group", "copiers", "--use-group-metadata", "--enable-random-aborts"]
        topics = ["--input-topic", "in", "--input-partition", "0", "--output-topic", "out"]
        how = ["--transaction-size", str(A_TRANSACTION), "--transaction-timeout", "10000", "--broker-list", bootstrap]
        main = ["-cp", maven.classpath("kafka-tools"), "org.apache.kafka.tools.TransactionalMessageCopier"]
        self.process = subprocess.Popen(
            ["java", *SMALL_JVM, *main, *topics, *names, *how], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.committed = 0
        self.ended = threading.Event()
        self.moved = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said: dict[str, Any] = json.loads(line)
            self.committed = int(said["totalProcessed"])
            self.moved.set()
        self.ended.set()
        self.moved.set()

    def wait_for(self, committed: int) -> None:
        """Until it has copied so many, or ended."""
        until = time.monotonic() + TIMEOUT_S
        while self.committed < committed and not self.ended.is_set():
            assert self.moved.wait(until - time.monotonic()), f"{self.committed} of {committed}"
            self.moved.clear()

    def end(self) -> int:
        """Its exit code, once it has nothing left to copy."""
        try:
            return self.process.wait(TIMEOUT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        assert self.process.stdout is not None
        assert self.ended.wait(10)
        self.process.stdout.close()


def committed_values(bootstrap: str, topic: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return collect(lambda: [int(message.value() or b"") for message in consumer.consume(1000, 0.5)], count)
    finally:
        consumer.close()


def test_the_message_copier_copies_each_once_through_kills(fresh_broker: Callable[..., BrokerProcess]) -> None:
    broker = fresh_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic("in", 1, 1), NewTopic("out", 1, 1)]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for number in range(MESSAGES):
        producer.produce("in", str(number).encode(), partition=0)
    assert producer.flush(30) == 0

    first = MessageCopier(broker.bootstrap)
    first.wait_for(KILL_AFTER[0])
    assert not first.ended.is_set(), "it was over before the kill"
    first.kill()
    second = MessageCopier(broker.bootstrap)
    second.wait_for(KILL_AFTER[1] - KILL_AFTER[0])
    broker.kill()
    broker.start()
    if second.end() != 0:  # what it was doing when the broker went was too much for it, and it leaves the rest to another
        third = MessageCopier(broker.bootstrap)
        assert third.end() == 0
    assert committed_values(broker.bootstrap, "out", MESSAGES) == list(range(MESSAGES))


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("tools"), "Tools", "kafka-tools") as java:
        yield java


def test_the_tool_shows_transactions_and_ends_them(fresh_broker: Callable[..., BrokerProcess], jvm: Java) -> None:
    broker = fresh_broker(offsets_topic_num_partitions="1", transaction_state_log_num_partitions="1")

    def run(*arguments: str, fails: bool = False) -> list[str]:
        where = ["--bootstrap-server", broker.bootstrap]
        main = {"class": "org.apache.kafka.tools.TransactionsCommand"}
        done = jvm.call("tool", **main, arguments=[*where, *arguments])
        assert (done["exit"] != 0) == fails, (arguments, done)
        return masked(done["output"])

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    ended, opened = (Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name}) for name in ("ended", "opened"))
    for producer in (ended, opened):
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", b"v", partition=0)
        producer.flush(30)
    ended.commit_transaction(30)
    wait_for(lambda: run("list") == [LISTED, "ended 1 0 CompleteCommit", "opened 1 1 Ongoing"], "the commit is complete")
    assert run("list", "--transactional-id-pattern", "op.*") == [LISTED, "opened 1 1 Ongoing"]
    assert run("describe", "--transactional-id", "opened") == [DESCRIBED, "1 opened 1 0 Ongoing # # # t-0"]
    assert run("describe", "--transactional-id", "ended") == [DESCRIBED, "1 ended 0 0 CompleteCommit # # #"]
    assert "the ID could not be found" in run("describe", "--transactional-id", "nobody", fails=True)[0]
    where = ("--topic", "t", "--partition", "0")
    assert run("describe-producers", *where) == [PRODUCERS, "0 0 0 0 # None", "1 0 -1 0 # 1"]
    assert run("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0") == [HANGING], "its coordinator knows of it"
    assert run("find-hanging", "--topic", "t") == [HANGING]
    assert run("abort", *where, "--start-offset", "1") == []
    assert "not find any open transactions" in run("abort", *where, "--start-offset", "1", fails=True)[0]
    assert run("describe-producers", *where) == [PRODUCERS, "0 0 0 0 # None", "1 0 0 0 # None"]
    assert run("list") == [LISTED, "ended 1 0 CompleteCommit", "opened 1 1 Ongoing"], "the coordinator was not asked"
    assert run("forceTerminateTransaction", "--transactionalId", "opened") == []
    assert run("list") == [LISTED, "ended 1 0 CompleteCommit", "opened 1 1 Empty"]


LISTED: Final = "TransactionalId Coordinator ProducerId TransactionState"
DESCRIBED: Final = (
    "CoordinatorId TransactionalId ProducerId ProducerEpoch TransactionState TransactionTimeoutMs CurrentTransactionStartTimeMs"
    " TransactionDurationMs TopicPartitions"
)
PRODUCERS: Final = "ProducerId ProducerEpoch LatestCoordinatorEpoch LastSequence LastTimestamp CurrentTransactionStartOffset"
HANGING: Final = "Topic Partition ProducerId ProducerEpoch CoordinatorEpoch StartOffset LastTimestamp Duration(min)"


def masked(text: str) -> list[str]:
    """The lines of a table without the columns' widths, and without times and durations, which here have two digits or more."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("[")]  # nor the client's log
    return [" ".join(re.sub(r"\b\d\d+\b", "#", line).split()) for line in lines]
