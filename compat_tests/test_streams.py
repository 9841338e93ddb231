"""Kafka Streams 4.3.1 with exactly_once_v2, against ottla and against Apache Kafka, through kill -9 of broker and application.

A word count (compat_tests/java/WordCount.java) writes every single count of every word, so what readers of committed records see
of a word that came n times is 1, 2, ... n: nothing lost, twice or out of order. And the smoke test of Kafka's own system tests,
whose driver knows what minima, maxima, sums, averages and windows must come out.

Both run with the classic protocol of groups and with that of streams groups (KIP-1071). Quick by default; with the figures of
Kafka's system test: `OTTLA_FULL=1 python -m pytest compat_tests/test_streams.py --timeout 900`.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from reference_kafka import BrokerProcess

from compat_tests.java_client import compiled
from compat_tests.java_process import JavaProcess
from compat_tests.topics import described, make_topics
from compat_tests.waiting import wait_for

FULL: Final = bool(os.environ.get("OTTLA_FULL"))
JARS: Final = "kafka-streams"
PARTITIONS: Final = 2
WORDS: Final = [f"word{number}" for number in range(20)]
LINES: Final = 50_000 if FULL else 3_000
SESSION_MS: Final = "6000"
BROKER: Final = {
    "offsets_topic_num_partitions": "2",
    "transaction_state_log_num_partitions": "2",
    "group_streams_min_session_timeout_ms": SESSION_MS,  # who was killed is missed after this
    "group_streams_session_timeout_ms": SESSION_MS,
    "group_streams_min_heartbeat_interval_ms": "500",
    "group_streams_heartbeat_interval_ms": "500",
    "group_streams_initial_rebalance_delay_ms": "0",
}
_STAMPED: Final = {"message.timestamp.type": "CreateTime"}
INTERNAL: Final = {
    "counter-words-repartition": (
        PARTITIONS,
        {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800", **_STAMPED},
    ),
    "counter-store-changelog": (PARTITIONS, {"cleanup.policy": "compact", **_STAMPED}),
}
"""The application's own topics: made by its leader in a classic group, and by the broker in a streams group."""


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("streams")
    for main in ("WordCount", "SmokeTest"):
        compiled(directory, main, JARS)
    return directory


@pytest.fixture(params=["classic", "streams"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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


@pytest.fixture
def count_words(classes: Path, tmp_path: Path) -> Iterator[Callable[..., JavaProcess]]:
    started: list[JavaProcess] = []

    def start(broker: BrokerProcess, protocol: str) -> JavaProcess:
        where = [broker.bootstrap, "counter", str(tmp_path / "state")]
        how = settings(protocol)
        process = JavaProcess(JARS, "WordCount", *where, *how, log=tmp_path / "streams.log", classes=classes)
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            pass


def test_every_word_is_counted_once_through_kills(
    fresh_broker: Callable[..., BrokerProcess], protocol: str, count_words: Callable[..., JavaProcess]
) -> None:
    """The broker dies twice, the application once. Its threads take over where the group is, with what the changelog holds."""
    broker = fresh_broker(**BROKER)
    make_topics(broker.bootstrap, PARTITIONS, "lines", "counts")
    lines, counts = Lines(broker, "lines", Random(7)), Counts(broker, "counts")
    application = count_words(broker, protocol)
    application.wait_for_text("state RUNNING")
    counts.start()
    lines.start()
    try:
        for share, victim in ((0.15, "broker"), (0.35, "application"), (0.6, "broker")):
            enough = int(share * 4 * LINES)
            wait_for(lambda n=enough: counts.number >= n, f"{enough} counts, of which there are {counts.number}")  # type: ignore[misc]
            if victim == "broker":
                broker.kill()
                broker.start()
            else:
                application.kill()
                application = count_words(broker, protocol)
        lines.join(60)
        assert lines.left == 0
        wait_for(lambda: counts.number >= 4 * LINES, "all counts")
        assert application.stop() in (0, 143)
    finally:
        counts.end()
    wrong = {word: seen for word, seen in counts.seen.items() if seen != list(range(1, lines.words[word] + 1))}
    assert not wrong, {word: (len(seen), lines.words[word], seen[:5], seen[-5:]) for word, seen in wrong.items()}
    assert counts.seen.keys() == lines.words.keys()
    assert described(broker.bootstrap, lambda name: name.startswith("counter-")) == INTERNAL


SMOKE_TOPICS: Final = (
    *("data", "echo", "fk", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed"),
    *("cnt", "avg", "tagg", "wcnt"),
)
SMOKE_FIGURES: Final = ["20", "1000", "90"] if FULL else ["10", "200", "8"]
"""Keys, records a key, seconds over which these are written."""
SMOKE_KILLS: Final = 2 if FULL else 1


def test_the_smoke_test_verifies_its_results_though_its_clients_are_killed(
    fresh_broker: Callable[..., BrokerProcess], protocol: str, classes: Path, tmp_path: Path
) -> None:
    """As Kafka's system test does it: a client is killed while data comes, and another one goes on."""
    broker = fresh_broker(**BROKER)
    make_topics(broker.bootstrap, PARTITIONS, *SMOKE_TOPICS)
    properties = tmp_path / "smoke.properties"
    own = [f"bootstrap.servers={broker.bootstrap}", "processing.guarantee=exactly_once_v2"]
    properties.write_text("\n".join([*own, *settings(protocol)]) + "\n")

    def client() -> JavaProcess:
        main = "org.apache.kafka.streams.tests.StreamsSmokeTest"
        return JavaProcess(JARS, main, str(properties), "process", log=tmp_path / "client.log")

    with ExitStack() as stack:
        last = stack.enter_context(client())
        last.wait_for_text("REBALANCING -> RUNNING")
        generated = threading.Event()

        def said(line: str) -> None:
            if line.startswith("generated"):
                generated.set()

        log = tmp_path / "driver.log"
        driver = JavaProcess(JARS, "SmokeTest", broker.bootstrap, *SMOKE_FIGURES, log=log, on_line=said, classes=classes)
        stack.enter_context(driver)
        for _ in range(SMOKE_KILLS):
            last.wait_for_text("processed")
            assert not generated.is_set(), "it was over before the kill"
            last.kill()
            last = stack.enter_context(client())
        last.wait_for_text("processed")
        assert driver.wait(240) == 0, driver.tail()
        assert driver.last[-1] == "verified true"
        assert last.stop() in (0, 143)
        assert any("SMOKE-TEST-CLIENT-CLOSED" in line for line in last.last)
