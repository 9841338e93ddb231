"""Kafka Streams 4.3.1 with exactly_once_v2, against ottla and Apache Kafka, through kill -9 of the application and of ottla.

A word count (compat_tests/java/WordCount.java) writes every single count of every word, so what readers of committed records see
of a word that came n times is 1, 2, ... n: nothing lost, twice or out of order. And the smoke test of Kafka's own system tests,
whose driver knows what minima, maxima, sums, averages and windows must come out.

Both run with the classic protocol of groups and with that of streams groups (KIP-1071). Quick by default; with the figures of
Kafka's system test: `OTTLA_FULL=1 python -m pytest compat_tests/test_streams.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

import pytest

from compat_tests.forms import FULL, LONGER_IN_FULL, bounce
from compat_tests.java_client import compiled
from compat_tests.java_process import JavaProcess
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.topics import described, make_topics
from compat_tests.waiting import wait_for
from compat_tests.word_count import BROKER, JARS, LINES, PARTITIONS, Counts, Lines, WordCounts, settings

pytestmark = LONGER_IN_FULL

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


@pytest.fixture
def application(classes: Path, tmp_path: Path) -> Iterator[WordCounts]:
    with WordCounts(classes, tmp_path) as application:
        yield application


def test_every_word_is_counted_once_through_kills(
    fresh_broker: Callable[..., BrokerProcess], protocol: str, application: WordCounts
) -> None:
    """The broker dies twice if it is ottla, the application once. Its threads take over where the group is, with what the
    changelog holds."""
    broker = fresh_broker(**BROKER)
    make_topics(broker.bootstrap, PARTITIONS, "lines", "counts")
    lines, counts = Lines(broker, "lines", Random(7)), Counts(broker, "counts")
    instance = application.start(broker, protocol)
    instance.wait_for_text("state RUNNING")
    counts.start()
    lines.start()
    try:
        for share, victim in ((0.15, "broker"), (0.35, "application"), (0.6, "broker")):
            enough = int(share * 4 * LINES)
            wait_for(lambda: counts.number >= enough, f"{enough} counts, of which there are {counts.number}")  # noqa: B023 - called within the round
            if victim == "broker":
                bounce(broker, "word counts of Kafka Streams")
            else:
                instance.kill()
                instance = application.start(broker, protocol)
        lines.join(60)
        assert lines.left == 0
        wait_for(lambda: counts.number >= 4 * LINES, "all counts")
        assert instance.stop() in (0, 143)
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
SMOKE_FIGURES: Final = ["20", "1000", "90"] if FULL else ["10", "200", "15"]
"""Keys, records a key, seconds over which these are written."""
SMOKE_KILLS: Final = 2 if FULL else 1


def test_the_smoke_test_verifies_its_results_though_its_clients_are_killed(
    fresh_broker: Callable[..., BrokerProcess],
    protocol: str,
    classes: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """As Kafka's system test does it: a client is killed while data comes, and another one goes on.

    The driver compares positions with the topics' ends, behind which a marker must not come any more. So what the killed client
    had begun is aborted within four seconds, not within twenty.
    """
    broker = fresh_broker(**BROKER, transaction_abort_timed_out_transaction_cleanup_interval_ms="500")
    make_topics(broker.bootstrap, PARTITIONS, *SMOKE_TOPICS)
    properties = tmp_path / "smoke.properties"
    own = [f"bootstrap.servers={broker.bootstrap}", "processing.guarantee=exactly_once_v2"]
    own.append("producer.transaction.timeout.ms=3000")
    properties.write_text("\n".join([*own, *settings(protocol)]) + "\n")

    def client() -> JavaProcess:
        main = "org.apache.kafka.streams.tests.StreamsSmokeTest"
        return JavaProcess(JARS, main, str(properties), "process", log=tmp_path / "client.log")

    with ExitStack() as stack:
        last = stack.enter_context(client())
        last.wait_for_text("REBALANCING -> RUNNING")
        generated, again = threading.Event(), threading.Event()

        def said(line: str) -> None:
            if line.startswith("generated"):
                generated.set()
            elif line.startswith("verified again"):
                again.set()

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
        if again.is_set():
            record_property("second_try", "the driver verified the results once more; see SmokeTest.java")
        assert last.stop() in (0, 143)
        assert any("SMOKE-TEST-CLIENT-CLOSED" in line for line in last.last)
