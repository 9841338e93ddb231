"""AlterReplicaLogDirs: what is refused, at every version. What moves, and how: tests/server/partitions/test_log_dirs.py."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call, versions


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker({"t": 2})


def ask(broker: MemoryBroker, version: int, *moves: tuple[str, str, list[int]]) -> dict[tuple[str, int], int]:
    """Error codes; a move is (path, topic, partitions)."""
    dirs = [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, indexes)]) for path, topic, indexes in moves]
    answer: Any = call(broker, "alter_replica_log_dirs", version, AlterReplicaLogDirsRequest(dirs))
    return {(topic.topic_name, part.partition_index): part.error_code for topic in answer.results for part in topic.partitions}


@pytest.mark.parametrize("version", versions("alter_replica_log_dirs"))
def test_answers(broker: MemoryBroker, version: int) -> None:
    assert ask(broker, version) == {}
    assert ask(broker, version, ("/data", "t", [0, 1])) == {("t", 0): 0, ("t", 1): 0}
    assert ask(broker, version, ("/nowhere", "t", [0]), ("/data", "t", [1])) == {
        ("t", 0): ErrorCode.LOG_DIR_NOT_FOUND,
        ("t", 1): 0,
    }
    assert ask(broker, version, ("/data", "t", [9]), ("/data", "x" * 240, [0])) == {
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("x" * 240, 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_the_last_of_several_wishes_counts(broker: MemoryBroker) -> None:
    assert ask(broker, 2, ("/nowhere", "t", [0]), ("/data", "t", [0])) == {("t", 0): 0}
    assert ask(broker, 2, ("/data", "t", [0]), ("/nowhere", "t", [0])) == {("t", 0): ErrorCode.LOG_DIR_NOT_FOUND}


def test_a_directory_that_failed(broker: MemoryBroker) -> None:
    broker.logs.directories[0].fail("testing", OSError("broken"))
    assert ask(broker, 2, ("/data", "t", [0])) == {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}
