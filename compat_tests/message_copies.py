"""Consume, transform, produce through kills, by the drivers of Kafka's own system tests (kafka-tools 4.3.1), on one broker
or three.

scripts/message_copies.py runs it in sixteen ways with the figures of Kafka's transactions_test: 100,000 messages, 750 a
transaction, three restarts of each copier or of the broker. test_apache_transactions.py runs short forms.

VerifiableProducer writes numbers to IN. TransactionalMessageCopiers copy them to OUT, partition to partition, in transactions
that hold their group's offsets; a third of these they abort, at random. Copiers and broker are killed (kill -9) or stopped
(SIGTERM) at random points and started again. A VerifiableConsumer reads OUT all the while, and another reader in the end, both of
committed records: what each of them sees is, partition by partition, what went in, in order and once.

Apache Kafka 4.4.0, when it is its cluster's only broker, may lose what it has just committed in a clean stop: the partitions have
no leader any more, it takes them for deleted, and completes the transaction without its markers. Kafka's own test has three
brokers. So with `--kind kafka` clean stops of the broker are left out. After kill -9 the same may happen to a transaction that is
overdue, or being ended, when the broker comes back: an offset in it stays pending, and the copiers of its group wait for it until
they give up. That is the more likely the busier the machine is; a run with `--kind kafka` that stops like that was due to it.
"""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, Protocol

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.java_process import JavaProcess

JARS: Final = "kafka-tools"
IN, OUT, GROUP = "in", "out", "copiers"
_PATIENCE_S: Final = 120
_LONGEST_PAUSE_S: Final = 0.05
"""About the length of a transaction."""
_quiet = logging.getLogger("message_copies.librdkafka")


class Way(NamedTuple):
    """The way in which the copying is done and disturbed."""

    name: str
    bounced: str = "copiers"  # or "broker"
    clean: bool = False
    group_metadata: bool = True
    """True if the offsets are sent with the member's id and generation (KIP-447), or with the group's name alone."""
    group_mode: bool = False
    """True if the copiers share the partitions as members of the group; else each has partitions of its own."""
    reader_protocol: str = "classic"
    """Of the group of the reader that reads while they copy: classic or consumer."""


class Figures(NamedTuple):
    messages: int = 100_000
    a_transaction: int = 750
    partitions: int = 2
    copiers: int = 2
    restarts: int = 3
    """Of each copier, or of the broker."""
    transaction_timeout_ms: int = 10_000
    """A copier that follows a killed one asks for its group's offsets first, and waits for the end of the other's transaction."""
    progress: float = 0.2
    """Part of what a copier found to do that it does at least before it is bounced, or between two bounces of the broker."""


class Told(NamedTuple):
    """The figures that a run reports beside being right."""

    seconds: float
    restarts: int
    given_up: int
    """Copiers that ended by themselves with an error, while the broker was away; another one of the same name went on."""


WAITS_FOR_MEMBERS: Final = {"group.initial.rebalance.delay.ms": "3000"}
"""Of a broker (Kafka's own default), or the copier that joins first copies all before there is another one."""


class Copier:
    """One transactional id: the process that has it now, and what that says it has done and has left."""

    def __init__(self, bootstrap: str, way: Way, figures: Figures, number: int, log: Path) -> None:
        names = ["--transactional-id", f"copier-{number}", "--consumer-group", GROUP]
        modes = [*(["--use-group-metadata"] if way.group_metadata else []), *(["--group-mode"] if way.group_mode else [])]
        topics = ["--input-topic", IN, "--input-partition", str(number), "--output-topic", OUT]
        sizes = ["--transaction-size", str(figures.a_transaction), "--transaction-timeout", str(figures.transaction_timeout_ms)]
        self._arguments = ["--broker-list", bootstrap, "--enable-random-aborts", *names, *modes, *topics, *sizes]
        self._log = log
        self.start()

    def start(self) -> None:
        self.consumed, self.remaining, self.done = -1, -1, False
        self.process = JavaProcess(
            JARS, "org.apache.kafka.tools.TransactionalMessageCopier", *self._arguments, log=self._log, on_line=self._said
        )

    def _said(self, line: str) -> None:
        said = json.loads(line)
        self.consumed, self.remaining = int(said["consumed"]), int(said["remaining"])
        self.done = said["stage"] == "ShutdownComplete" and self.remaining <= 0

    @property
    def progress(self) -> float:
        """The share of its work that is done; 0 until it knows how much there is."""
        if self.consumed < 0 or self.remaining > 1 << 40:  # a member of a group knows with its assignment
            return 0.0
        return self.consumed / (self.consumed + self.remaining) if self.consumed + self.remaining else 1.0

    def wait_for_progress(self, enough: float) -> None:
        self.process.wait_for(lambda: self.progress >= enough, f"no progress of {enough:.2f}")

    def bounce(self, clean: bool) -> bool:
        """Returns whether it had something left to do, and was started again."""
        if clean:
            self.process.stop()
        else:
            self.process.kill()
        self.end()
        if not self.done:
            self.start()
            return True
        return False

    def end(self) -> None:
        """Kills the process if it still runs, and prints its output."""
        with self.process:
            pass


class Bounced(Protocol):
    """A broker that is bounced, or a cluster whose nodes have turns (compat_tests/cluster/bouncing.py)."""

    @property
    def bootstrap(self) -> str: ...

    def stop(self) -> object: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Copies:
    """One run: `play` does all of it, and raises AssertionError where a promise is broken. The topics have so many `replicas`."""

    def __init__(self, broker: Bounced, way: Way, figures: Figures, directory: Path, seed: int, replicas: int = 1) -> None:
        self.broker, self.way, self.figures, self.directory, self.replicas = broker, way, figures, directory, replicas
        self._random = Random(seed)
        self._restarts = self._given_up = 0

    def play(self) -> Told:
        began = time.monotonic()
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap}, logger=_quiet)
        for made in admin.create_topics([NewTopic(name, self.figures.partitions, self.replicas) for name in (IN, OUT)]).values():
            made.result(_PATIENCE_S)
        expected = self._seed()
        with ExitStack() as stack:
            seen: dict[int, dict[int, int]] = defaultdict(dict)
            reader = stack.enter_context(self._reader(seen))
            copiers = [self._copier(number) for number in range(self.figures.copiers)]
            for copier in copiers:
                stack.callback(copier.end)
            self._bounce(copiers)
            self._finish(copiers)
            reader.wait_for(lambda: sum(map(len, seen.values())) >= self.figures.messages, "not all seen", _PATIENCE_S)
            assert reader.stop() in (0, 143)
        read = {partition: list(numbers.values()) for partition, numbers in seen.items()}
        assert read == expected, self._difference(read, expected)
        found = self._read(OUT)
        assert found == expected, self._difference(found, expected)
        return Told(time.monotonic() - began, self._restarts, self._given_up)

    def _copier(self, number: int) -> Copier:
        return Copier(self.broker.bootstrap, self.way, self.figures, number, self.directory / f"copier-{number}.log")

    def _seed(self) -> dict[int, list[int]]:
        """Produces the numbers; returns, by partition, those in it, in order, as the producer got them acknowledged."""
        acked: dict[int, dict[int, int]] = defaultdict(dict)

        def said(line: str) -> None:
            event = json.loads(line)
            assert event["name"] != "producer_send_error", event
            if event["name"] == "producer_send_success":
                acked[event["partition"]][event["offset"]] = int(event["value"])

        settings = self.directory / "producer.properties"
        settings.write_text("enable.idempotence=true\nretries=1000000\n")
        how = ["--topic", IN, "--bootstrap-server", self.broker.bootstrap, "--max-messages", str(self.figures.messages)]
        keys = ["--repeating-keys", str(self.figures.partitions * 8), "--command-config", str(settings)]
        main = "org.apache.kafka.tools.VerifiableProducer"
        with JavaProcess(JARS, main, *how, *keys, log=self.directory / "producer.log", on_line=said) as producer:
            assert producer.wait(_PATIENCE_S) == 0, producer.tail()
        numbers = {partition: [values[offset] for offset in sorted(values)] for partition, values in acked.items()}
        assert sorted(chain.from_iterable(numbers.values())) == list(range(self.figures.messages)), "not even these are right"
        return numbers

    def _reader(self, seen: dict[int, dict[int, int]]) -> JavaProcess:
        """Fills `seen`: partition -> offset -> number, in the order of their coming. Where the broker was killed under a commit
        of its offsets the reader may get an offset again, which is no record twice."""

        def said(line: str) -> None:
            event = json.loads(line)
            if event["name"] == "record_data":
                numbers, offset, number = seen[event["partition"]], event["offset"], int(event["value"])
                assert numbers.setdefault(offset, number) == number, f"{number} at {offset}, where {numbers[offset]} was"

        settings = self.directory / "reader.properties"
        settings.write_text("isolation.level=read_committed\n")
        how = ["--topic", OUT, "--group-id", "reader", "--group-protocol", self.way.reader_protocol, "--verbose"]
        where = ["--bootstrap-server", self.broker.bootstrap, "--reset-policy", "earliest", "--command-config", str(settings)]
        main = "org.apache.kafka.tools.VerifiableConsumer"
        return JavaProcess(JARS, main, *how, *where, log=self.directory / "reader.log", on_line=said)

    def _bounce(self, copiers: list[Copier]) -> None:
        """The broker so many times, or each copier, all at once. A random while after some progress: that is told between two
        transactions, and the bounce may come anywhere in them."""
        if self.way.bounced == "broker":
            for number in range(1, self.figures.restarts + 1):
                under_way = [copier for copier in copiers if not copier.done]
                if under_way:
                    min(under_way, key=lambda each: each.progress).wait_for_progress(number * self.figures.progress)
                    time.sleep(self._random.uniform(0, _LONGEST_PAUSE_S))
                if all(copier.done for copier in copiers):
                    # in a cluster the copying goes on while a node is away, and may be over before each had its turn
                    goes_on = self._restarts > 0 and self.replicas > 1
                    assert goes_on, "it was over before the broker was bounced"
                    return
                if self.way.clean:
                    self.broker.stop()
                else:
                    self.broker.kill()
                self.broker.start()
                self._restarts += 1
            return
        with ThreadPoolExecutor(len(copiers)) as threads:
            seeds = [self._random.random() for _ in copiers]
            self._restarts = sum(threads.map(self._bounce_copier, copiers, seeds))

    def _bounce_copier(self, copier: Copier, seed: float) -> int:
        """Returns how often the copier was restarted. In a group, others may have finished its work."""
        random, restarts = Random(seed), 0
        for _ in range(self.figures.restarts):
            copier.wait_for_progress(self.figures.progress * random.uniform(1, 1.5))
            time.sleep(random.uniform(0, _LONGEST_PAUSE_S))
            restarts += copier.bounce(self.way.clean)
        assert restarts == self.figures.restarts or self.way.group_mode, (
            f"only {restarts} restarts: it was over before the others"
        )
        return restarts

    def _finish(self, copiers: list[Copier]) -> None:
        """Waits until no transactional id has anything left to copy."""
        until = time.monotonic() + _PATIENCE_S
        while not all(copier.done for copier in copiers):
            for copier in copiers:
                if copier.done:
                    continue
                code = copier.process.wait(until - time.monotonic())
                if not copier.done:
                    assert self.way.bounced == "broker", f"a copier gave up, with {code}\n{copier.process.tail()}"
                    self._given_up += 1
                    copier.bounce(clean=False)

    def _read(self, topic: str) -> dict[int, list[int]]:
        """Returns the committed numbers in each partition, up to its end."""
        reading = {"group.id": "last-reader", "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, **reading}, logger=_quiet)
        partitions = range(self.figures.partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: dict[int, list[int]] = defaultdict(list)
        ended: set[int] = set()
        deadline = time.monotonic() + _PATIENCE_S
        while len(ended) < len(partitions):
            assert time.monotonic() < deadline, f"{topic} was not read to its end: {ended}"
            for message in consumer.consume(1000, 0.5):
                self._take(message, found, ended)
        consumer.close()
        return dict(found)

    @staticmethod
    def _take(message: Message, found: dict[int, list[int]], ended: set[int]) -> None:
        error, partition = message.error(), message.partition()
        assert partition is not None
        if error is None:
            found[partition].append(int(message.value() or b""))
        else:
            assert error.name() == "_PARTITION_EOF", error
            ended.add(partition)

    @staticmethod
    def _difference(found: dict[int, list[int]], expected: dict[int, list[int]]) -> str:
        """Returns where the first difference is, instead of all numbers."""
        for partition, numbers in expected.items():
            there = found.get(partition, [])
            if there != numbers:
                at = next((n for n, pair in enumerate(zip(there, numbers, strict=False)) if pair[0] != pair[1]), len(there))
                twice = len(there) - len(set(there))
                return (
                    f"partition {partition} differs from number {at} on: {there[at : at + 5]} instead of {numbers[at : at + 5]};"
                    f" {len(there)} instead of {len(numbers)}, {twice} twice, {len(set(numbers) - set(there))} missing"
                )
        return f"partitions {sorted(found)} instead of {sorted(expected)}"
