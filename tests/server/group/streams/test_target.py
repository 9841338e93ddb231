"""These tests cover targets of streams groups: who counts as a member, when an assignment may be made, which records are
written, and what happens to the group while a target is made in the background.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.clock import Turns
from ottla.server.base.turns import at_once
from ottla.server.group.modern.group_configs import GroupConfigs
from ottla.server.group.protocol import ShardContext
from ottla.server.group.streams import heartbeat, records, target
from ottla.server.group.streams.group import StreamsGroup, StreamsState, TaskOffsets
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.streams_group_config import StreamsGroupConfig
from ottla.server.group.streams.target import (
    Membership,
    StreamsTargetJobs,
    is_small,
    make_target,
    may_assign,
    target_records,
)
from ottla.server.group.streams.tasks import NO_TASKS, Tasks
from ottla.server.group.streams.topology import ConfiguredSubtopology, ConfiguredTopology, Problem, Status, configure
from ottla.wire.errors import ErrorCode
from tests.noted import noted
from tests.server.coordination.memory import slow
from tests.server.group.fakes import Broker
from tests.server.group.streams.support import GROUP, READS_T, Cluster, Member, settle, subtopology, topic, value

ONE, TWO = Tasks({"0": frozenset({0})}, {}, {}), Tasks({"0": frozenset({1})}, {}, {})
READY = ConfiguredTopology(1, {"0": ConfiguredSubtopology(2, ["t"], {}, [], {})}, {}, None)
NOT_READY = READY._replace(problem=Problem(Status.MISSING_SOURCE_TOPICS, "t is missing"))


def group(*members: StreamsMember, epoch: int = 5) -> StreamsGroup:
    made = StreamsGroup("g")
    made.replay(records.metadata_record("g", made.metadata._replace(epoch=epoch)))
    for member in members:
        made.replay(records.member_record("g", member))
        made.replay(records.target_record("g", member.member_id, ONE))
    return made


def member(name: str, instance: str | None = None) -> StreamsMember:
    return StreamsMember(name)._replace(process_id=name, instance_id=instance)


def test_a_membership_without_an_update_is_the_group_as_it_is() -> None:
    there = group(member("a"), member("b"))
    membership = Membership(there)
    assert membership.members == there.members
    assert membership.targets == {"a": ONE, "b": ONE}


def test_a_new_member_comes_in_and_a_known_one_is_replaced_by_what_it_is_going_to_be() -> None:
    there = group(member("a"))
    updated = member("a")._replace(rack_id="r")
    assert Membership(there, member("b")).members.keys() == {"a", "b"}
    assert Membership(there, updated).members == {"a": updated}
    assert there.members["a"].rack_id is None, "the group itself is not changed"


def test_a_static_member_inherits_the_target_of_the_one_that_it_replaces() -> None:
    there = group(member("old", "i"), member("a"))
    membership = Membership(there, member("new", "i"))
    assert membership.members.keys() == {"new", "a"}
    assert membership.targets == {"new": ONE, "a": ONE}
    assert there.targets.keys() == {"old", "a"}
    same = Membership(there, member("old", "i"))
    assert same.targets == {"old": ONE, "a": ONE}


def test_nobody_is_assigned_anything_until_the_topology_is_ready() -> None:
    membership = Membership(group(member("a"), member("b")))
    assert at_once(make_target(membership, NOT_READY, {}, 0)) == {"a": NO_TASKS, "b": NO_TASKS}
    targets = at_once(make_target(membership, READY, {}, 0))
    assert sorted(index for tasks in targets.values() for index in tasks.active.get("0", ())) == [0, 1]


@pytest.mark.parametrize(
    ("made_ms", "interval_ms", "now_ms", "expected"),
    [(0, 100, 1, True), (1_000, 0, 1, True), (1_000, 100, 1_099, False), (1_000, 100, 1_100, True)],
)
def test_two_assignments_are_an_interval_apart(made_ms: int, interval_ms: int, now_ms: int, expected: bool) -> None:
    there = group()
    there.replay(records.target_epoch_record("g", 1, made_ms))
    assert may_assign(there, interval_ms, now_ms) is expected


def test_only_targets_that_differ_are_written_and_the_epoch_after_them() -> None:
    written = target_records("g", {"a": ONE, "b": ONE}, {"a": ONE, "b": TWO, "c": NO_TASKS}, 6, 70)
    assert written == [
        records.target_record("g", "b", TWO),
        records.target_record("g", "c", NO_TASKS),
        records.target_epoch_record("g", 6, 70),
    ]


def test_a_failure_is_an_interval_away_as_well() -> None:
    there = group()
    there.assignment_failed_ms = 1_000
    assert [may_assign(there, 100, now_ms) for now_ms in (1_099, 1_100)] == [False, True]


def delayed(there: StreamsGroup, **settings: str) -> list[Any]:
    """Returns the records of a first assignment whose delay is over."""
    broker = Broker()
    broker.configs[32, "g"] = {name.replace("_", "."): value for name, value in settings.items()}
    written: list[Any] = []
    clock = SimpleNamespace(now_ms=lambda: 70, ticks_ns=lambda: 0, turns=Turns(lambda callback: None))
    shard = SimpleNamespace(clock=clock, run_timer=lambda result: written.extend(result.records))
    jobs = StreamsTargetJobs(cast(ShardContext, shard), StreamsGroupConfig(GroupConfigs({}, broker.metadata)))
    jobs.start_delayed(there)
    return written


INTERVAL = {"streams_assignment_interval_ms": "0"}


def test_the_first_assignment_is_made_when_its_delay_is_over() -> None:
    there = group(member("a"))
    there.configured = READY
    made, epoch = delayed(there, **INTERVAL)
    everything = Tasks({"0": frozenset({0, 1})}, {}, {})
    assert (made.key, records.read_target(made.value)) == (records.target_record("g", "a", everything).key, everything)
    assert epoch == records.target_epoch_record("g", 5, 70)


def test_it_is_not_made_where_it_is_not_due() -> None:
    empty, unknown, done, early = group(), group(member("a")), group(member("a")), group(member("a"))
    for there in (empty, done, early):
        there.configured = READY
    done.replay(records.target_epoch_record("g", 5, 0))
    early.replay(records.target_epoch_record("g", 4, 69))
    for there in (empty, unknown, done):
        assert delayed(there, **INTERVAL) == []
    assert delayed(early, streams_assignment_interval_ms="1000") == []


# In the background


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Yields a broker to which every group is large, and whose clock ends a turn at each look."""
    monkeypatch.setattr(target, "AT_ONCE", 0)
    cluster = Cluster(assignment_interval_ms="1000")
    assert cluster.protocol, "it is loaded"
    with slow(cluster.broker.clock):
        yield cluster


def run_jobs(cluster: Cluster) -> None:
    cluster.advance(0)
    assert not cluster.protocol._target_jobs.is_running(GROUP)


def joined(cluster: Cluster, *members: Member) -> None:
    """Lets members join, who get all tasks, and lets the interval pass."""
    for each in members:
        each.join(READS_T)
        cluster.advance(1)
    settle(*members)
    assert cluster.group.state is StreamsState.STABLE


def held(cluster: Cluster) -> dict[str, list[int]]:
    """Returns the tasks of each target."""
    return {name: sorted(tasks.active.get("0", ())) for name, tasks in cluster.group.targets.items()}


def test_the_heartbeat_is_answered_with_the_former_target_and_the_new_one_comes_later(large: Cluster) -> None:
    one, two = Member(large, "m1"), Member(large, "m2")
    joined(large, one)
    answer = two.join(READS_T)
    assert [each.status_code for each in answer.status] == [Status.ASSIGNMENT_DELAYED]
    assert (answer.member_epoch, held(large)) == (2, {"m1": [0, 1, 2]})
    run_jobs(large)
    assert large.group.assignment_epoch == large.group.epoch == 3
    assert sorted(map(len, held(large).values())) == [1, 2]
    settle(one, two)
    assert sorted([*one.active["0"], *two.active["0"]]) == [0, 1, 2]


def test_what_is_written_in_the_background_is_what_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "AT_ONCE", 0)
    cluster = Cluster()
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    one.join(READS_T)
    two.join(READS_T)
    targets = dict(cluster.group.targets)
    assert sorted(map(len, held(cluster).values())) == [1, 2]
    cluster.restart()
    assert cluster.group.targets == targets


def test_a_small_group_gets_its_target_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tasks, each with a standby copy, a member, and the offsets of two tasks count nine."""
    for most, is_large in ((9, False), (8, True)):
        monkeypatch.setattr(target, "AT_ONCE", most)
        there = group(member("a"))
        there.task_offsets["a"] = TaskOffsets({"0": {0: 5, 1: 5}})
        topology = at_once(configure(value(subtopology("0", "t3", changelogs=["c3"])), {n: topic(n, 3) for n in ("t3", "c3")}))
        assert is_small(there, topology, 1) is not is_large


def test_no_step_is_about_more_than_one_task_or_member() -> None:
    there = group(*(member(f"m{number}") for number in range(50)))
    topology = at_once(configure(value(subtopology("0", "t")), {"t": topic("t", 500)}))
    assert sum(1 for _ in make_target(Membership(there), topology, {}, 0)) >= 550


def test_only_one_target_of_a_group_is_made_at_a_time(large: Cluster) -> None:
    one, two, three = (Member(large, name) for name in ("m1", "m2", "m3"))
    joined(large, one)
    two.join(READS_T)
    jobs = dict(large.protocol._target_jobs._jobs)
    answer = three.join(READS_T)
    assert [each.status_code for each in answer.status] == [Status.ASSIGNMENT_DELAYED]
    assert large.protocol._target_jobs._jobs == jobs
    run_jobs(large)
    assert (large.group.epoch, large.group.assignment_epoch) == (4, 3), "the next one is due"
    assert held(large).keys() == {"m1", "m2"}
    large.advance(1)
    three.beat()
    run_jobs(large)
    assert sorted(map(len, held(large).values())) == [1, 1, 1]


def test_a_member_that_left_meanwhile_gets_no_record(large: Cluster) -> None:
    one, two = Member(large, "m1"), Member(large, "m2")
    joined(large, one)
    two.join(READS_T)
    two.beat(member_epoch=-1)
    run_jobs(large)
    assert held(large).keys() == {"m1"}
    assert large.group.epoch > large.group.assignment_epoch == 3


def test_a_member_that_left_and_came_back_meanwhile_gets_its_target(large: Cluster) -> None:
    """Its former target is the same as the new one, and has gone with it."""
    one, two = Member(large, "m1"), Member(large, "m2")
    joined(large, one, two)
    large.advance(1)
    before = held(large)
    one.beat(rack_id="r")
    two.beat(member_epoch=-1)
    two.join(READS_T)
    assert held(large).keys() == {"m1"}
    run_jobs(large)
    assert held(large) == before


def test_a_static_member_that_came_back_meanwhile_gets_what_its_former_self_was_to_get(large: Cluster) -> None:
    one, two = Member(large, "m1"), Member(large, "m2", "i")
    joined(large, one)
    two.join(READS_T)
    two.beat(member_epoch=-2)
    Member(large, "again", "i", two.process).join(READS_T)
    run_jobs(large)
    assert held(large).keys() == {"m1", "again"}
    assert sorted(map(len, held(large).values())) == [1, 2]


def test_when_all_members_have_left_meanwhile_nothing_is_written(large: Cluster) -> None:
    member = Member(large, "m")
    member.join(READS_T)
    member.beat(member_epoch=-1)
    written = len(large.broker.log.records())
    run_jobs(large)
    assert len(large.broker.log.records()) == written


def test_a_group_that_goes_to_another_broker_gets_no_target(large: Cluster) -> None:
    Member(large, "m").join(READS_T)
    jobs, written = large.protocol._target_jobs, len(large.broker.log.records())
    large.broker.groups.close()
    assert not jobs.is_running(GROUP)
    large.advance(0)
    assert len(large.broker.log.records()) == written


def test_what_cannot_be_written_is_not_tried_at_each_heartbeat(large: Cluster) -> None:
    one = Member(large, "m1")
    one.join(READS_T)
    large.broker.log.fail = StorageError("no room")
    run_jobs(large)
    large.broker.log.fail = None
    answer = one.beat()
    assert [each.status_code for each in answer.status] == [Status.ASSIGNMENT_DELAYED]
    assert not large.protocol._target_jobs.is_running(GROUP)
    large.advance(1)
    one.beat()
    run_jobs(large)
    assert held(large) == {"m1": [0, 1, 2]}


def test_a_target_that_cannot_be_written_with_a_heartbeat_is_not_tried_at_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(assignment_interval_ms="1000")
    one = Member(cluster, "m1")
    one.join(READS_T)
    one.beat(rack_id="r")
    cluster.advance(1)
    made: list[Any] = []
    monkeypatch.setattr(heartbeat, "make_target", noted(made, make_target))
    cluster.broker.log.fail = StorageError("no room")
    assert one.refused() == ErrorCode.NOT_COORDINATOR
    cluster.broker.log.fail = None
    assert [each.status_code for each in one.beat().status] == [Status.ASSIGNMENT_DELAYED]
    assert len(made) == 1
    cluster.advance(1)
    assert one.beat().status == []
    assert len(made) == 2


def test_who_leaves_raises_the_epoch_and_the_last_one_the_assignment_epoch_as_well() -> None:
    first, last = member("a"), member("b")
    there = group(first, last)
    raised = records.metadata_record("g", there.metadata._replace(epoch=6))
    assert there.removal_records(first) == [*records.member_tombstones("g", "a"), raised]
    alone = group(last)
    assert alone.removal_records(last) == [
        *records.member_tombstones("g", "b"),
        raised,
        records.target_epoch_record("g", 6, 0),
    ]
