"""`ottla consume` when a cluster fails in chosen ways; compat_tests/test_commands_io.py has the rest."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from ottla.commands import consume
from ottla.commands.clients.client import Cluster
from ottla.commands.clients.partition import Partition
from ottla.commands.consume import Commits, Isolation, Limits, Reader, Reading
from ottla.commands.output import Failure, Interrupt

COORDINATOR_NOT_AVAILABLE = 15
TOPIC_AUTHORIZATION_FAILED = 29


class Silent(Cluster):
    """A cluster that gets no requests."""

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
    with pytest.raises(
        Failure, match=r"not committed, so records will be shown again: (the group has no coordinator|not allowed)"
    ):
        reader._run(reading, int)


def test_commits_that_went_well_at_last() -> None:
    commits = Commits()
    commits(KafkaError(COORDINATOR_NOT_AVAILABLE), [])
    commits(None, [TopicPartition("t", 0, 5)])
    commits(KafkaError(KafkaError._NO_OFFSET), [])
    reader, reading = reader_of(SimpleNamespace(close=lambda: None), commits)
    reader._run(reading, int)


GROUP_AUTHORIZATION_FAILED = 30


def test_the_right_to_a_group_is_needed_only_with_a_group() -> None:
    refused = SimpleNamespace(
        topic=lambda: None, partition=lambda: None, error=lambda: KafkaError(GROUP_AUTHORIZATION_FAILED, "no", False)
    )
    _, reading = reader_of(None)
    with pytest.raises(Failure, match="not allowed for this user"):
        reading.take(refused)  # type: ignore[arg-type]  # a message cannot be made
    reading.is_group = False
    reading.take(refused)  # type: ignore[arg-type]  # a message cannot be made
    assert reading.shown == 0


# A group that gives no partitions


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> tuple[Reader, Reading, Callable[[float], None]]:
    """Returns a group member, and a function that makes it idle at a time in seconds."""
    now = [0.0]
    monkeypatch.setattr(consume, "time", SimpleNamespace(monotonic=lambda: now[0]))
    reader, reading = reader_of(None)

    def idle(now_s: float) -> None:
        now[0] = now_s
        reader._on_idle(reading, Interrupt())

    return reader, reading, idle


def test_what_the_cluster_complains_of_is_said_once(waiting: Any, capfd: pytest.CaptureFixture[str]) -> None:
    reader, reading, idle = waiting
    reader.cluster.last_error = KafkaError(TOPIC_AUTHORIZATION_FAILED)
    idle(0)
    idle(2)
    assert capfd.readouterr().err == ""
    for now_s in (4, 5, 50):
        idle(now_s)
    said = "ottla: the group assigns no partitions: not allowed for this user (topic); still trying, Ctrl-C stops\n"
    assert capfd.readouterr().err == said
    reading.assign([Partition("t", 0)])
    idle(60)
    reading.revoke([Partition("t", 0)])
    idle(70)
    assert capfd.readouterr().err == ""
    idle(74)
    assert capfd.readouterr().err == said


@pytest.mark.parametrize(
    ("protocol", "words"),
    [("classic", "it may be rebalancing"), ("consumer", "the cluster may not know group.protocol=consumer")],
)
def test_a_silent_cluster(waiting: Any, capfd: pytest.CaptureFixture[str], protocol: str, words: str) -> None:
    reader, _, idle = waiting
    reader.cluster.properties["group.protocol"] = protocol
    idle(0)
    idle(9)
    assert capfd.readouterr().err == ""
    idle(11)
    assert capfd.readouterr().err == f"ottla: the group assigns no partitions: {words}; still trying, Ctrl-C stops\n"


def test_a_fatal_error_ends_it(waiting: Any) -> None:
    reader, _, idle = waiting
    reader.cluster.last_error = KafkaError(KafkaError._UNSUPPORTED_FEATURE, "no heartbeats", True)
    with pytest.raises(Failure, match="the cluster cannot do that: no heartbeats"):
        idle(0)
