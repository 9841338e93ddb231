"""These tests cover targets of streams groups: who counts as a member, when an assignment may be made, and which records are
written.
"""

from __future__ import annotations

import pytest

from ottla.server.group.modern.group_configs import GroupConfigs
from ottla.server.group.streams import records
from ottla.server.group.streams.group import StreamsGroup
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.streams_group_config import StreamsGroupConfig
from ottla.server.group.streams.target import Membership, delayed_target, make_target, may_assign, target_records
from ottla.server.group.streams.tasks import NO_TASKS, Tasks
from ottla.server.group.streams.topology import ConfiguredSubtopology, ConfiguredTopology, Problem, Status
from tests.server.group.fakes import Broker

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
    assert make_target(membership, NOT_READY, {}, 0) == {"a": NO_TASKS, "b": NO_TASKS}
    targets = make_target(membership, READY, {}, 0)
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


def settings(**own: str) -> StreamsGroupConfig:
    broker = Broker()
    broker.configs[32, "g"] = {name.replace("_", "."): value for name, value in own.items()}
    return StreamsGroupConfig(GroupConfigs({}, broker.metadata))


AT_ONCE = {"streams_assignment_interval_ms": "0"}


def test_the_first_assignment_is_made_when_its_delay_is_over() -> None:
    there = group(member("a"))
    there.configured = READY
    written = delayed_target(there, settings(**AT_ONCE), 70)
    everything = Tasks({"0": frozenset({0, 1})}, {}, {})
    assert written == [records.target_record("g", "a", everything), records.target_epoch_record("g", 5, 70)]


def test_it_is_not_made_where_it_is_not_due() -> None:
    empty, unknown, done, early = group(), group(member("a")), group(member("a")), group(member("a"))
    for there in (empty, done, early):
        there.configured = READY
    done.replay(records.target_epoch_record("g", 5, 0))
    early.replay(records.target_epoch_record("g", 4, 69))
    for there in (empty, unknown, done):
        assert delayed_target(there, settings(**AT_ONCE), 70) == []
    assert delayed_target(early, settings(streams_assignment_interval_ms="1000"), 70) == []


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
