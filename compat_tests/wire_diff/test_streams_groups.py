"""Streams groups (KIP-1071), heartbeat by heartbeat: assignment, reconciliation, static members, refusals, records, and what the
everyday group calls say of them. test_streams_topologies.py has topologies and topics.

Members choose their ids, so both brokers see the same ones and assign the same tasks to them. Texts of statuses are our own.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.consumers import Consumer
from compat_tests.wire_diff.group_records import masked, topics_by_hash
from compat_tests.wire_diff.members import Member
from compat_tests.wire_diff.offsets_of_members import asked, committed, listed
from compat_tests.wire_diff.same import check, normalise, same_answer
from compat_tests.wire_diff.streams import (
    Stream,
    at_once,
    counting,
    described,
    set_group,
    subtopology,
    task_ids,
)
from ottla.server.group.records import ProtocolRecord, decode
from ottla.wire.messages import (
    delete_groups,
    describe_groups,
    init_producer_id,
    offset_delete,
    streams_group_heartbeat,
    txn_offset_commit,
)
from ottla.wire.records import decode_records

KeyValue, Endpoint = streams_group_heartbeat.KeyValue, streams_group_heartbeat.RequestEndpoint


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_comes_and_goes(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic, group = wire.create("t", 3), at_once(wire)
        member = Stream(wire, group, "m")
        steps = [member.join([subtopology("0", topic)], version), described(wire, group, version=version)]
        steps += [member.beat(version), member.owning(version=version), described(wire, group, version=version)]
        steps += [listed(wire, group), listed(wire, group, types_filter=["Streams"]), listed(wire, group, types_filter=["share"])]
        steps += [listed(wire, group, states_filter=["stable"]), member.leave(version=version)]
        steps += [described(wire, group, version=version), listed(wire, group), member.beat(version, member_epoch=3)]
        return steps, described(wire, group, version=version, include_authorized_operations=True)

    check(wires, "SG1", scenario)


@same_answer("SG3")
def test_two_members_share_the_tasks(wire: Wire) -> Any:
    topic, group = wire.create("t", 4), at_once(wire)
    topology = [subtopology("0", topic), subtopology("1", topic, changelogs=[wire.name("kept-changelog")])]
    one, two = Stream(wire, group, "m1"), Stream(wire, group, "m2")
    one.join(topology)
    one.until_ready()
    steps = [described(wire, group), two.join(topology).active_tasks, described(wire, group)]
    steps += [one.beat().active_tasks, one.beat().active_tasks, described(wire, group).groups[0].group_state]
    steps += [committed(wire, one, topic, one.epoch), committed(wire, one, topic, one.epoch - 1, partition=3)]
    steps += [one.owning().active_tasks, two.owning().active_tasks, two.owning().active_tasks, one.owning().active_tasks]
    steps += [described(wire, group), one.active, two.active]
    three = Stream(wire, group, "m3", process="process-m1")
    three.join(topology)
    for _ in range(3):
        for member in (one, two, three):
            member.owning()
    steps += [one.active, two.active, three.active, described(wire, group).groups[0].group_state, two.leave().error_code]
    for _ in range(3):
        for member in (one, three):
            member.owning()
    return steps, one.active, three.active, described(wire, group).groups[0].group_state


@same_answer("SG4")
def test_standby_tasks(wire: Wire) -> Any:
    topic, group = wire.create("t", 3), at_once(wire, num_standby_replicas="1")
    topology = counting(wire, topic)
    members = [Stream(wire, group, name) for name in ("m1", "m2", "m3")]
    members[0].join(topology)
    members[0].until_ready()
    for member in members[1:]:
        member.join(topology)
    for _ in range(4):
        for member in members:
            member.owning()
    steps: list[Any] = [(member.active, member.standby) for member in members]
    steps.append(members[2].leave().error_code)
    for _ in range(5):
        for member in members[:2]:
            member.owning()
    steps += [(member.active, member.standby) for member in members[:2]]
    set_group(wire, group, num_standby_replicas="0")
    for _ in range(3):
        for member in members[:2]:
            member.owning()
    return steps, [(member.active, member.standby) for member in members[:2]], described(wire, group).groups[0].group_state


@pytest.mark.parametrize("seed", range(3))
def test_many_members_of_few_processes(wires: dict[str, Wire], seed: int) -> None:
    """Whose turn it is when all else is equal depends on the order of Java's tables, of members' ids and processes."""

    def scenario(wire: Wire) -> Any:
        rng = Random(seed)
        topic, group = wire.create("t", 7), at_once(wire, num_standby_replicas="1")
        topology = [subtopology("0", topic, changelogs=[wire.name("a-changelog")]), subtopology("1", topic)]
        members = [
            Stream(
                wire,
                group,
                f"m{rng.randrange(10**9)}",
                f"i{n}" if n % 4 == 3 else None,
                f"p{rng.randrange(10**5) if n < 4 else n % 4}",
            )
            for n in range(11)
        ]
        members[0].join(topology)
        members[0].until_ready()
        ready_epoch = members[0].epoch  # how many it took until the topics were there is a matter of time
        seen = []
        for some in (members[1:5], members[5:]):
            for member in some:
                member.join(topology)
            seen.append(settled(members[: members.index(some[-1]) + 1]))
        for member in rng.sample(members, 4):
            member.leave()
            members.remove(member)
        return seen, settled(members), since(ready_epoch, described(wire, group))

    def settled(members: list[Stream]) -> Any:
        for _ in range(5):
            for member in members:
                member.owning()
        return [(member.active, member.standby) for member in members]

    def since(epoch: int, description: Any) -> Any:
        """The same with epochs that count from this one."""
        (group,) = description.groups
        group.group_epoch -= epoch
        group.assignment_epoch -= epoch
        for member in group.members:
            member.member_epoch -= epoch
        return description

    check(wires, "many members of few processes", scenario)


@same_answer("SG5")
def test_epochs_are_fenced(wire: Wire) -> Any:
    topic, group = wire.create("t", 2), at_once(wire)
    one, two = Stream(wire, group, "m1"), Stream(wire, group, "m2")
    topology = [subtopology("0", topic)]
    one.join(topology)
    steps = [one.beat(member_epoch=one.epoch + 1), one.beat(member_epoch=one.epoch - 1), one.beat(member_epoch=0, topology=None)]
    two.join(topology)
    one.owning()
    one.owning({})
    one.owning()
    old = one.epoch - 1
    steps += [one.owning(member_epoch=old), one.owning({"0": [0, 1]}, member_epoch=old), one.beat(member_epoch=old)]
    steps += [one.owning({"0": [7]}), one.owning({"x": [0]}), one.owning({"0": [-1]}), one.owning()]
    return steps, one.join(topology), two.beat(member_id="nobody"), two.beat(group_id=wire.name("nope"))


BAD: dict[str, dict[str, Any]] = {
    "no member id": {"member_id": ""},
    "no group id": {"group_id": ""},
    "empty instance": {"instance_id": ""},
    "empty rack": {"rack_id": ""},
    "no rebalance timeout": {"rebalance_timeout_ms": -1},
    "no topology": {"topology": None},
    "tasks at once": {"active_tasks": task_ids({"0": [0]})},
    "one kind of tasks": {"active_tasks": None, "standby_tasks": None},
    "no kind of tasks": {"active_tasks": None, "standby_tasks": None, "warmup_tasks": None},
    "an epoch that is none": {"member_epoch": -3},
    "a topology later": {"member_epoch": 4},
    "away without an instance": {"member_epoch": -2, "topology": None},
    "gone before it came": {"member_epoch": -1, "topology": None},
    "offsets twice": {"task_offsets": [streams_group_heartbeat.TaskOffset("0", 0, 5)] * 2},
    "no process": {"process_id": None},
    "no tags": {"client_tags": None},
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("version", [0, 1])
def test_bad_joins(wires: dict[str, Wire], case: str, version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic, group = wire.create("t", 2), at_once(wire)
        answer = Stream(wire, group, "m").join([subtopology("0", topic)], version, **BAD[case])
        return answer, listed(wire, group)

    check(wires, f"SG6 {case}", scenario)


@same_answer("SG10")
def test_static_members(wire: Wire) -> Any:
    topic, group = wire.create("t", 4), at_once(wire)
    topology = [subtopology("0", topic)]
    one, two = Stream(wire, group, "m1", "i1"), Stream(wire, group, "m2", "i2")
    one.join(topology)
    two.join(topology)
    for _ in range(3):
        one.owning()
        two.owning()
    steps: list[Any] = [one.active, two.active, two.leave(member_epoch=-2), described(wire, group)]
    thief = Stream(wire, group, "m3", "i1")
    back = Stream(wire, group, "m4", "i2", process="process-m2")
    steps += [thief.join(topology), back.join(topology), back.owning(), described(wire, group)]
    steps += [two.beat(), two.leave(), one.beat(instance_id="unknown"), one.leave(instance_id="unknown", member_epoch=-2)]
    steps += [back.leave(member_epoch=-1), one.owning(), one.owning(), described(wire, group).groups[0].group_state]
    return steps


@same_answer("SG11")
def test_endpoints_for_interactive_queries(wire: Wire) -> Any:
    topic, group = wire.create("t", 4), at_once(wire)
    topology = [subtopology("0", topic)]
    one, two = Stream(wire, group, "m1"), Stream(wire, group, "m2")
    steps = [one.join(topology, user_endpoint=Endpoint("here", 1)), one.beat(), one.beat(user_endpoint=Endpoint("there", 2))]
    steps += [one.beat(), one.beat(), two.join(topology), two.beat(), one.owning(), one.owning({"0": [0, 1]}), two.owning()]
    two.owning()
    return steps, one.beat(endpoint_information_epoch=0), two.beat(endpoint_information_epoch=0), described(wire, group)


@same_answer("SG12")
def test_shutdown_of_the_application(wire: Wire) -> Any:
    topic, group = wire.create("t", 2), at_once(wire)
    topology = [subtopology("0", topic)]
    one, two = Stream(wire, group, "m1"), Stream(wire, group, "m2")
    one.join(topology)
    two.join(topology)
    steps = [one.beat(shutdown_application=True), two.beat(), one.leave(), two.beat(), two.leave(), two.join(topology)]
    return steps, two.leave(shutdown_application=True), one.join(topology)


@same_answer("SG14")
def test_offsets_of_members(wire: Wire) -> Any:
    topic, group = wire.create("t", 2), at_once(wire)
    member = Stream(wire, group, "m")
    member.join([subtopology("0", topic)])
    epoch = member.epoch
    steps = [committed(wire, member, topic, each) for each in (epoch, epoch + 1, epoch - 1, -1)]
    steps += [committed(wire, member, topic, epoch, version=8), committed(wire, member, topic, epoch, member_id="nobody")]
    steps += [committed(wire, member, topic, -1, member_id=""), committed(wire, member, wire.create("u"), epoch - 1)]
    steps += [
        asked(wire, group, who, at, topic) for who, at in ((member.id, epoch), (member.id, epoch - 1), (None, -1), ("nobody", 3))
    ]
    named = [offset_delete.OffsetDeleteRequestTopic(topic, [offset_delete.OffsetDeleteRequestPartition(0)])]
    steps += [
        wire.call(offset_delete.OffsetDeleteRequest(group, named), 0),
        wire.call(delete_groups.DeleteGroupsRequest([group]), 2),
    ]
    member.leave()
    steps += [wire.call(offset_delete.OffsetDeleteRequest(group, named), 0), committed(wire, member, topic, -1, member_id="")]
    steps += [asked(wire, group, None, -1, topic), wire.call(delete_groups.DeleteGroupsRequest([group]), 2)]
    return steps, described(wire, group), asked(wire, group, None, -1, topic)


@pytest.mark.parametrize("version", [5, 6])
def test_offsets_in_transactions(wires: dict[str, Wire], version: int) -> None:
    """Version 6 has a code for a member that is behind."""

    def scenario(wire: Wire) -> Any:
        topic, group, name = wire.create("t", 2), at_once(wire), wire.name("transaction")
        member = Stream(wire, group, "m")
        member.join([subtopology("0", topic)])
        producer = wire.call(init_producer_id.InitProducerIdRequest(name, 60_000), 4)
        assert producer.error_code == 0
        named = txn_offset_commit.TxnOffsetCommitRequestTopic(
            topic, partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(0, 7, -1, None)]
        )

        def commit(member_id: str, epoch: int) -> Any:
            request = txn_offset_commit.TxnOffsetCommitRequest(
                name, group, producer.producer_id, producer.producer_epoch, epoch, member_id, None, [named]
            )
            return wire.call(request, version)

        who = ((member.id, member.epoch), (member.id, member.epoch + 1), (member.id, 1), ("nobody", 2), ("", -1), (member.id, -1))
        return [commit(*each) for each in who], asked(wire, group, None, -1, topic)

    check(wires, "SG20", scenario)


@same_answer("SG15")
def test_groups_of_other_kinds(wire: Wire) -> Any:
    topic, group, classic = wire.create("t", 2), at_once(wire), at_once(wire, "c")
    member, old = Stream(wire, group, "m"), Member(wire, group, "old")
    topology = [subtopology("0", topic)]
    member.join(topology)
    steps = [wire.call(describe_groups.DescribeGroupsRequest([group]), version) for version in (5, 6)]
    steps += [old.join(), old.heartbeat(), old.leave(), old.sync()]
    lone = Member(wire, classic, "lone")
    lone.commit(topic)
    steps += [listed(wire, classic), described(wire, classic), Stream(wire, classic, "m").join(topology), listed(wire, classic)]
    steps.append(asked(wire, classic, None, -1, topic))
    busy = Member(wire, wire.name("busy"), "b")
    busy.enter()
    steps += [Stream(wire, wire.name("busy"), "m").join(topology), Stream(wire, wire.name("busy"), "m").beat(member_epoch=5)]
    member.leave()
    steps += [old.enter().error_code, listed(wire, group), described(wire, group), described(wire, "", wire.name("nope"))]
    return steps


@same_answer("SG24")
def test_groups_of_the_newer_kinds(wire: Wire) -> Any:
    """Nobody takes another kind's group, not even one without members."""
    topic, ours, theirs = wire.create("t", 2), at_once(wire), at_once(wire, "c")
    topology = [subtopology("0", topic)]
    member, consumer = Stream(wire, ours, "m"), Consumer(wire, theirs, "c")
    member.join(topology)
    consumer.join([topic])
    steps = [Consumer(wire, ours, "c").join([topic]), Stream(wire, theirs, "m").join(topology), described(wire, theirs)]
    member.leave()
    consumer.leave()
    return steps, Consumer(wire, ours, "c").join([topic]), Stream(wire, theirs, "m").join(topology), listed(wire, ours)


@same_answer("SG16")
def test_a_member_that_keeps_what_is_not_its_own(wire: Wire) -> Any:
    """It is put out when its rebalance timeout is over."""
    topic, group = wire.create("t", 2), at_once(wire)
    topology = [subtopology("0", topic)]
    one, two = Stream(wire, group, "m1"), Stream(wire, group, "m2")
    one.join(topology, rebalance_timeout_ms=100)
    # About one group in fifty begins at Kafka before its coordinator knows that its first assignment is not to be delayed.
    one.until("all tasks", lambda answer: one.active == {"0": [0, 1]})
    two.join(topology)
    steps = [one.owning({"0": [0, 1]})]
    wait_for(lambda: one.owning({"0": [0, 1]}).error_code == 25, "m1 is out")
    two.until("all tasks", lambda answer: two.active == {"0": [0, 1]})
    return steps, two.epoch, [each.member_id for each in described(wire, group).groups[0].members]


@same_answer("SG17")
def test_racks_and_tags_and_reported_offsets(wire: Wire) -> Any:
    topic, group = wire.create("t", 2), at_once(wire, num_standby_replicas="1", rack_aware_assignment_tags="zone,cluster")
    topology = counting(wire, topic)
    offsets = [streams_group_heartbeat.TaskOffset("1", 1, 9), streams_group_heartbeat.TaskOffset("1", 0, 3)]
    one, two = Stream(wire, group, "m1"), Stream(wire, group, "m2")
    steps = [one.join(topology, client_tags=[KeyValue("zone", "a")], rack_id="r", task_offsets=offsets).status]
    one.until("topics are there", lambda answer: all(status.status_code == 6 for status in answer.status))
    steps += [two.join(topology, 0).status, one.owning(task_end_offsets=offsets[:1]).error_code]
    return steps, described(wire, group)


def written(wire: Wire, group: str) -> list[Any]:
    """Returns what `__consumer_offsets` has of the group, in order: kind of key, member, value or None for a tombstone, with the
    masks of group_records.py.
    """
    found, hashes = [], topics_by_hash(wire)
    for header, batch in wire.batches("__consumer_offsets"):
        for record in () if header.is_control else decode_records(bytes(batch)):
            known = None if record.key is None else decode(record.key, record.value)
            if isinstance(known, ProtocolRecord) and known.group_id == group:
                value = None if known.value is None else normalise(masked(known.value, hashes), {})
                found.append((type(known.key).__name__, getattr(known.key, "member_id", None), value))
    return found


@same_answer("records of a streams group")
def test_the_records(wire: Wire) -> Any:
    """A group's life, and what of it is in the log: the same records in the same order."""
    topic, group = wire.create("t", 4), at_once(wire, num_standby_replicas="1")
    topology = [subtopology("0", topic), subtopology("1", topic, changelogs=[wire.name("kept-changelog")])]
    one, two = Stream(wire, group, "m1"), Stream(wire, group, "m2", "i2")
    one.join(topology, user_endpoint=Endpoint("here", 1), client_tags=[KeyValue("zone", "a"), KeyValue("cluster", "b")])
    wire.wait_for_topic(wire.name("kept-changelog"), 4)
    one.until_ready()
    two.join(topology, rack_id="r")
    for _ in range(3):
        one.owning()
        two.owning()
    two.leave(member_epoch=-2)
    back = Stream(wire, group, "m3", "i2", process="process-m2")
    back.join(topology)
    for _ in range(2):
        one.owning()
        back.owning()
    back.leave()
    one.owning()
    one.leave()
    assert wire.call(delete_groups.DeleteGroupsRequest([group]), 2).results[0].error_code == 0
    return written(wire, group)
