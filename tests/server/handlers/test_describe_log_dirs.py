"""DescribeLogDirs: several directories, what lies in them, and one that failed."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.log.errors import StorageError
from ottla.server.handlers import describe_log_dirs
from ottla.server.metadata.image import BROKER
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsRequest
from ottla.wire.messages.internal.config_record import ConfigRecord
from tests.fakes import NODE_ID, MemoryBroker
from tests.log.support import batch
from tests.server.handlers.data_calls import call, produce, versions


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 3, "u": 1}, {"log.dirs": "/one,/two"})


def ask(broker: MemoryBroker, *topics: tuple[str, list[int]], version: int = 5, everything: bool = False) -> Any:
    asked = None if everything else [DescribableLogDirTopic(*topic) for topic in topics]
    answer = call(broker, "describe_log_dirs", version, DescribeLogDirsRequest(asked))
    assert answer.error_code == 0
    return answer.results


def found(results: Any) -> dict[str, set[tuple[str, int]]]:
    return {r.log_dir: {(topic.name, p.partition_index) for topic in r.topics for p in topic.partitions} for r in results}


def test_many_partitions_are_looked_at_in_steps() -> None:
    broker = MemoryBroker({"t": 2 * describe_log_dirs.PARTITIONS_A_STEP + 1})
    steps = describe_log_dirs._describe(DescribeLogDirsRequest(None), broker.request(5))
    assert len(list(steps)) == 4, "two pauses when they are looked for, and two when they are described"


@pytest.mark.parametrize("version", versions("describe_log_dirs"))
def test_every_partition_in_its_directory(broker: MemoryBroker, version: int) -> None:
    records = batch(3)
    produce(broker, "t", records, index=1)
    results = ask(broker, everything=True, version=version)
    directories = found(results)
    assert list(directories) == ["/one", "/two"]
    assert [len(partitions) for partitions in directories.values()] == [2, 2]
    assert directories["/one"] | directories["/two"] == {("t", 0), ("t", 1), ("t", 2), ("u", 0)}
    for name, index in directories["/one"]:
        assert broker.logs.logs[name, index].directory.path == "/one"
    (described,) = [
        p for r in results for topic in r.topics for p in topic.partitions if (topic.name, p.partition_index) == ("t", 1)
    ]
    assert described == DescribeLogDirsPartition(1, len(records), 0, False)
    bytes_known = [(r.total_bytes, r.usable_bytes) for r in results]
    assert all(0 < usable < total for total, usable in bytes_known) if version >= 4 else bytes_known == [(-1, -1)] * 2


@pytest.mark.parametrize("topics", [[], [("t", [])], [("nope", [0]), ("t", [9, -1]), ("", [0])], [("__cluster_metadata", [0])]])
def test_what_is_not_here_is_left_out(broker: MemoryBroker, topics: list[tuple[str, list[int]]]) -> None:
    assert found(ask(broker, *topics)) == {"/one": set(), "/two": set()}
    assert all(r.topics == [] and r.error_code == 0 for r in ask(broker, *topics))


def test_what_is_asked_twice_is_answered_once(broker: MemoryBroker) -> None:
    partitions = [p for r in ask(broker, ("t", [0, 0]), ("t", [0])) for topic in r.topics for p in topic.partitions]
    assert [p.partition_index for p in partitions] == [0]


def test_a_log_that_no_topic_claims(broker: MemoryBroker) -> None:
    config = broker.settings.of_topic("stray", {})
    broker.logs.create("stray", 0, None, config)
    (partition,) = [p for r in ask(broker, ("stray", [0])) for topic in r.topics for p in topic.partitions]
    assert partition.offset_lag == -1


def test_the_metadata_log_and_a_directory_of_its_own_are_nobodys() -> None:
    broker = MemoryBroker({"t": 1}, {"log.dirs": "/one", "metadata.log.dir": "/meta"})
    broker.logs.create("__cluster_metadata", 0, None, broker.settings.of_topic("t", {}))
    assert {directory.path for directory in broker.logs.directories} == {"/one", "/meta"}
    assert found(ask(broker, everything=True)) == {"/one": {("t", 0)}}
    broker.logs.logs["t", 0].directory = broker.logs.directories[1]  # somebody put it there
    assert found(ask(broker, everything=True)) == {"/one": set()}
    broker = MemoryBroker({}, {"log.dirs": "/one"})
    broker.logs.create("__cluster_metadata", 0, None, broker.settings.of_topic("t", {}))
    assert found(ask(broker, everything=True)) == {"/one": set()}


def test_a_directory_that_failed(broker: MemoryBroker) -> None:
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    broker.disk.fail("append", path=replica.log.path)
    with pytest.raises(StorageError):
        replica.append(batch(1))
    results = {r.log_dir: r for r in ask(broker, everything=True)}
    failed = results.pop(replica.log.directory.path)
    assert (failed.error_code, failed.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert (failed.total_bytes, failed.usable_bytes) == (-1, -1)
    (other,) = results.values()
    assert (other.error_code, len(found([other])[other.log_dir])) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize("version", versions("describe_log_dirs"))
@pytest.mark.parametrize(("setting", "cordoned"), [("/two", ["/two"]), ("*", ["/one", "/two"]), ("", [])])
def test_cordoned_directories(version: int, setting: str, cordoned: list[str]) -> None:
    broker = MemoryBroker({"before": 1}, {"log.dirs": "/one,/two"})
    broker.image.apply_all([ConfigRecord(BROKER, str(NODE_ID), "cordoned.log.dirs", setting)])
    shown = [r.log_dir for r in ask(broker, everything=True, version=version) if r.is_cordoned]
    assert shown == (cordoned if version >= 5 else [])
    broker.create_topic("after", 4)
    places = {log.directory.path for name, log in broker.logs.logs.items() if name[0] == "after"}
    assert places == ({"/one"} if setting == "/two" else {"/one", "/two"})


def test_a_file_system_that_does_not_say_how_full_it_is(broker: MemoryBroker) -> None:
    broker.disk.fail("space", path="/two")
    assert [r.error_code for r in ask(broker, everything=True)] == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    assert [r.error_code for r in ask(broker, everything=True)] == [ErrorCode.NONE, ErrorCode.NONE], "and it is not offline"
