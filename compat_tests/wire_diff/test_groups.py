"""Classic groups: join, sync, heartbeat, leave, static members, and the groups' administration (docs/kafka-behaviour.md)."""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.members import Member, stable
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.messages import delete_groups, describe_groups, find_coordinator, leave_group, list_groups, sync_group

GROUP, TRANSACTION = 0, 1


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        request = find_coordinator.FindCoordinatorRequest
        if version < 4:
            kinds = [(key, GROUP) for key in ("g", "", "x" * 300)] + ([("tx", TRANSACTION)] if version else [])
            return [wire.call(request(*each), version) for each in kinds]
        answers = [wire.call(request("", GROUP, keys), version) for keys in (["g"], ["g1", "g2"], [""], [], ["g", "g"])]
        return [*answers, wire.call(request("", TRANSACTION, ["tx"]), version)]

    check(wires, "FC1", scenario)


@pytest.mark.parametrize("version", [2, 3, 4, 6])
def test_find_coordinator_of_an_unknown_type(wires: dict[str, Wire], version: int) -> None:
    check(wires, "FC6", lambda wire: wire.call(find_coordinator.FindCoordinatorRequest("k", 9, ["k"]), version))


@pytest.mark.parametrize("version", range(10))
def test_join_sync_heartbeat_leave_at_every_version(wires: dict[str, Wire], version: int) -> None:
    """From version 4 on the first join only hands out an id (79)."""

    def scenario(wire: Wire) -> Any:
        member = Member(wire, wire.name("g"), "m1")
        first = member.join(version)
        again = member.join(version) if first.error_code == 79 else None
        synced = member.sync({member.id: b"ASG"}, min(version, 5))
        alive = member.heartbeat(min(version, 4))
        return first, again, synced, alive, member.leave(min(version, 5)), member.heartbeat(min(version, 4))

    check(wires, "J1", scenario)


BAD_JOINS: dict[str, dict[str, Any]] = {
    "J3 unknown member": {"member_id": "zzz"},
    "J4 session too short": {"session_timeout_ms": 1},
    "J5 session too long": {"session_timeout_ms": 7_200_000},
    "J7 no protocols": {"protocols": []},
    "J7b no protocol type": {"protocol_type": ""},
    "empty group": {"group_id": ""},
    "negative rebalance timeout": {"rebalance_timeout_ms": -5},
    "instance of an unknown member": {"member_id": "zzz", "group_instance_id": "i"},
    "empty instance": {"group_instance_id": ""},
    "instance with a space": {"group_instance_id": "a b"},
    "long instance": {"group_instance_id": "x" * 250},
}


@pytest.mark.parametrize("case", BAD_JOINS)
@pytest.mark.parametrize("version", [5, 9])
def test_bad_joins(wires: dict[str, Wire], case: str, version: int) -> None:
    check(wires, case, lambda wire: Member(wire, wire.name("g"), "m1").join(version, **BAD_JOINS[case]))


@same_answer("J13")
def test_a_second_member_that_does_not_fit(wire: Wire) -> Any:
    group = wire.name("g")
    stable(wire, group)
    other = Member(wire, group, "m2")
    return [
        other.join(protocol_type="connect"),
        other.join(protocols=[("sticky", b"")]),
        other.join(member_id="zzz"),
        other.join(protocols=[]),
    ]


@same_answer("J10")
def test_bad_syncs_and_heartbeats(wire: Wire) -> Any:
    member = stable(wire, wire.name("g"))
    syncs = [
        member.sync(),
        member.sync(member_id="zzz"),
        member.sync(generation_id=9),
        member.sync(protocol_name="sticky"),
        member.sync(protocol_type="connect"),
        member.sync(group_id=wire.name("nope")),
        member.sync(group_id=""),
        member.sync(version=4, protocol_name="sticky"),
    ]
    beats = [
        member.heartbeat(),
        member.heartbeat(generation_id=9),
        member.heartbeat(member_id="zzz"),
        member.heartbeat(group_id=wire.name("nope")),
        member.heartbeat(group_id=""),
        member.heartbeat(group_instance_id="unknown"),
    ]
    return syncs, beats


@same_answer("J15")
def test_a_rebalance_of_two_members(wire: Wire) -> Any:
    group, topic = wire.name("g"), wire.create("t")
    first = stable(wire, group)
    second = Member(wire, group, "m2")
    seen = [second.join()]
    second.start_join()
    wait_for(lambda: first.heartbeat().error_code == 27, "the rebalance has begun")
    seen += [first.heartbeat(), first.sync(), first.commit(topic)]
    first.start_join()
    answers = [second.joined(), first.joined()]
    seen += [first.heartbeat(), first.commit(topic), first.leader == first.id, second.leader == first.id]
    second.connection.send(second.sync_request(), 5)
    seen.append(first.sync({first.id: b"A", second.id: b"B"}))
    seen += [second.connection.answer(sync_group, 5), first.heartbeat(), second.heartbeat()]
    gone = leave_group.LeaveGroupRequest(group, "", [leave_group.MemberIdentity(second.id), leave_group.MemberIdentity("zzz")])
    seen += [wire.call(gone, 5), second.heartbeat(), first.heartbeat()]
    return seen, answers, first.join(), first.sync({first.id: b"C"})


@same_answer("J16")
def test_the_protocol_all_members_know_is_chosen(wire: Wire) -> Any:
    group = wire.name("g")
    one, two = Member(wire, group, "m1"), Member(wire, group, "m2")
    preferred, common = [("sticky", b"s1"), ("range", b"r1")], [("range", b"r2"), ("roundrobin", b"x")]
    one.join(protocols=preferred)
    one.join(protocols=preferred)
    two.join(protocols=common)
    two.start_join(protocols=common)
    wait_for(lambda: one.heartbeat().error_code == 27, "the rebalance has begun")
    one.start_join(protocols=preferred)
    return two.joined(), one.joined()


@same_answer("J17")
def test_a_follower_with_unchanged_metadata_gets_its_generation_again(wire: Wire) -> Any:
    """A leader's rejoin starts a rebalance, a rejoin of a lone leader too; the generation counts on."""
    member = stable(wire, wire.name("g"))
    again = member.join()
    synced = member.sync({member.id: b"ASG2"})
    changed = member.join(protocols=[("range", b"another subscription")])
    return again, synced, changed, member.sync({member.id: b"ASG3"})


@same_answer("ST1")
def test_static_members(wire: Wire) -> Any:
    group, topic = wire.name("g"), wire.create("t")
    first = Member(wire, group, "m1", "inst")
    seen = [first.join(), first.sync({first.id: b"ASG"}), first.heartbeat()]
    second = Member(wire, group, "m2", "inst")
    seen += [second.join(), second.id != first.id]
    seen += [first.heartbeat(), first.commit(topic), first.join(), first.sync()]
    stranger = Member(wire, group, "m3", "other")
    seen += [
        second.heartbeat(group_instance_id="other"),
        stranger.heartbeat(member_id=second.id),
        second.heartbeat(),
        second.sync(),
    ]
    members = [leave_group.MemberIdentity("", "inst"), leave_group.MemberIdentity("", "nope")]
    return seen, wire.call(leave_group.LeaveGroupRequest(group, "", members), 5)


@same_answer("ST2")
def test_a_static_follower_returns_without_a_rebalance(wire: Wire) -> Any:
    """A member that is not the leader takes its place again: its old assignment, the same generation."""
    group = wire.name("g")
    leader, follower = stable(wire, group, "m1", "one"), Member(wire, group, "m2", "two")
    follower.start_join()
    wait_for(lambda: leader.heartbeat().error_code == 27, "the rebalance has begun")
    leader.start_join()
    joined = [follower.joined(), leader.joined()]
    synced = leader.sync({leader.id: b"A", follower.id: b"B"})
    follower.sync()
    back = Member(wire, group, "m3", "two")
    return joined, synced, back.join(), back.sync(), leader.heartbeat(), follower.heartbeat()


@pytest.mark.parametrize("version", range(6))
def test_leave(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        member = stable(wire, wire.name("g"))
        stranger = Member(wire, wire.name("g"), "x")
        stranger.id = "zzz"
        elsewhere = Member(wire, wire.name("nope"), "y")
        return stranger.leave(version), elsewhere.leave(version), member.leave(version), member.leave(version)

    check(wires, "LG2", scenario)


@pytest.mark.parametrize("version", range(7))
def test_describe_groups(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        group = wire.name("g")
        member = stable(wire, group, instance="inst")
        request = describe_groups.DescribeGroupsRequest
        answers = [wire.call(request([group, wire.name("nope"), ""], flag), version) for flag in (False, version >= 3)]
        member.join(protocols=[("range", b"changed")])
        completing = wire.call(request([group]), version)
        left = leave_group.LeaveGroupRequest(group, "", [leave_group.MemberIdentity(member.id)])
        wire.call(left, 4)
        return answers, completing, wire.call(request([group]), version), wire.call(request([]), version)

    check(wires, "DG1", scenario)


@pytest.mark.parametrize("version", range(6))
def test_list_groups(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        group, topic = wire.name("g"), wire.create("t")
        stable(wire, group)
        simple = Member(wire, wire.name("simple"), "s")
        simple.commit(topic)

        def ask(states: list[str], types: list[str]) -> Any:
            answer = wire.call(list_groups.ListGroupsRequest(states, types), version)
            return answer.error_code, sorted((g for g in answer.groups if g.group_id.startswith(wire.prefix)), key=repr)

        filters: list[tuple[list[str], list[str]]] = [([], [])]
        if version >= 4:
            filters += [(["Stable"], []), (["Empty", "Dead"], []), (["Foo"], []), (["stable"], [])]
        if version >= 5:
            filters += [([], ["classic"]), ([], ["consumer"]), (["Stable"], ["Classic"]), ([], ["bogus"])]
        return [ask(*f) for f in filters]

    check(wires, "LS1", scenario)


@pytest.mark.parametrize("version", range(4))
def test_delete_groups(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        busy, empty, topic = wire.name("busy"), wire.name("empty"), wire.create("t")
        member = stable(wire, busy)
        Member(wire, empty, "s").commit(topic)

        def delete(*groups: str) -> Any:
            return wire.call(delete_groups.DeleteGroupsRequest(list(groups)), version)

        first = delete(busy, empty, wire.name("nope"), ""), delete(empty), delete()
        member.leave()
        return first, delete(busy, busy), wire.call(describe_groups.DescribeGroupsRequest([busy, empty]), 6)

    check(wires, "groups that are to be deleted", scenario)


@same_answer("a join after everybody left")
def test_a_join_after_everybody_left(wire: Wire) -> Any:
    """An empty group counts its generations on."""
    group = wire.name("g")
    member = stable(wire, group)
    member.leave()
    other = Member(wire, group, "m2")
    return other.enter()
