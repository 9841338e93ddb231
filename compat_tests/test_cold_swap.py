"""Cold swap: one broker stops, the other serves its data directory, and nobody can tell.

`kafkas_directory` is written by Apache Kafka once and copied as it is after a kill -9 and after a clean stop. A `Journey` takes
such a copy on: ottla, Kafka, ottla, each writing more, all of them ended the same way; `ottlas_journey` begins with ottla. What
a broker holds is a manifest (directory_manifest.py), taken when it is handed over and when the next has it.

test_what_goes_back_is_kept says more of what Kafka finds again: features, groups of the newer kinds, and internal topics.
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
from compat_tests.directory_swap import KILL, PREFIX, STOP, Directory
from compat_tests.java_client import Java

ENDS: Final = (KILL, STOP)


@dataclass
class Turn:
    """One broker's time with the directory."""

    kind: str
    found: Manifest
    """The manifest that it showed when it began."""
    left: Manifest
    """The manifest that it showed at its end."""


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
    """Returns a dictionary: how its writer ended -> where it was left. Kafka finds all of its own again, so the manifests leave
    out nothing but what it forgets itself."""
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
    """ottla, Kafka, ottla."""
    made = Journey(Directory(tmp_path_factory.mktemp("ottla") / "directory"))
    with made.directory.served_by("ottla", request.param) as ottla:
        ottla.wire.warm_up()
        made.sequences = directory_history.everyday(ottla.wire, java.at(ottla.bootstrap), ottla.bootstrap)
        directory_history.with_transactions(ottla.wire, ottla.bootstrap)
        manifest = take(ottla.address)
        made.turns.append(Turn("ottla", manifest, manifest))
    travel(made, ("kafka", "ottla"), request.param)
    return made


def travel(journey: Journey, kinds: tuple[str, ...], end: str) -> None:
    """The next brokers have the directory, each writes more, and each ends in the same way."""
    for turn, kind in enumerate(kinds, 1):
        with journey.directory.served_by(kind, end) as served:
            found = take(served.address)
            if kind == "kafka" and f"{PREFIX}-share-group" not in found["groups"]:
                directory_history.kafkas_own(served.wire, served.bootstrap)
            directory_history.go_on(served.wire, served.bootstrap, journey.sequences, turn)
            journey.turns.append(Turn(kind, found, take(served.address)))


def handovers(journey: Journey) -> Iterator[tuple[Turn, Turn]]:
    return zip(journey.turns, journey.turns[1:], strict=False)


def check_handovers(journey: Journey) -> None:
    for before, after in handovers(journey):
        changed = differences(before.left, after.found)
        assert not changed, f"{before.kind} left, {after.kind} found:\n" + "\n".join(changed)
    metadata = journey.directory.log_dirs[0] / "__cluster_metadata-0"
    assert [path for path in metadata.glob("*.checkpoint") if not path.name.startswith("0" * 20)], "no snapshot was written"
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


def test_what_goes_back_is_kept(journey: Journey) -> None:
    """Features, groups of the newer kinds, and the topics behind transactions and share groups."""
    first, between = journey.turns[0].left, journey.turns[2].found
    assert first["cluster"] == between["cluster"]
    for group, kind in (("consumer-group", "consumer"), ("share-group", "share"), ("changing-group", "consumer")):
        assert first["groups"][f"{PREFIX}-{group}"] == (kind, "Empty", kind)
    for group in ("consumer-group", "share-group"):
        assert first["groups"][f"{PREFIX}-{group}"] == between["groups"][f"{PREFIX}-{group}"]
    assert between["groups"][f"{PREFIX}-changing-group"][2] == "classic", "whose member at ottla had the classic protocol"
    for topic in ("__transaction_state", "__share_group_state"):
        records = {what: lines for what, lines in first["records"].items() if what.startswith(topic)}
        assert any(records.values())
        for turn in journey.turns[1:3]:
            assert turn.found["topics"][topic]["internal"]
            assert all(turn.found["records"][what][: len(lines)] == lines for what, lines in records.items())


def test_kafka_does_not_wait_for_a_broker_that_stopped_cleanly(kafkas_directory: dict[str, Journey], tmp_path: Path) -> None:
    """A broker that the metadata shows as alive would have to be given up first, after broker.session.timeout.ms."""
    directory = kafkas_directory[STOP].directory.copy(tmp_path / "directory")
    with directory.served_by("ottla"):
        pass
    log = directory.path / "broker.log"
    log.unlink()
    with directory.served_by("kafka") as kafka:
        take(kafka.address)
    text = log.read_text()
    assert "Successfully registered broker" in text
    assert "DuplicateBrokerRegistration" not in text
