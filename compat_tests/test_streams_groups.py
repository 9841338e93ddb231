"""Streams groups (KIP-1071) from outside: a Kafka Streams application that grows from one instance to three and shrinks again
while the broker is killed if it is ottla, and a group's state in a directory that goes from Kafka to ottla and back.

The application is the word count of test_streams.py, which says there why 1, 2, ... n is what a reader must see of every word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from compat_tests.brokers import Address
from compat_tests.directory_swap import KILL, STOP, Directory
from compat_tests.forms import LONGER_IN_FULL, bounce
from compat_tests.java_client import compiled
from compat_tests.java_process import JavaProcess
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.topics import make_topics
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.same import differences, normalise
from compat_tests.wire_diff.streams import Stream, at_once, described, subtopology
from compat_tests.word_count import APPLICATION, BROKER, JARS, LINES, PARTITIONS, Counts, Lines, WordCounts

pytestmark = LONGER_IN_FULL


@pytest.fixture(scope="module")
def word_count(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("word-count"), "WordCount", JARS)


@pytest.fixture
def application(word_count: Path, tmp_path: Path) -> Iterator[WordCounts]:
    with WordCounts(word_count, tmp_path) as application:
        yield application


def start(application: WordCounts, broker: BrokerProcess, number: int) -> JavaProcess:
    settings = ["num.stream.threads=1", f"application.server=127.0.0.1:{4000 + number}"]
    return application.start(broker, "streams", *settings, name=str(number))


def spread(broker: BrokerProcess) -> tuple[str, list[int]]:
    """The group's state, and how many active tasks its members have, most first."""
    assert broker.process is not None
    wire = Wire(Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file)), "spread")
    try:
        group = described(wire, APPLICATION).groups[0]
    finally:
        wire.close()
    counts = [sum(len(each.partitions) for each in member.assignment.active_tasks) for member in group.members]
    return group.group_state, sorted(counts, reverse=True)


def test_an_application_grows_and_shrinks_while_the_broker_dies(
    fresh_broker: Callable[..., BrokerProcess], application: WordCounts
) -> None:
    """Four tasks: of one instance, of three, of one again; ottla dies in between. Every count comes once and in order."""
    broker = fresh_broker(**BROKER)
    make_topics(broker.bootstrap, PARTITIONS, "lines", "counts")
    lines, counts = Lines(broker, "lines", Random(1071)), Counts(broker, "counts")
    instances = [start(application, broker, 0)]
    instances[0].wait_for_text("state RUNNING")
    counts.start()
    lines.start()
    try:
        wait_for(lambda: counts.number >= 0.1 * 4 * LINES, "a tenth of the counts")
        instances += [start(application, broker, number) for number in (1, 2)]
        wait_for(lambda: spread(broker) == ("Stable", [2, 1, 1]), "three instances share the tasks")
        bounce(broker, "word counts of Kafka Streams")
        wait_for(lambda: spread(broker) == ("Stable", [2, 1, 1]), "as it was")
        for instance in instances[:2]:
            assert instance.stop() in (0, 143)
        wait_for(lambda: spread(broker) == ("Stable", [4]), "one instance has all tasks")
        lines.join(60)
        assert lines.left == 0
        wait_for(lambda: counts.number >= 4 * LINES, "all counts")
        assert instances[2].stop() in (0, 143)
    finally:
        counts.end()
    wrong = {word: seen for word, seen in counts.seen.items() if seen != list(range(1, lines.words[word] + 1))}
    assert not wrong, {word: (len(seen), lines.words[word], seen[:5], seen[-5:]) for word, seen in wrong.items()}
    assert counts.seen.keys() == lines.words.keys()


def shown(wire: Wire, group: str) -> Any:
    """A group as it is described, but for its topology: how many partitions internal topics have is worked out anew, and Kafka
    shows it with the next change only.
    """
    answer = described(wire, group)
    answer.groups[0].topology = None
    return normalise(answer, {})


def is_loaded(wire: Wire, group: str) -> bool:
    return not described(wire, group).groups[0].error_code


@pytest.mark.parametrize("end", [STOP, KILL])
def test_a_group_goes_from_kafka_to_ottla_and_back(tmp_path: Path, end: str) -> None:
    """Members go on in their epochs with their tasks, whoever serves the directory: no heartbeat asks for another assignment."""
    directory = Directory(tmp_path / "swap")
    members: list[Stream] = []
    before: Any = None
    for turn, kind in enumerate(("kafka", "ottla", "kafka", "ottla")):
        with directory.served_by(kind, end) as served:
            wire = served.wire
            wire.warm_up()
            if turn == 0:
                topic, group = wire.create("t", 6), at_once(wire, session_timeout_ms="60000", num_standby_replicas="1")
            topology = [subtopology("0", topic, changelogs=[wire.name("store")])]
            for member in members:
                member.wire = wire
            if members:
                wait_for(lambda: is_loaded(members[0].wire, members[0].group), "the group is loaded")
            for member in members:
                beat = member.owning()
                assert (beat.error_code, beat.active_tasks, beat.status) == (0, None, []), (kind, beat)
            if before is not None:
                assert not differences(before, shown(wire, group)), (kind, before, shown(wire, group))
            members.append(Stream(wire, group, f"m{turn}", "static" if turn == 1 else None))
            members[-1].join(topology)
            members[0].until_ready()
            for _ in range(4):
                for member in members:
                    member.owning()
            before = shown(wire, group)
            assert before["groups"][0]["group_state"] == "Stable", (kind, before)
    assert len(before["groups"][0]["members"]) == 4
