"""What of `ottla consume` takes failures of a cluster that are chosen; the rest is in compat_tests/test_commands_io.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from ottla.server.commands.client import Cluster
from ottla.server.commands.consume import Commits, Isolation, Limits, Reader, Reading
from ottla.server.commands.output import Failure

COORDINATOR_NOT_AVAILABLE = 15
TOPIC_AUTHORIZATION_FAILED = 29


class Silent(Cluster):
    """A cluster that nobody asks anything."""

    def admin(self) -> Any:
        return None


def reader_of(consumer: Any, commits: Commits | None = None) -> tuple[Reader, Reading]:
    limits = Limits(count=0)
    reader = Reader(Silent({}), consumer, limits, Isolation.COMMITTED, commits or Commits())
    return reader, Reading(consumer, lambda _: b"", limits, is_group=True)


@pytest.mark.parametrize("where", ["whole", "partition"])
def test_a_last_commit_that_fails_is_a_failure(where: str) -> None:
    commits = Commits()
    partition: Any = SimpleNamespace(error=None)

    def close() -> None:
        if where == "whole":
            commits(KafkaError(COORDINATOR_NOT_AVAILABLE), [partition])
        else:
            partition.error = KafkaError(TOPIC_AUTHORIZATION_FAILED)
            commits(None, [partition])

    reader, reading = reader_of(SimpleNamespace(close=close), commits)
    with pytest.raises(Failure, match=r"not committed, so records will be shown again: (the group's coordinator|not allowed)"):
        reader._run(reading, int)


def test_commits_that_went_well_at_last() -> None:
    commits = Commits()
    commits(KafkaError(COORDINATOR_NOT_AVAILABLE), [])
    commits(None, [TopicPartition("t", 0, 5)])
    commits(KafkaError(KafkaError._NO_OFFSET), [])
    reader, reading = reader_of(SimpleNamespace(close=lambda: None), commits)
    reader._run(reading, int)
