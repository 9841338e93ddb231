"""Cold swap: one broker stops, the other serves its data directory, and nobody can tell.

`kafkas_directory` is written by Apache Kafka once and copied as it is after a kill -9 and after a clean stop. A `Journey` takes
such a copy on: ottla, Kafka, ottla, each writing more, all of them ended the same way; `ottlas_journey` begins with ottla. What
a broker holds is a manifest (directory_manifest.py), taken when it is handed over and when the next has it.

What ottla shows otherwise stands in `as_ottla_shows`, and test_what_ottla_does_not_know_is_kept says that Kafka finds it again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from compat_tests import directory_history, java_client
from compat_tests.directory_history import Sequence
from compat_tests.directory_manifest import Manifest, differences, lost, take
from compat_tests.directory_swap import KILL, PREFIX, STOP, Directory, as_ottla_shows
from compat_tests.java_client import Java

ENDS: Final = (KILL, STOP)


@dataclass
class Turn:
    """One broker's time with the directory."""

    kind: str
    found: Manifest
    """What it showed when it began."""
    left: Manifest
    """What it showed at its end."""


@dataclass
class Journey:
    directory: Directory
    turns: list[Turn] = field(default_factory=list)
    sequences: dict[str, Sequence] = field(default_factory=dict)


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with java_client.running(tmp_path_factory.mktemp("java")) as program:
        yield program


@pytest.fixture(scope="module")
def kafkas_directory(java: Java, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Journey]:
    """How its writer ended -> where it was left. Kafka finds all of its own again, so the manifests leave out nothing but what
    it forgets itself."""
    path = tmp_path_factory.mktemp("kafka")
    directory = Directory(path / KILL)
    with directory.served_by("kafka", KILL) as kafka:
        kafka.wire.warm_up()
        sequences = directory_history.everyday(kafka.wire, java.at(kafka.bootstrap), kafka.bootstrap)
        directory_history.with_transactions(kafka.wire, kafka.bootstrap)
        directory_history.kafkas_own(kafka.wire, kafka.bootstrap)
        first = take(kafka.address)
    stopped = directory.copy(path / STOP)
    with stopped.served_by("kafka", STOP) as kafka:
        again = take(kafka.address)
    assert not differences(first, again), "Kafka itself does not find what it left"
    return {
        KILL: Journey(directory, [Turn("kafka", first, first)], sequences),
        STOP: Journey(stopped, [Turn("kafka", first, again)], sequences),
    }


@pytest.fixture(scope="module", params=ENDS)
def journey(
    request: pytest.FixtureRequest, kafkas_directory: dict[str, Journey], tmp_path_factory: pytest.TempPathFactory
) -> Journey:
    """Kafka, ottla, Kafka, ottla."""
    begun = kafkas_directory[request.param]
    directory = begun.directory.copy(tmp_path_factory.mktemp("journey") / "directory")
    made = Journey(directory, [*begun.turns], copy.deepcopy(begun.sequences))
    travel(made, ("ottla", "kafka", "ottla"), request.param)
    return made


@pytest.fixture(scope="module", params=ENDS)
def ottlas_journey(request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory) -> Journey:
    """ottla, Kafka, ottla. Nobody asks the coordinator whether a batch belongs to a transaction: ottla has none."""
    without_coordinator = {"transaction.partition.verification.enable": "false"}
    made = Journey(Directory(tmp_path_factory.mktemp("ottla") / "directory", without_coordinator))
    with made.directory.served_by("ottla", request.param) as ottla:
        ottla.wire.warm_up()
        made.sequences = directory_history.everyday(ottla.wire, java.at(ottla.bootstrap), ottla.bootstrap)
        made.sequences |= directory_history.transactions_by_hand(ottla.wire)
        manifest = take(ottla.address)
        made.turns.append(Turn("ottla", manifest, manifest))
    travel(made, ("kafka", "ottla"), request.param)
    return made


def travel(journey: Journey, kinds: tuple[str, ...], end: str) -> None:
    """The next brokers have the directory, each writes more, and each ends in the same way."""
    for turn, kind in enumerate(kinds, 1):
        with journey.directory.served_by(kind, end) as served:
            found = take(served.address)
            directory_history.go_on(served.wire, served.bootstrap, journey.sequences, turn)
            if kind == "kafka" and f"{PREFIX}-transactional" not in found["topics"]:
                directory_history.with_transactions(served.wire, served.bootstrap)
                directory_history.kafkas_own(served.wire, served.bootstrap)
            journey.turns.append(Turn(kind, found, take(served.address)))


def handovers(journey: Journey) -> Iterator[tuple[Turn, Turn]]:
    return zip(journey.turns, journey.turns[1:], strict=False)


def check_handovers(journey: Journey) -> None:
    for before, after in handovers(journey):
        changed = differences(as_ottla_shows(before.left), as_ottla_shows(after.found))
        assert not changed, f"{before.kind} left, {after.kind} found:\n" + "\n".join(changed)
    last = journey.turns[-1].left
    for turn in journey.turns:
        gone = turn.left["topics"].keys() - last["topics"].keys()
        assert all(topic.startswith(f"{PREFIX}-turn-") for topic in gone), gone
        assert not lost(turn.left, last)


def test_all_that_kafka_wrote_is_the_same_at_ottla_and_back(journey: Journey) -> None:
    assert [turn.kind for turn in journey.turns] == ["kafka", "ottla", "kafka", "ottla"]
    check_handovers(journey)


def test_all_that_ottla_wrote_is_the_same_at_kafka_and_back(ottlas_journey: Journey) -> None:
    assert [turn.kind for turn in ottlas_journey.turns] == ["ottla", "kafka", "ottla"]
    check_handovers(ottlas_journey)


def test_what_ottla_does_not_know_is_kept(journey: Journey) -> None:
    """Features, groups of the newer kinds, and the topics behind transactions and share groups."""
    first, between = journey.turns[0].left, journey.turns[2].found
    assert first["cluster"] == between["cluster"]
    newer = {group: what for group, what in first["groups"].items() if what[2] != "classic"}
    assert len(newer) == 2
    assert newer.items() <= between["groups"].items()
    for topic in ("__transaction_state", "__share_group_state"):
        records = {what: lines for what, lines in first["records"].items() if what.startswith(topic)}
        assert any(records.values())
        for turn in journey.turns[1:3]:
            assert turn.found["topics"][topic]["internal"]
            assert records.items() <= turn.found["records"].items()


def test_a_transaction_left_open_is_ended_by_its_producers_return(journey: Journey, tmp_path: Path) -> None:
    """Two swaps later Kafka knows it still, and the records behind it become visible."""
    topic = f"{PREFIX}-transactional"
    before = journey.turns[-1].left
    directory = journey.directory.copy(tmp_path / "directory")
    with directory.served_by("kafka") as kafka:
        returned = directory_history.transactional(kafka.bootstrap, f"{PREFIX}-left-open")
        after = take(kafka.address)
        returned.begin_transaction()
        returned.produce(topic, "finished", partition=0)
        returned.commit_transaction(30)
    assert before["offsets"][f"{topic}-0"]["last stable"] < before["offsets"][f"{topic}-0"]["end"][0]
    assert after["offsets"][f"{topic}-0"]["last stable"] == after["offsets"][f"{topic}-0"]["end"][0]
    new = [line for line in after["committed"][f"{topic}-0"] if line not in before["committed"][f"{topic}-0"]]
    values = {line[0]: line[3] for line in after["records"][f"{topic}-0"]}
    assert [values[offset] for offset in new] == [b"behind the open transaction"]
