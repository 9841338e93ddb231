"""DescribeLogDirs: sizes and places of partitions, in one directory and in two.

Paths and free bytes are each broker's own; that there are some, and how they relate, is compared. The brokers of the test with
two directories are its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.brokers import CLASSES, KINDS, Address
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire, batch
from compat_tests.wire_diff.same import check
from ottla.wire.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
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

    check(wires, "LD1", scenario)


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
    """Returns which directories are cordoned, once as many are as should be; and what becomes of new partitions then."""

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


ALTER_VERSIONS = (1, 2)
Move = tuple[str, list[tuple[str, list[int]]]]
"""(path, topics with their partitions)"""


def alter(wire: Wire, version: int, *moves: Move) -> Any:
    dirs = [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(*topic) for topic in topics]) for path, topics in moves]
    return wire.call(AlterReplicaLogDirsRequest(dirs), version)


def paths_of(wire: Wire) -> list[str]:
    return sorted(result.log_dir for result in wire.call(DescribeLogDirsRequest([]), 5).results)


@pytest.mark.parametrize("version", ALTER_VERSIONS)
def test_where_there_is_nowhere_to_go(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        (path,) = paths_of(wire)
        asked: list[list[Move]] = [
            [],
            [(path, [])],
            [(path, [(topic, [])])],
            [(path, [(topic, [0])])],
            [(path, [(topic, [0, 0, 7, -1])])],
            [("/nowhere", [(topic, [0])])],
            [("", [(topic, [0])])],
            [(f"{path}/", [(topic, [0])])],
            [
                (
                    path,
                    [(wire.name("nope"), [0]), ("", [0]), ("a b", [0]), ("x" * 204, [0]), ("x" * 205, [0]), ("y" * 249, [1])],
                )
            ],
            [(path, [("__cluster_metadata", [0])])],
            [("/nowhere", [(topic, [0])]), (path, [(topic, [0])])],
            [(path, [(topic, [0])]), ("/nowhere", [(topic, [0])])],
        ]
        return [alter(wire, version, *moves) for moves in asked]

    check(wires, "ARLD1", scenario)


@pytest.mark.parametrize("version", ALTER_VERSIONS)
def test_a_partition_is_moved_and_back(two_directories: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = wire.create("t")
        for _ in range(3):
            wire.produce(topic, batch(*[b"x" * 100] * 5))
        seen: list[Any] = []
        for _ in range(2):
            (was,) = place(wire, topic)
            (target,) = [path for path in paths_of(wire) if path != was]
            seen.append(alter(wire, version, (target, [(topic, [0])])))
            wait_for(lambda: place(wire, topic) == [target], "the partition is there")  # noqa: B023 - called within the round
            seen += [wire.produce(topic, batch(b"y")), wire.fetch(topic, 0), wire.fetch(topic, 14)]
        seen.append(sorted(len(result.topics) for result in ask(wire, 5, [(topic, [0])]).results))
        return seen

    check(two_directories, "ARLD2", scenario)


def place(wire: Wire, topic: str) -> list[str]:
    """The paths of the directories that partition 0 is in, the one it moves to included."""
    results = wire.call(DescribeLogDirsRequest([DescribableLogDirTopic(topic, [0])]), 5).results
    return [result.log_dir for result in results if result.topics]


def test_a_move_under_way_is_seen_and_called_off(two_directories: dict[str, Wire]) -> None:
    def scenario(wire: Wire) -> Any:
        setting = AlterableConfig("replica.alter.log.dirs.io.max.bytes.per.second", 0, "1")
        throttled = wire.call(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", [setting])]), 1)
        topic = wire.create("t")
        for _ in range(20):
            wire.produce(topic, batch(*[b"x" * 100_000] * 5))
        (was,) = place(wire, topic)
        (target,) = [path for path in paths_of(wire) if path != was]
        begun = [alter(wire, 2, (target, [(topic, [0])])) for _ in range(2)]
        wait_for(lambda: len(place(wire, topic)) == 2, "the copy is seen")
        found = [
            (result.log_dir == target, part.is_future_key, part.offset_lag > 0)
            for result in ask(wire, 5, [(topic, [0])]).results
            for described in result.topics
            for part in described.partitions
        ]
        back = alter(wire, 2, (was, [(topic, [0])]))
        wait_for(lambda: place(wire, topic) == [was], "the copy is gone")
        return throttled, begun, sorted(found), back

    check(two_directories, "ARLD3", scenario)


def test_a_directory_chosen_before_the_partition_is_there(two_directories: dict[str, Wire]) -> None:
    def scenario(wire: Wire) -> Any:
        name = wire.name("later")
        seen: list[Any] = []
        for path in paths_of(wire):
            seen.append(alter(wire, 2, (path, [(f"{name}-{len(seen)}", [0, 1, 2])])))
            topic = wire.create(f"later-{len(seen) - 1}", 3)
            results = wire.call(DescribeLogDirsRequest([DescribableLogDirTopic(topic, [0, 1, 2])]), 5).results
            seen.append([result.log_dir == path for result in results if result.topics])
        return seen

    check(two_directories, "ARLD4", scenario)
