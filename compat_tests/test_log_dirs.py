"""Several log directories, against ottla and against Apache Kafka: moves by the Java client, and directories that change between
two starts.

What the brokers make of a directory that is gone, came back, was filled by hand or lost its meta.properties is the same for both:
each test says what, and runs with both.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.brokers import CLASSES, KINDS
from compat_tests.java_client import Java, JavaAt, JavaError, running
from compat_tests.reference.kafka import BrokerFailed, BrokerProcess
from compat_tests.test_metadata_snapshots import dumped
from compat_tests.waiting import collect, wait_for

RECORDS = 300


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("java")) as java:
        yield java


class Place:
    """A broker with two log directories."""

    def __init__(self, kind: str, home: Path) -> None:
        self.one, self.two = home / "data", home / "more"
        self.broker: BrokerProcess = CLASSES[kind](home, {"log.dirs": f"{self.one},{self.two}"})

    def restart_with(self, *directories: Path) -> None:
        """Stopped already; the first stays the metadata's."""
        self.broker.settings["log.dirs"] = ",".join(str(path) for path in directories)
        self.broker.settings["metadata.log.dir"] = str(self.one)
        self.broker.start()

    def directory_of(self, topic: str, index: int = 0) -> Path:
        places: list[Path] = []

        def look() -> bool:
            places[:] = [path for path in (self.one, self.two) if (path / f"{topic}-{index}").is_dir()]
            return len(places) == 1

        wait_for(look, "the partition is in one of the directories")
        return places[0]

    def other(self, path: Path) -> Path:
        return self.two if path == self.one else self.one

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
        wait_for(lambda: self.leaders(topic) == [1] * partitions, "every partition has a leader")

    def leaders(self, topic: str) -> list[int]:
        partitions = AdminClient({"bootstrap.servers": self.broker.bootstrap}).list_topics(topic, 10).topics[topic].partitions
        return [partition.leader for _, partition in sorted(partitions.items())]

    def produce(self, topic: str, count: int, first: int = 0, index: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "enable.idempotence": True})
        errors: list[Any] = []
        for number in range(first, first + count):
            producer.produce(topic, f"value-{number}", str(number), index, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
        assert errors == [None] * count

    def values(self, topic: str, count: int, index: int = 0) -> list[str]:
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, index, 0)])
        try:
            return [message.value().decode() for message in collect(lambda: consumer.consume(100, 0.2), count)]
        finally:
            consumer.close()

    def directory_id(self, path: Path) -> str:
        lines = (path / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id"))


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(kind, tmp_path / kind)
    made.broker.start()
    yield made
    made.broker.stop()


def wanted(count: int) -> list[str]:
    return [f"value-{number}" for number in range(count)]


def directory_changes(place: Place, topic: str) -> list[str]:
    """The lines of the broker's metadata log that give a partition of the topic another directory."""
    said = dumped(place.broker)
    (topic_id,) = re.findall(rf'"name":"{topic}","topicId":"([^"]+)"', said)
    return [line for line in assigned(said) if topic_id in line]


def assigned(said: str) -> list[str]:
    """The lines of a metadata log that give partitions a directory."""
    return [line for line in said.splitlines() if '"PARTITION_CHANGE_RECORD"' in line and '"directories"' in line]


def moved(java: JavaAt, topic: str, path: Path) -> None:
    assert java.call("alter_replica_log_dir", topic=topic, partition=0, path=str(path)) is None

    def there() -> bool:
        found = java.call("replica_log_dir", topic=topic, partition=0)
        return bool(found["current"] == str(path) and found["future"] is None)

    wait_for(there, "the partition is in the other directory")


def test_a_partition_moves_and_is_used_and_comes_back(place: Place, program: Java) -> None:
    java = program.at(place.broker.bootstrap)
    place.create("t", segment_bytes="1048576")
    place.produce("t", RECORDS)
    was = place.directory_of("t")
    target = place.other(was)
    moved(java, "t", target)
    assert place.directory_of("t") == target
    place.produce("t", RECORDS, RECORDS)
    assert place.values("t", 2 * RECORDS) == wanted(2 * RECORDS)
    place.broker.kill()
    place.broker.start()
    wait_for(lambda: place.leaders("t") == [1], "the partition has a leader")
    assert place.directory_of("t") == target
    assert place.values("t", 2 * RECORDS) == wanted(2 * RECORDS)
    moved(java, "t", was)
    assert place.values("t", 2 * RECORDS) == wanted(2 * RECORDS)

    def recorded() -> bool:
        """Kafka serves from the other directory before its controller has recorded it."""
        last = directory_changes(place, "t")[-2:]
        return len(last) == 2 and place.directory_id(target) in last[0] and place.directory_id(was) in last[1]

    wait_for(recorded, "both moves are in the metadata log")
    place.broker.stop()


def test_refusals(place: Place, program: Java) -> None:
    java = program.at(place.broker.bootstrap)
    place.create("t")
    for topic, path, name in (
        ("t", "/nowhere", "LogDirNotFoundException"),
        ("t", f"{place.one}/", "LogDirNotFoundException"),
        ("absent", str(place.one), "UnknownTopicOrPartitionException"),
    ):
        with pytest.raises(JavaError) as raised:
            java.call("alter_replica_log_dir", topic=topic, partition=0, path=path)
        assert raised.value.name == name


def test_new_partitions_go_where_the_fewest_are(place: Place) -> None:
    place.create("t", 5)
    places = [place.directory_of("t", index) for index in range(5)]
    assert sorted((places.count(place.one), places.count(place.two))) == [2, 3]
    place.create("u", 1)
    places.append(place.directory_of("u"))
    assert places.count(place.one) == places.count(place.two) == 3
    # each was unassigned at first, and Kafka's broker reports some time later where it is
    wait_for(lambda: len(assigned(dumped(place.broker))) == 6, "all are assigned")
    place.broker.stop()
    ids = {place.directory_id(path) for path in (place.one, place.two)}
    said = dumped(place.broker)
    assert len(assigned(said)) == 6
    assert all(any(directory_id in line for directory_id in ids) for line in assigned(said))
    registration = next(line for line in said.splitlines() if '"REGISTER_BROKER_RECORD"' in line)
    assert all(directory_id in registration for directory_id in ids)


def test_a_directory_goes_and_comes_back(place: Place, kind: str) -> None:
    """Its partitions have no leader meanwhile. Kafka begins empty ones in the directory that is left, leads them, and does not
    start any more when the old ones are back: not for us."""
    place.create("t", 2)
    for index in range(2):
        place.produce("t", 10, index=index)
    lost = next(index for index in range(2) if place.directory_of("t", index) == place.two)
    place.broker.stop()
    place.restart_with(place.one)
    wait_for(lambda: place.leaders("t")[1 - lost] == 1, "what is there has a leader")
    assert place.values("t", 10, 1 - lost) == wanted(10)
    if kind == "kafka":
        return
    assert place.leaders("t")[lost] == -1
    assert not (place.one / f"t-{lost}").exists()
    place.broker.stop()
    place.restart_with(place.one, place.two)
    wait_for(lambda: place.leaders("t") == [1, 1], "what came back has a leader")
    assert place.values("t", 10, lost) == wanted(10)


def test_a_partition_that_was_moved_by_hand(place: Place) -> None:
    place.create("t")
    place.produce("t", 10)
    was = place.directory_of("t")
    place.broker.stop()
    shutil.move(was / "t-0", place.other(was) / "t-0")
    place.broker.start()
    wait_for(lambda: place.leaders("t") == [1], "the partition has a leader")
    assert place.values("t", 10) == wanted(10)
    there = place.directory_id(place.other(was))
    wait_for(lambda: there in "".join(directory_changes(place, "t")[-1:]), "the other directory is in the metadata log")
    place.broker.stop()


def test_a_directory_is_added(place: Place, kind: str, tmp_path: Path) -> None:
    """Kafka wants it formatted by its tool, we have none and do it at the start."""
    place.create("t", 2)
    place.broker.stop()
    third = tmp_path / "third"
    if kind == "kafka":
        with pytest.raises(BrokerFailed, match=r"No `meta.properties` found in"):
            place.restart_with(place.one, place.two, third)
        return
    place.restart_with(place.one, place.two, third)
    assert len({place.directory_id(path) for path in (place.one, place.two, third)}) == 3
    place.create("u", 1)
    assert (third / "u-0").is_dir()


@pytest.mark.parametrize("damage", ["the same directory.id", "a partition in both", "no meta.properties", "another cluster's"])
def test_what_no_broker_starts_on(place: Place, damage: str) -> None:
    place.create("t", 2)
    was = place.directory_of("t")
    place.broker.stop()
    meta = place.two / "meta.properties"
    match damage:
        case "the same directory.id":
            shutil.copy(place.one / meta.name, meta)
        case "a partition in both":
            shutil.copytree(was / "t-0", place.other(was) / "t-0")
        case "no meta.properties":
            meta.unlink()
        case _:
            meta.write_text(re.sub("cluster.id=.*", "cluster.id=AAAAAAAAAAAAAAAAAAAAAQ", meta.read_text()))
    with pytest.raises(BrokerFailed):
        place.broker.start()


@pytest.mark.parametrize("order", [KINDS, KINDS[::-1]], ids=["ottla first", "kafka first"])
def test_a_move_that_one_began_is_ended_by_the_other(order: tuple[str, str], tmp_path: Path, program: Java) -> None:
    """The copy of a move that is slow lies in the directory when the broker is killed; the other one goes on with it."""
    first = Place(order[0], tmp_path / order[0])
    first.broker.settings["replica.alter.log.dirs.io.max.bytes.per.second"] = "1"
    second = Place(order[1], tmp_path / order[1])
    second.one, second.two = first.one, first.two
    second.broker.data_dir, second.broker.port = first.broker.data_dir, first.broker.port
    second.broker.settings = first.broker.settings | {"replica.alter.log.dirs.io.max.bytes.per.second": "100000000"}
    try:
        first.broker.start()
        first.create("t", segment_bytes="1048576")
        first.produce("t", RECORDS)
        target = first.other(first.directory_of("t"))
        java = program.at(first.broker.bootstrap)
        java.call("alter_replica_log_dir", topic="t", partition=0, path=str(target))
        wait_for(lambda: list(target.glob("t-0.*-future")), "the copy has begun")
        first.broker.kill()
        second.broker.start()
        wait_for((target / "t-0").is_dir, "the partition is in the other directory")
        wait_for(lambda: second.leaders("t") == [1], "the partition has a leader")
        assert second.values("t", RECORDS) == wanted(RECORDS)
        assert not list(target.glob("*-future"))
    finally:
        first.broker.stop()
        second.broker.stop()
