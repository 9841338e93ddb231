"""The word count of compat_tests/java/WordCount.java: its instances, who writes its lines, and who reads its counts."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.forms import FULL
from compat_tests.java_process import JavaProcess
from compat_tests.reference.kafka import BrokerProcess

JARS: Final = "kafka-streams"
PARTITIONS: Final = 2
WORDS: Final = [f"word{number}" for number in range(20)]
LINES: Final = 50_000 if FULL else 3_000
SESSION_MS: Final = "6000"
APPLICATION: Final = "counter"
BROKER: Final = {
    "offsets_topic_num_partitions": "2",
    "transaction_state_log_num_partitions": "2",
    "group_streams_min_session_timeout_ms": SESSION_MS,  # who was killed is missed after this
    "group_streams_session_timeout_ms": SESSION_MS,
    "group_streams_min_heartbeat_interval_ms": "500",
    "group_streams_heartbeat_interval_ms": "500",
    "group_streams_initial_rebalance_delay_ms": "0",
}


def settings(protocol: str) -> list[str]:
    """Of a Streams application. The session's length is the member's to say in a classic group, and the broker's in the other."""
    session = [f"session.timeout.ms={SESSION_MS}", "heartbeat.interval.ms=500"] if protocol == "classic" else []
    return [f"group.protocol={protocol}", "reconnect.backoff.max.ms=200", *session]


class Counts(threading.Thread):
    """Reads the committed counts of every word, all the while."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        super().__init__(daemon=True)
        reading = {"group.id": "counts", "isolation.level": "read_committed", "reconnect.backoff.max.ms": 200, "log_level": 0}
        self._consumer = Consumer({"bootstrap.servers": broker.bootstrap, **reading})
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        self._over = threading.Event()
        self.seen: dict[str, list[int]] = defaultdict(list)
        self.number = 0

    def run(self) -> None:
        while not self._over.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self.seen[(message.key() or b"").decode()].append(int(message.value() or b""))
                    self.number += 1
        self._consumer.close()

    def end(self) -> None:
        self._over.set()
        self.join(30)


class Lines(threading.Thread):
    """Writes lines of words, an idempotent producer that outlives the broker's kills; `words` is how often each was written."""

    def __init__(self, broker: BrokerProcess, topic: str, random: Random) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "reconnect.backoff.max.ms": 200, "log_level": 0}
        )
        self._topic, self._random = topic, random
        self._pace = threading.Event()
        self.words: Counter[str] = Counter()
        self.left = -1

    def run(self) -> None:
        for number in range(LINES):
            words = self._random.choices(WORDS, k=4)
            self.words.update(words)
            self._producer.produce(self._topic, " ".join(words).encode(), partition=number % PARTITIONS)
            if number % 20 == 0:
                self._pace.wait(0.05)  # so that it takes some seconds: nothing is waited for here
        self.left = self._producer.flush(60)


class WordCounts:
    """Instances of the application, each with a directory for its state; those that still run are ended with the block."""

    def __init__(self, classes: Path, directory: Path) -> None:
        self._classes, self._directory = classes, directory
        self._started = ExitStack()

    def __enter__(self) -> WordCounts:
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    def start(self, broker: BrokerProcess, protocol: str, *more: str, name: str = "") -> JavaProcess:
        """`more` are settings; an instance of the same `name` finds what an earlier one left."""
        where = [broker.bootstrap, APPLICATION, str(self._directory / f"state{name}")]
        log = self._directory / f"streams{name}.log"
        process = JavaProcess(JARS, "WordCount", *where, *settings(protocol), *more, log=log, classes=self._classes)
        return self._started.enter_context(process)
