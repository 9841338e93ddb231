"""DescribeLogDirs: sizes and places of partitions, in one directory and in two.

Paths and free bytes are each broker's own; that there are some, and how they relate, is compared. The brokers of the test with
two directories are its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reference_kafka import BrokerProcess

from compat_tests.brokers import CLASSES, KINDS, Address
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire, batch
from compat_tests.wire_diff.same import check
from ottla.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest

VERSIONS = range(1, 6)


def ask(wire: Wire, version: int, topics: list[tuple[str, list[int]]] | None) -> Any:
    """The answer with each directory's own values made comparable, and only the topics of this test."""
    asked = None if topics is None else [DescribableLogDirTopic(*topic) for topic in topics]
    answer = wire.call(DescribeLogDirsRequest(asked), version)
    for number, result in enumerate(sorted(answer.results, key=lambda result: result.log_dir)):
        wire.label(result.log_dir, f"directory {number}")
        result.usable_bytes = 0 <= result.usable_bytes < result.total_bytes  # it moves as we look
        result.topics = [topic for topic in result.topics if topics is not None or topic.name.startswith(wire.prefix)]
    return answer


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_and_sizes(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t", 3)
        wire.produce(topic, batch(b"x" * 1000))
        wire.produce(topic, batch(*[b"y" * 100] * 50, codec=1), partition=1)
        return [ask(wire, version, topics) for topics in ([(topic, [0, 1, 2])], [(topic, [1])], None)]

    check(wires, "DLD1", scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_there(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        requests: list[list[tuple[str, list[int]]]] = [
            [],
            [(topic, [])],
            [("nope", [0]), (topic, [9, -1]), ("", [0]), ("a b", [0])],
            [(topic, [0, 0]), (topic, [0])],
            [("__cluster_metadata", [0])],
        ]
        return [ask(wire, version, topics) for topics in requests]

    check(wires, "DLD2", scenario)


@pytest.fixture
def two_directories(tmp_path: Path) -> Iterator[dict[str, Wire]]:
    """Both brokers, each with two log directories."""
    brokers: dict[str, BrokerProcess] = {}
    for kind in KINDS:
        home = tmp_path / kind
        brokers[kind] = CLASSES[kind](home, {"log.dirs": f"{home / 'data'},{home / 'more'}"})
    wires = {}
    try:
        for kind, broker in brokers.items():
            broker.start()
            assert broker.process is not None
            wires[kind] = Wire(Address(kind, broker.port, broker.process.pid, str(broker.log_file)), "two")
        yield wires
    finally:
        for wire in wires.values():
            wire.close()
        for broker in brokers.values():
            broker.stop()


def test_two_directories_share_the_partitions(two_directories: dict[str, Wire]) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t", 5)
        for index in range(5):
            wire.produce(topic, batch(b"x" * 100), partition=index)
        answer = ask(wire, 5, None)
        counts = [sum(len(found.partitions) for found in result.topics) for result in answer.results]
        sizes = [
            (part.partition_index, part.partition_size) for r in answer.results for found in r.topics for part in found.partitions
        ]
        alone = ask(wire, 5, [(topic, [4])])
        return sorted(counts), sorted(sizes), sorted(len(result.topics) for result in alone.results)

    check(two_directories, "DLD3", scenario)


def cordoned(wire: Wire, version: int, paths: list[str]) -> Any:
    """Which directories are cordoned, once as many are as should be; and what becomes of new partitions then."""

    def shown() -> list[bool]:
        results = wire.call(DescribeLogDirsRequest([]), version).results
        return [result.is_cordoned for result in sorted(results, key=lambda result: result.log_dir)]

    def created() -> dict[str, int]:
        by_itself = CreatableTopic(wire.name("new"), 1, 1)
        by_hand = CreatableTopic(wire.name("by-hand"), -1, -1, [CreatableReplicaAssignment(0, [1])])
        topics = wire.call(CreateTopicsRequest([by_itself, by_hand], 5000, True), 7).topics
        return {topic.name: topic.error_code for topic in topics}

    setting = AlterableConfig("cordoned.log.dirs", 0, ",".join(paths))
    answer = wire.call(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", [setting])]), 1)
    closed = 2 if "*" in paths else len(paths)
    wait_for(lambda: sum(shown()) == closed and any(created().values()) == (closed == 2), "the setting has its effect")
    return answer, shown(), created()


def test_cordoned_directories(two_directories: dict[str, Wire]) -> None:
    def scenario(wire: Wire) -> Any:
        paths = sorted(result.log_dir for result in wire.call(DescribeLogDirsRequest([]), 5).results)
        wire.create("before", 2)
        seen: list[Any] = [cordoned(wire, 5, named) for named in (paths, [], ["*"], paths[1:])]
        topic = wire.create("t", 3)
        places = [[len(found.partitions) for found in result.topics] for result in ask(wire, 5, [(topic, [0, 1, 2])]).results]
        grown = [
            wire.call(CreatePartitionsRequest([CreatePartitionsTopic(topic, 4, assigned)], 5000, True), 3)
            for assigned in (None, [CreatePartitionsAssignment([1])])
        ]
        seen.append(cordoned(wire, 5, ["*"]))
        refused = [
            wire.call(CreatePartitionsRequest([CreatePartitionsTopic(topic, 4, assigned)], 5000, True), 3)
            for assigned in (None, [CreatePartitionsAssignment([1])])
        ]
        return seen, sorted(places), grown, refused

    check(two_directories, "DLD4", scenario)
