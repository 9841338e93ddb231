"""The findings ahead of a heartbeat are made in small steps, and used only if they are still true when the heartbeat comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.server.base.turns import at_once
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Client
from ottla.server.group.streams import ahead as module
from ottla.server.group.streams import heartbeat
from ottla.server.group.streams.ahead import Ahead
from ottla.server.group.streams.topology import Status, configure
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, TaskOffset, Topology
from tests.noted import noted
from tests.server.group.streams.support import GROUP, READS_T, Cluster, Member, subtopology


def joining(*subtopologies: Subtopology, **changes: Any) -> StreamsGroupHeartbeatRequest:
    fields: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": "late",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "topology": Topology(0, list(subtopologies)),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
        "client_tags": [],
    }
    return StreamsGroupHeartbeatRequest(**(fields | changes))


def staying(**changes: Any) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(GROUP, "m", 2, **changes)


def look(cluster: Cluster, request: StreamsGroupHeartbeatRequest) -> Ahead:
    steps = cluster.protocol.look_ahead(request)
    assert steps is not None
    return at_once(steps)


def beat(cluster: Cluster, request: StreamsGroupHeartbeatRequest, found: Ahead) -> Any:
    return cluster.protocol.group_heartbeat(request, Client("client", "/host"), 1, found).response


def test_an_ordinary_heartbeat_needs_nothing() -> None:
    cluster = Cluster()
    member = Member(cluster, "m")
    member.join(READS_T)
    member.own()
    assert cluster.protocol.look_ahead(staying()) is None
    cluster.make_topic("t", 4)
    assert cluster.protocol.look_ahead(staying()) is not None


def test_no_step_is_about_more_than_one_thing() -> None:
    cluster = Cluster()
    parts = [subtopology(f"{number}", f"t{number}") for number in range(50)]
    for number in range(50):
        cluster.make_topic(f"t{number}", 1)
    steps = cluster.protocol.look_ahead(joining(*parts, task_offsets=[TaskOffset("0", number, 1) for number in range(50)]))
    assert steps is not None
    assert sum(1 for _ in steps) >= 50 * 5, "conversion, hashes, counts, tasks and offsets"


@pytest.mark.parametrize("grows", [False, True])
def test_a_comparison_is_used_while_the_topics_are_the_same(grows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.make_topic("t", 3)
    request = joining(READS_T)
    found = look(cluster, request)
    if grows:
        cluster.make_topic("t", 5)
    compared: list[Any] = []
    monkeypatch.setattr(module, "configure", noted(compared, configure))
    answer = beat(cluster, request, found)
    assert [each.partitions for each in answer.active_tasks] == [list(range(5 if grows else 3))]
    assert bool(compared) is grows


def test_a_comparison_with_another_topology_is_not_used() -> None:
    """The group was created by another member while this one's topology was compared."""
    cluster = Cluster()
    request = joining(subtopology("0", "t", changelogs=["log"]))
    found = look(cluster, request)
    Member(cluster, "first").join(READS_T)
    with pytest.raises(GroupError) as refused:
        beat(cluster, request, found)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    same = joining(READS_T)
    assert beat(cluster, same, look(cluster, same)._replace(compared=found.compared)).status == []


def test_a_comparison_of_a_group_that_was_deleted_meanwhile_counts_for_the_new_one() -> None:
    cluster = Cluster()
    first = Member(cluster, "first")
    first.join(READS_T)
    request = joining(subtopology("0", "nothing"))
    found = look(cluster, request)
    first.beat(member_epoch=-1)
    cluster.broker.groups.shard(GROUP).delete_group(GROUP)
    answer = beat(cluster, request, found)
    assert [each.status_code for each in answer.status] == [Status.MISSING_SOURCE_TOPICS]


def test_a_topology_that_nothing_can_help_is_refused_by_the_heartbeat() -> None:
    cluster = Cluster()
    request = joining(subtopology("0"))
    found = look(cluster, request)
    with pytest.raises(GroupError) as refused:
        beat(cluster, request, found)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def other_member(request: StreamsGroupHeartbeatRequest) -> None:
    request.member_id = "nobody"


def same_member(request: StreamsGroupHeartbeatRequest) -> None:
    """Changes nothing."""


@pytest.mark.parametrize(
    ("change", "code"), [(same_member, ErrorCode.INVALID_REQUEST), (other_member, ErrorCode.UNKNOWN_MEMBER_ID)]
)
def test_offsets_that_are_wrong_are_refused_after_everything_else(
    change: Callable[[StreamsGroupHeartbeatRequest], None], code: ErrorCode
) -> None:
    cluster = Cluster()
    Member(cluster, "m").join(READS_T)
    request = staying(task_end_offsets=[TaskOffset("0", 1, 5), TaskOffset("0", 1, 5)])
    change(request)
    found = look(cluster, request)
    with pytest.raises(GroupError) as refused:
        beat(cluster, request, found)
    assert refused.value.code is code


def test_only_so_many_offsets_are_kept_of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "MOST_OFFSETS", 5)
    cluster = Cluster()
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    one.join(READS_T)
    two.join(READS_T)
    three = [TaskOffset("0", partition, 7) for partition in range(3)]
    one.beat(task_offsets=three)
    two.beat(task_offsets=three[:1], task_end_offsets=three[:1])
    kept = cluster.group.task_offsets
    assert {name: found.number for name, found in kept.items()} == {"m1": 3, "m2": 2}
    assert two.beat(task_offsets=three).status == []
    assert kept.keys() == {"m1"}, "what is new is not kept, and what is old counts no more"
    one.beat(task_offsets=[])
    two.beat(task_offsets=three)
    assert {name: found.number for name, found in kept.items()} == {"m1": 0, "m2": 3}
