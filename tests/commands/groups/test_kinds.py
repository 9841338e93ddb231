"""Tests of what the commands request about groups over connections of their own, and what they do if there can be none. The rest
is held against both brokers by compat_tests/test_commands_groups.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import ottla.testing
from ottla.commands.clients.partition import Partition
from ottla.commands.groups import kinds
from ottla.commands.output import Failure
from ottla.server.program.app import app
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.Broker() as running:
        yield running


class Answering:
    """Brokers; number 1 answers every request with the same answer."""

    def __init__(self, answer: Any) -> None:
        self.metadata = SimpleNamespace(brokers={1: SimpleNamespace(host="h", port=9092)})
        self.answer = answer

    def at(self, broker: int) -> Any:
        assert broker == 1
        return SimpleNamespace(call=lambda _: self.answer)

    def partitions(self, topic: str) -> int:
        return {"wide": 3, "narrow": 1, "between": 2}[topic]


def answering(answer: Any) -> Any:
    return Answering(answer)


def listed(kind: str) -> kinds.Listed:
    return kinds.Listed("g", "Stable", kind, 1)


def test_the_partitions_of_tasks() -> None:
    """They are the partitions with the tasks' numbers of all topics that the subtopology reads, as far as these exist."""
    tasks = Assignment([TaskIds("0", [0, 2])], [TaskIds("1", [1])])
    member = Member("m", 4, assignment=tasks, target_assignment=Assignment([TaskIds("1", [0])]))
    reads = [
        Subtopology("0", ["wide", "narrow"]),
        Subtopology("1", [], repartition_source_topics=[TopicInfo("between", 2)]),
    ]
    answer = StreamsGroupDescribeResponse(groups=[DescribedGroup(0, None, "g", "Stable", 4, 4, Topology(0, reads), [member])])
    found, wrong = kinds.described(answering(answer), [listed("streams")])
    (state,) = found["g"].members
    assert wrong == {}
    assert state.partitions == (Partition("narrow", 0), Partition("wide", 0), Partition("wide", 2))
    assert state.target == (Partition("between", 0),)
    assert state.tasks == ((Partition("0", 0), Partition("0", 2)), (Partition("1", 1),), ())


def test_where_a_share_group_is() -> None:
    """Partitions where it has not begun or that have an error are left out; a lag may be unknown."""
    make = DescribeShareGroupOffsetsResponsePartition
    partitions = [make(0, 7, 0, 3), make(1, -1), make(2, 5, error_code=3), make(3, 0, 0, -1)]
    topics = [DescribeShareGroupOffsetsResponseTopic("t", partitions=partitions)]
    groups = [DescribeShareGroupOffsetsResponseGroup("g", topics), DescribeShareGroupOffsetsResponseGroup("x", [], 69, "gone")]
    answer = DescribeShareGroupOffsetsResponse(groups=groups)
    found, wrong = kinds.share_offsets(answering(answer), [listed("share")])
    assert found == {"g": {Partition("t", 0): kinds.Held(7, 3), Partition("t", 3): kinds.Held(0, None)}}
    assert wrong == {"x": "there is no such group"}


def test_without_a_connection_of_our_own_the_rest_is_shown(broker: ottla.testing.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> Any:
        raise Failure("there is no way to log in")

    monkeypatch.setattr(kinds, "listed", none)
    ran = CliRunner().invoke(app, ["group", "list", "--bootstrap", broker.bootstrap])
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr == "share groups and streams groups are not known: there is no way to log in\n"
