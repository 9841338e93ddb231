"""These tests cover streams groups as members see them: joining, sharing tasks, deadlines, settings, and the state after a
restart.

What Kafka answers to the same heartbeats is compared field by field in compat_tests/wire_diff/test_streams_groups.py.
"""

from __future__ import annotations

from functools import partial

import pytest

from ottla.log.errors import StorageError
from ottla.server.group.errors import GroupError
from ottla.server.group.streams.group import StreamsGroup, StreamsState
from ottla.server.group.streams.topology import Status
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.streams_group_heartbeat import KeyValue, RequestEndpoint, StreamsGroupHeartbeatResponse, TaskOffset
from tests.server.group.streams.support import GROUP, READS_T, Cluster, Member, settle, subtopology, two_members

COUNTS = (subtopology("0", "t", sinks=["between"]), subtopology("1", repartition={"between": 0}, changelogs=["log"]))


def statuses(answer: StreamsGroupHeartbeatResponse) -> list[Status]:
    assert answer.status is not None
    return [Status(each.status_code) for each in answer.status]


def test_a_first_member_gets_all_tasks() -> None:
    cluster = Cluster()
    answer = Member(cluster, "m").join(READS_T)
    assert (answer.member_epoch, answer.heartbeat_interval_ms, statuses(answer)) == (2, 5000, [])
    assert [(each.subtopology_id, each.partitions) for each in answer.active_tasks] == [("0", [0, 1, 2])]
    assert cluster.group.state is StreamsState.STABLE
    assert cluster.group.is_subscribed("t")


def test_a_second_member_gets_what_the_first_gives_up() -> None:
    cluster = Cluster()
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    one.join(READS_T)
    assert two.join(READS_T).active_tasks == []
    assert cluster.group.state is StreamsState.RECONCILING
    one.own()
    assert one.active != {"0": [0, 1, 2]}, "it was told what to give up"
    assert two.own().active_tasks is None, "which it has not yet"
    one.own()
    two.own()
    assert sorted([*one.active["0"], *two.active["0"]]) == [0, 1, 2]
    assert (cluster.group.state, one.epoch, two.epoch) == (StreamsState.STABLE, 3, 3)


def test_whoever_leaves_leaves_its_tasks() -> None:
    cluster = Cluster()
    one, two = two_members(cluster)
    assert one.beat(member_epoch=-1).member_epoch == -1
    assert cluster.group.state is StreamsState.ASSIGNING
    settle(two)
    assert two.active == {"0": [0, 1, 2]}
    two.beat(member_epoch=-1)
    assert (cluster.group.state, cluster.group.is_subscribed("t")) == (StreamsState.EMPTY, False)


def test_epochs_that_do_not_fit() -> None:
    """The previous epoch is accepted from a member that has only tasks of its assignment: the last answer may have been lost."""
    cluster = Cluster()
    one, _ = two_members(cluster)
    epoch, mine = one.epoch, dict(one.active)
    assert one.own(member_epoch=epoch - 1).member_epoch == epoch
    assert one.refused(member_epoch=epoch + 1) == ErrorCode.FENCED_MEMBER_EPOCH
    assert one.refused(member_epoch=epoch - 1) == ErrorCode.FENCED_MEMBER_EPOCH, "it does not say what it has"
    for member_epoch, active in ((epoch - 2, mine), (epoch - 1, {"0": [0, 1, 2]})):
        with pytest.raises(GroupError) as refusal:
            one.own(active, member_epoch=member_epoch)
        assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_wish_to_shut_down_ends_with_the_last_member() -> None:
    cluster = Cluster()
    one, two = two_members(cluster)
    assert statuses(one.beat(shutdown_application=True)) == [Status.SHUTDOWN_APPLICATION]
    one.beat(member_epoch=-1)
    assert statuses(two.own()) == [Status.SHUTDOWN_APPLICATION]
    two.beat(member_epoch=-1)
    assert statuses(two.join(READS_T)) == []


def test_a_group_that_everybody_left_is_assigned_at_once() -> None:
    cluster = Cluster(assignment_interval_ms="5000")
    member = Member(cluster, "m")
    member.join(READS_T)
    member.beat(member_epoch=-1)
    member.active = {}
    assert statuses(member.join(READS_T)) == []
    assert member.active == {"0": [0, 1, 2]}


def test_a_silent_member_is_put_out() -> None:
    cluster = Cluster(session_timeout_ms="50000")
    one, two = two_members(cluster)
    cluster.advance(30)
    two.own()
    cluster.advance(30)
    assert list(cluster.group.members) == ["m2"]
    assert one.refused() == ErrorCode.UNKNOWN_MEMBER_ID
    settle(two)
    assert two.active == {"0": [0, 1, 2]}


def test_a_silent_member_whose_end_cannot_be_written_is_put_out_when_it_can() -> None:
    cluster = Cluster()
    Member(cluster, "m").join(READS_T)
    cluster.broker.log.fail = OSError("no space")
    cluster.advance(60)
    assert list(cluster.group.members) == ["m"]
    cluster.broker.log.fail = None
    cluster.advance(1)
    assert cluster.group.is_empty
    assert cluster.broker.clock.waiting == 0


def test_what_a_member_reported_is_kept_for_members_only() -> None:
    cluster = Cluster()
    one = Member(cluster, "m1")
    one.join(READS_T)
    one.own(task_offsets=[TaskOffset("0", 0, 5)])
    cluster.broker.log.fail = OSError("no space")
    with pytest.raises(GroupError):
        Member(cluster, "m2").join(READS_T, task_offsets=[TaskOffset("0", 1, 7)])
    assert list(cluster.group.task_offsets) == ["m1"]


def test_offsets_of_tasks_that_do_not_exist_are_not_kept() -> None:
    cluster = Cluster()
    one = Member(cluster, "m1")
    unknown = [TaskOffset("x", 0, 1), TaskOffset("0", 3, 1), TaskOffset("0", -1, 1)]
    one.join(READS_T)
    one.own(task_offsets=[*unknown, TaskOffset("0", 2, 5)], task_end_offsets=unknown)
    assert cluster.group.task_offsets == {"m1": ({"0": {2: 5}}, {})}
    twice = [TaskOffset("x", 0, 1)] * 2
    assert one.refused(task_offsets=twice) == ErrorCode.INVALID_REQUEST, "whether or not the task exists"
    other = Cluster()
    early = Member(other, "m1")
    early.join(subtopology("0", "nowhere"))
    early.own(task_offsets=[TaskOffset("0", 0, 5)])
    assert other.group.task_offsets == {"m1": ({}, {})}, "there are no tasks as long as a source is missing"


def test_a_member_that_gives_nothing_up_is_put_out() -> None:
    cluster = Cluster()
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    one.join(READS_T, rebalance_timeout_ms=10_000)
    two.join(READS_T)
    for _ in range(3):
        one.own({"0": [0, 1, 2]})
        cluster.advance(4)
    assert one.refused() == ErrorCode.UNKNOWN_MEMBER_ID
    settle(two)
    assert two.active == {"0": [0, 1, 2]}


def test_who_gives_up_in_time_stays() -> None:
    cluster = Cluster()
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    one.join(READS_T, rebalance_timeout_ms=10_000)
    two.join(READS_T)
    one.own()
    cluster.advance(9)
    one.own()
    cluster.advance(9)
    assert one.own().error_code == 0


def test_the_first_assignment_waits_for_others() -> None:
    cluster = Cluster(initial_rebalance_delay_ms="3000")
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    assert statuses(one.join(READS_T)) == [Status.ASSIGNMENT_DELAYED]
    cluster.advance(2)
    assert statuses(two.join(READS_T)) == [Status.ASSIGNMENT_DELAYED]
    assert (one.active, two.active, cluster.group.assignment_epoch) == ({}, {}, 1)
    cluster.advance(1)
    assert cluster.group.assignment_epoch == 3
    settle(one, two)
    assert sorted([*one.active["0"], *two.active["0"]]) == [0, 1, 2]
    assert cluster.group.epoch == 3, "both came before the first assignment"


def test_nobody_is_left_when_the_first_assignment_comes() -> None:
    cluster = Cluster(initial_rebalance_delay_ms="3000")
    member = Member(cluster, "m")
    member.join(READS_T)
    member.beat(member_epoch=-1)
    written = len(cluster.broker.log.records())
    cluster.advance(5)
    assert len(cluster.broker.log.records()) == written


def test_assignments_keep_a_distance() -> None:
    cluster = Cluster(assignment_interval_ms="5000")
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    one.join(READS_T)
    assert statuses(two.join(READS_T)) == [Status.ASSIGNMENT_DELAYED]
    cluster.advance(5)
    assert statuses(two.own()) == []
    assert cluster.group.assignment_epoch == 3


def test_standby_tasks_and_a_change_of_their_number() -> None:
    cluster = Cluster(num_standby_replicas="1")
    cluster.make_topic("between", 3)
    cluster.make_topic("log", 3)
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    one.join(*COUNTS)
    two.join(*COUNTS)
    settle(one, two)
    assert sorted([*one.standby["1"], *two.standby["1"]]) == [0, 1, 2]
    assert not set(one.standby["1"]) & set(one.active.get("1", []))
    cluster.set(num_standby_replicas="0")
    epoch = cluster.group.epoch
    settle(one, two)
    assert (one.standby, two.standby, cluster.group.epoch) == ({}, {}, epoch + 1)
    cluster.set(num_standby_replicas="9")
    one.own()
    assert cluster.group.metadata.assignment_configs == {"num.standby.replicas": "2"}, "no more than the broker allows"


def test_internal_topics_are_asked_for() -> None:
    cluster = Cluster()
    member = Member(cluster, "m")
    answer = member.enter(*COUNTS)
    assert statuses(answer.response) == [Status.MISSING_INTERNAL_TOPICS]
    assert {name: topic.partitions for name, topic in answer.missing.items()} == {"between": 3, "log": 3}
    assert (cluster.group.state, member.active) == (StreamsState.NOT_READY, {})
    cluster.make_topic("between", 3)
    assert list(member.ask().missing) == ["log"]
    cluster.make_topic("log", 3)
    member.own()
    assert member.active == {"0": [0, 1, 2], "1": [0, 1, 2]}


def test_failed_topics_are_left_alone_for_a_while() -> None:
    protocol = (cluster := Cluster()).protocol
    protocol.creation_failed(GROUP, "log", "no room")
    assert protocol.topics_to_create(["between", "log"]) == ["between"]
    assert protocol.failures(["between", "log"]) == {"log": "no room"}
    cluster.advance(10)
    assert protocol.topics_to_create(["between", "log"]) == ["between", "log"]
    assert protocol.failures(["log"]) == {}


def test_topics_grow_and_go() -> None:
    cluster = Cluster()
    member = Member(cluster, "m")
    member.join(READS_T)
    cluster.make_topic("t", 5)
    settle(member)
    assert member.active == {"0": [0, 1, 2, 3, 4]}
    cluster.drop_topic("t")
    answer = member.own()
    assert (statuses(answer), member.active) == ([Status.MISSING_SOURCE_TOPICS], {})
    assert cluster.group.state is StreamsState.NOT_READY


def test_a_topic_of_others_is_not_looked_at() -> None:
    cluster = Cluster()
    member = Member(cluster, "m")
    member.join(READS_T)
    member.own()
    epoch = cluster.group.epoch
    cluster.make_topic("elsewhere", 5)
    assert not cluster.group.refresh_due(cluster.broker.clock.now_ms())
    member.own()
    assert cluster.group.epoch == epoch


def test_a_static_member_comes_back_to_its_tasks() -> None:
    cluster = Cluster()
    one, two = Member(cluster, "m1", "i1"), Member(cluster, "m2", "i2")
    one.join(READS_T)
    two.join(READS_T)
    settle(one, two)
    had, epoch = two.active, cluster.group.epoch
    two.beat(member_epoch=-2)
    back = Member(cluster, "m3", "i2", process="process-m2")
    back.join(READS_T)
    assert (back.active, cluster.group.epoch) == (had, epoch)
    assert two.refused(member_epoch=epoch) == ErrorCode.FENCED_INSTANCE_ID
    with pytest.raises(GroupError) as refusal:
        Member(cluster, "m4", "i2").join(READS_T)
    assert refusal.value.code is ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_static_member_comes_back_as_another_process() -> None:
    """A change of process requires an assignment."""
    cluster = Cluster()
    one, two = Member(cluster, "m1", "i1"), Member(cluster, "m2", "i2")
    one.join(READS_T)
    two.join(READS_T)
    settle(one, two)
    had = two.active
    two.beat(member_epoch=-2)
    assert {epoch for epochs in cluster.group.members["m2"].held.active.values() for epoch in epochs.values()} == {0}
    back = Member(cluster, "m3", "i2", process="elsewhere")
    back.join(READS_T)
    settle(one, back)
    assert (back.active, sorted(cluster.group.targets)) == (had, ["m1", "m3"])


def located(answer: StreamsGroupHeartbeatResponse) -> dict[str, tuple[dict[str, list[int]], dict[str, list[int]]]]:
    """Returns what an answer says of the processes: host -> (partitions of active tasks, those of standby tasks), by topic."""
    assert answer.partitions_by_user_endpoint is not None
    return {
        each.user_endpoint.host: (
            {place.topic: place.partitions for place in each.active_partitions},
            {place.topic: place.partitions for place in each.standby_partitions},
        )
        for each in answer.partitions_by_user_endpoint
    }


def test_members_know_whom_to_ask_for_a_partition() -> None:
    """Only processes with an endpoint are listed; a topic with fewer partitions than there are tasks has only those."""
    cluster = Cluster(num_standby_replicas="1")
    for name, count in (("between", 3), ("log", 3), ("few", 1)):
        cluster.make_topic(name, count)
    reads = (subtopology("0", "t", "few", changelogs=["log"]),)
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    alone = one.join(*reads, user_endpoint=RequestEndpoint("here", 1))
    assert located(alone) == {"here": ({"t": [0, 1, 2], "few": [0]}, {})}
    two.join(*reads)
    settle(one, two)
    assert list(located(one.own())) == ["here"], "the other has no endpoint"
    two.own(user_endpoint=RequestEndpoint("there", 2))
    settle(one, two)
    found = located(one.own())
    assert sorted(found) == ["here", "there"]
    for member, host, other in ((one, "here", "there"), (two, "there", "here")):
        active, standby = found[host]
        assert active == {"t": member.active["0"]} | ({"few": [0]} if 0 in member.active["0"] else {})
        assert standby == found[other][0], "each has a copy of what the other works on"


def test_a_static_member_that_came_back_is_found_at_its_new_place_only() -> None:
    cluster = Cluster()
    gone = Member(cluster, "m1", "i1")
    gone.join(READS_T, user_endpoint=RequestEndpoint("here", 1))
    gone.beat(member_epoch=-2)
    back = Member(cluster, "m2", "i1", process="process-m1")
    answer = back.join(READS_T, user_endpoint=RequestEndpoint("there", 1))
    assert located(answer) == {"there": ({"t": [0, 1, 2]}, {})}


def test_which_changes_of_a_member_require_an_assignment() -> None:
    """Those of a member that keeps its tasks over restarts only if they say where its tasks may run."""
    cluster = Cluster()
    dynamic, static = Member(cluster, "m1"), Member(cluster, "m2", "i2")
    dynamic.join(READS_T)
    static.join(READS_T)
    settle(dynamic, static)
    for member, changes, required in (
        (static, {"rebalance_timeout_ms": 70_000}, False),
        (static, {"rack_id": "r"}, True),
        (static, {"client_tags": [KeyValue("zone", "a")]}, True),
        (static, {"process_id": "elsewhere"}, True),
        (static, {"process_id": "elsewhere"}, False),
        (dynamic, {"rebalance_timeout_ms": 70_000}, True),
        (dynamic, {"rebalance_timeout_ms": 70_000}, False),
    ):
        epoch = cluster.group.epoch
        member.own(**changes)
        assert cluster.group.epoch == epoch + required, changes
        settle(dynamic, static)


def test_a_static_member_that_stays_away_is_put_out() -> None:
    cluster = Cluster()
    one, two = Member(cluster, "m1", "i1"), Member(cluster, "m2", "i2")
    one.join(READS_T)
    two.join(READS_T)
    settle(one, two)
    two.beat(member_epoch=-2)
    cluster.advance(30)
    settle(one)
    cluster.advance(30)
    settle(one)
    assert (list(cluster.group.members), one.active) == (["m1"], {"0": [0, 1, 2]})


def test_no_more_members_than_allowed() -> None:
    cluster = Cluster()
    cluster.broker.configs[4, ""] = {"group.streams.max.size": "1"}
    one = Member(cluster, "m1")
    one.join(READS_T)
    with pytest.raises(GroupError) as refusal:
        Member(cluster, "m2").join(READS_T)
    assert refusal.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    one.join(READS_T)


def test_a_heartbeat_that_is_not_written_changes_nothing() -> None:
    cluster = Cluster()
    cluster.broker.log.fail = StorageError("no room")
    with pytest.raises(GroupError):
        Member(cluster, "m").join(READS_T)
    assert cluster.broker.groups.find(GROUP) is None
    cluster.broker.log.fail = None
    one = Member(cluster, "m1")
    one.join(READS_T)
    before = cluster.group.epoch
    cluster.broker.log.fail = StorageError("no room")
    with pytest.raises(GroupError):
        Member(cluster, "m2").join(READS_T)
    assert (list(cluster.group.members), cluster.group.epoch) == (["m1"], before)
    cluster.broker.log.fail = None
    two = Member(cluster, "m2")
    two.join(READS_T)
    settle(one, two)
    assert cluster.group.state is StreamsState.STABLE


def test_after_a_restart_everything_goes_on() -> None:
    """A restart may come at every point of a rebalance: the members neither notice it nor lose a task."""
    for cut in range(6):
        cluster = Cluster(num_standby_replicas="1")
        for name in ("between", "log"):
            cluster.make_topic(name, 3)
        one, two = Member(cluster, "m1", "i1"), Member(cluster, "m2")
        joins, owns = [partial(each.join, *COUNTS) for each in (one, two)], [partial(each.own) for each in (one, two)]
        for number, step in enumerate(joins + owns + owns):
            if number == cut:
                known = described(cluster.group) if number else None
                cluster.restart()
                assert known is None or described(cluster.group) == known
            step()
        settle(one, two)
        assert cluster.group.state is StreamsState.STABLE, cut
        assert sorted([*one.active["0"], *two.active["0"], *one.active["1"], *two.active["1"]]) == [0, 0, 1, 1, 2, 2]


def described(group: StreamsGroup) -> object:
    members = {name: (each, group.targets.get(name)) for name, each in group.members.items()}
    return group.metadata, group.assignment_epoch, group.topology, members, group.static_members


def test_deadlines_begin_anew_with_a_restart() -> None:
    cluster = Cluster()
    one, two = Member(cluster, "m1"), Member(cluster, "m2")
    one.join(READS_T, rebalance_timeout_ms=10_000)
    two.join(READS_T)
    one.own()
    cluster.restart()
    cluster.advance(11)
    assert list(cluster.group.members) == ["m2"], "m1 did not give up its tasks"
    cluster.advance(45)
    assert cluster.group.is_empty


def test_a_deleted_group_leaves_nothing() -> None:
    cluster = Cluster()
    member = Member(cluster, "m")
    member.join(READS_T)
    shard = cluster.broker.groups.member_shard(GROUP)
    with pytest.raises(GroupError) as refusal:
        shard.delete_group(GROUP)
    assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP
    member.beat(member_epoch=-1)
    shard.delete_group(GROUP)
    cluster.restart()
    assert cluster.broker.groups.find(GROUP) is None
    left = dict(cluster.broker.log.records())
    assert set(left.values()) == {None}, "every key of the group has a tombstone"


def test_a_partition_that_goes_elsewhere_stops_its_timers() -> None:
    cluster = Cluster(initial_rebalance_delay_ms="3000")
    Member(cluster, "m").join(READS_T)
    cluster.broker.groups.close()
    assert cluster.broker.clock.waiting == 0
