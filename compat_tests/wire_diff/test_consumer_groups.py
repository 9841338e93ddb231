"""Consumer groups (KIP-848), heartbeat by heartbeat: joining, reconciliation, leaving, static members, expressions, refusals.

Members choose their ids, so both brokers see the same ones and, in groups of one topic, assign the same partitions to them. An
assignment is made at most once a second (group.consumer.assignment.interval.ms): where that matters, heartbeats are repeated
until the epoch has come.
"""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.group_settings import set_group
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.consumers import Consumer, described, topic_of_groups
from compat_tests.wire_diff.members import Member
from compat_tests.wire_diff.offsets_of_members import asked, committed, listed
from compat_tests.wire_diff.same import check, same_answer
from compat_tests.wire_diff.test_transaction_coordinator import Client
from ottla.wire.messages import delete_groups, describe_groups, offset_delete
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest

LONG_INTERVAL = {"consumer.assignment.interval.ms": "5000"}
"""An interval for cases in which two requests must lie within it, however late the machine is."""


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_comes_and_goes(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        topic = topic_of_groups(wire, "t", 3)
        member = Consumer(wire, wire.name("g"), "m")
        steps = [member.join([topic], version), described(wire, member.group, version=version)]
        steps += [member.beat(version), member.owning(version=version), described(wire, member.group, version=version)]
        steps += [listed(wire, member.group), member.leave(version=version), described(wire, member.group, version=version)]
        return [*steps, listed(wire, member.group), member.beat(version, member_epoch=3)]

    check(wires, "K1", scenario)


@same_answer("CG2")
def test_without_topics_or_with_unknown_ones(wire: Wire) -> Any:
    nothing = Consumer(wire, wire.name("g1"), "m")
    unknown = Consumer(wire, wire.name("g2"), "m")
    return [
        nothing.join([]),
        nothing.beat(),
        unknown.join([wire.name("nope")]),
        unknown.beat(),
        described(wire, nothing.group, unknown.group, include_authorized_operations=True),
    ]


BAD: dict[str, dict[str, Any]] = {
    "K13 no group": {"group_id": ""},
    "K3 no member id": {"member_id": ""},
    "K14 empty instance": {"instance_id": ""},
    "empty rack": {"rack_id": ""},
    "no rebalance timeout": {"rebalance_timeout_ms": -1},
    "K10 owns something": {"topic_partitions": None},
    "K9 no subscription": {"subscribed_topic_names": None},
    "epoch -3": {"member_epoch": -3},
    "away without an instance": {"member_epoch": -2},
    "K11 unknown assignor": {"server_assignor": "best"},
    "empty assignor": {"server_assignor": ""},
    "a broken expression": {"subscribed_topic_regex": "["},
    "another broken expression": {"subscribed_topic_regex": "(a"},
    "K6 an epoch of an unknown group": {"member_epoch": 5},
    "leaving an unknown group": {"member_epoch": -1},
}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("case", BAD)
def test_bad_first_heartbeats(wires: dict[str, Wire], case: str, version: int) -> None:
    def scenario(wire: Wire) -> Any:
        fields = {key: value for key, value in BAD[case].items() if version > 0 or key != "subscribed_topic_regex"}
        answer = Consumer(wire, wire.name("g"), "m").join([wire.name("t")], version, **fields)
        if case == "K3 no member id" and version == 0:
            answer.member_id = "chosen" if len(answer.member_id) == 22 else answer.member_id
        return answer

    check(wires, case, scenario)


@same_answer("K5")
def test_bad_epochs(wire: Wire) -> Any:
    topic = topic_of_groups(wire, "t", 2)
    member = Consumer(wire, wire.name("g"), "m")
    steps = [member.join([topic])]
    stranger = Consumer(wire, member.group, "stranger")
    wrong: list[dict[str, Any]] = [{"member_epoch": 9}, {"member_epoch": 1}, {"member_epoch": 1, "topic_partitions": []}]
    steps += [member.beat(**changes) for changes in wrong]
    steps += [stranger.beat(member_epoch=2), stranger.leave(), member.leave(instance_id="i")]
    steps += [member.beat(subscribed_topic_names=[]), member.owning({}), member.join([topic])]
    return steps


@same_answer("K29")
def test_two_members_share(wire: Wire) -> Any:
    """The second waits until the first has let go."""
    topic = topic_of_groups(wire, "t", 4)
    first, second = Consumer(wire, wire.name("g"), "m1"), Consumer(wire, wire.name("g"), "m2")
    set_group(wire, first.group, LONG_INTERVAL)
    steps = [first.join([topic]), first.owning(), second.join([topic])]
    steps += [second.until(3, topic_partitions=[]), described(wire, first.group)]
    revoking = first.beat()
    steps += [revoking, second.beat(), described(wire, first.group)]
    steps += [first.owning(), second.owning(), described(wire, first.group)]
    return [*steps, first.owning(), second.owning(), sorted(first.assigned.values()), sorted(second.assigned.values())]


@same_answer("six members, two of whom leave")
def test_six_members_and_two_of_them_leave(wire: Wire) -> Any:
    topic = topic_of_groups(wire, "t", 7)
    members = [Consumer(wire, wire.name("g"), f"m{n}") for n in range(6)]
    for member in members:
        member.join([topic])
    settle(wire, members, 7)
    before = [member.assigned.get(wire.topic_ids[topic]) for member in members]
    for member in members[:2]:
        member.leave()
    settle(wire, members[2:], 7)
    return before, [member.assigned.get(wire.topic_ids[topic]) for member in members[2:]]


def settle(wire: Wire, members: list[Consumer], partitions: int) -> None:
    """Heartbeats of all until the group is stable, and `partitions` are given out."""

    def stable() -> bool:
        for member in members:
            member.owning()
        state = described(wire, members[0].group).groups[0].group_state
        return bool(state == "Stable") and sum(len(p) for m in members for p in m.assigned.values()) == partitions

    wait_for(stable, f"{members[0].group} is stable")


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_assignors(wires: dict[str, Wire], assignor: str) -> None:
    def scenario(wire: Wire) -> Any:
        topic = topic_of_groups(wire, "t", 8)
        members = [Consumer(wire, wire.name("g"), f"m{n}") for n in range(3)]
        for member in members:
            member.join([topic], server_assignor=assignor)
        settle(wire, members, 8)
        told = described(wire, members[0].group).groups[0].assignor_name
        return told, [member.assigned[wire.topic_ids[topic]] for member in members]

    check(wires, "assignors of the broker", scenario)


@same_answer("CG8")
def test_static_members(wire: Wire) -> Any:
    topic, group = topic_of_groups(wire, "t", 3), wire.name("g")
    former, new = Consumer(wire, group, "m1", "i1"), Consumer(wire, group, "m2", "i1")
    steps = [former.join([topic]), new.join([topic]), new.beat(member_epoch=2), former.beat(instance_id="i2")]
    steps += [former.leave(member_epoch=-2), described(wire, group), former.beat(member_epoch=2)]
    steps += [new.join([topic]), described(wire, group), former.beat(member_epoch=2), former.leave(member_epoch=-1)]
    steps += [new.beat(), new.leave(member_epoch=-2), new.join([topic]), new.leave(member_epoch=-1), described(wire, group)]
    return steps


@same_answer("CG9")
def test_expressions(wire: Wire) -> Any:
    first, group = topic_of_groups(wire, "t1"), wire.name("g")
    member = Consumer(wire, group, "m")
    set_group(wire, group, LONG_INTERVAL)
    steps = [member.join(None, subscribed_topic_regex=f"{wire.name('t')}.")]
    member.until_assigned(1)
    steps += [member.epoch, described(wire, group), member.beat(subscribed_topic_regex="(")]
    steps += [member.owning(subscribed_topic_regex=""), member.owning(), described(wire, group)]
    return [*steps, first in described(wire, group).groups[0].members[0].subscribed_topic_names]


BROKEN = ["[", "(a", "a)", "*", "a**", "a{2000}", "(?P<n", "(?=a)", "[b-a]", "\\8", "\\", "[[:x:]]", "(?z)", "\\pX", "a{2,1}"]


@pytest.mark.parametrize(
    "expression", [*BROKEN, "\\Qa.b\\E.*", "(?i)T-.*", "^t.*$", "\\pN+", "a|b", "(?P<n>a)", "\\w+", "[^a-z]"]
)
def test_an_expression_is_one_or_not(wires: dict[str, Wire], expression: str) -> None:
    def scenario(wire: Wire) -> Any:
        member = Consumer(wire, wire.name("g"), "m")
        answer = member.join(None, subscribed_topic_regex=expression)
        if answer.error_code == 0:
            member.leave()
        return answer.error_code

    check(wires, "CG10", scenario)


@same_answer("K18")
def test_offsets_of_members(wire: Wire) -> Any:
    topic, group = topic_of_groups(wire, "t", 2), wire.name("g")
    member = Consumer(wire, group, "m")
    member.join([topic])
    epoch = member.epoch
    commits = [
        committed(wire, member, topic, epoch),
        committed(wire, member, topic, epoch + 1),
        committed(wire, member, topic, epoch - 1),
        committed(wire, member, topic, epoch, version=8),
        committed(wire, member, topic, -1),
        committed(wire, member, topic, -1, member_id=""),
        committed(wire, member, topic, epoch, member_id="zzz"),
        committed(wire, member, topic, epoch, group_instance_id="i"),
    ]
    names = [(member.id, epoch), (member.id, epoch - 1), (member.id, epoch + 1), ("zzz", epoch), ("", -1), (None, -1)]
    fetches = [asked(wire, group, name, at, topic) for name, at in names]
    forget = offset_delete.OffsetDeleteRequestTopic(topic, [offset_delete.OffsetDeleteRequestPartition(0)])
    kept = wire.call(offset_delete.OffsetDeleteRequest(group, [forget]), 0)
    refused = wire.call(delete_groups.DeleteGroupsRequest([group]), 2)
    member.leave()
    gone = wire.call(offset_delete.OffsetDeleteRequest(group, [forget]), 0)
    after = committed(wire, member, topic, -1, member_id="")
    return (
        commits,
        fetches,
        kept,
        refused,
        gone,
        after,
        wire.call(delete_groups.DeleteGroupsRequest([group]), 2),
        listed(wire, group),
    )


@same_answer("CGnull")
def test_an_epoch_without_a_member(wire: Wire) -> Any:
    topic = topic_of_groups(wire, "t")
    member = Consumer(wire, wire.name("g"), "m")
    member.join([topic])
    return asked(wire, member.group, None, 3, topic)


@same_answer("CG12")
def test_commits_with_epochs_of_the_past(wire: Wire) -> Any:
    """Checks that what a member has had since before may be committed with the epoch of then."""
    topic = topic_of_groups(wire, "t", 2)
    first, second = Consumer(wire, wire.name("g"), "m1"), Consumer(wire, wire.name("g"), "m2")
    first.join([topic])
    second.join([topic])
    second.until(3, topic_partitions=[])
    first.beat()
    settle(wire, [first, second], 2)
    return [
        (index, epoch, committed(wire, member, topic, epoch, partition=index).topics[0].partitions[0].error_code)
        for member in (first, second)
        for index in (0, 1)
        for epoch in range(1, 5)
    ]


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_offsets_of_members_in_transactions(wires: dict[str, Wire], version: int) -> None:
    def scenario(wire: Wire) -> Any:
        client = Client(wire)
        member = Consumer(wire, client.group, "m")
        member.join([client.topic])
        producer = client.begin()
        assert wire.call(AddOffsetsToTxnRequest(client.tid, *producer, client.group), 4).error_code == 0
        epochs = [member.epoch, member.epoch + 1, member.epoch - 1, -1]
        given: list[dict[str, Any]] = [{"generation_id_or_member_epoch": epoch, "member_id": member.id} for epoch in epochs]
        given += [{}, {"member_id": "zzz", "generation_id_or_member_epoch": 2}]
        answers = [client.commit_offset(producer, version, **fields) for fields in given]
        client.group = wire.name("nobody")
        assert wire.call(AddOffsetsToTxnRequest(client.tid, *producer, client.group), 4).error_code == 0
        return [*answers, client.commit_offset(producer, version, generation_id_or_member_epoch=2, member_id=member.id)]

    check(wires, "CG15", scenario)


@same_answer("CG13")
def test_groups_of_one_kind_as_another(wire: Wire) -> Any:
    topic, group = topic_of_groups(wire, "t"), wire.name("g")
    member = Consumer(wire, group, "m")
    member.join([topic])
    classic = Member(wire, group, "c")
    answers = [wire.call(describe_groups.DescribeGroupsRequest([group]), version) for version in (5, 6)]
    joins = [
        classic.join(),
        classic.join(protocol_type="connect"),
        classic.join(protocols=[]),
        classic.heartbeat(),
        classic.sync(),
    ]
    types = [listed(wire, group, types_filter=kinds) for kinds in (["consumer"], ["Consumer", "classic"], ["classic"], ["share"])]
    states = [listed(wire, group, states_filter=names) for names in (["stable"], ["Empty"], ["assigning", "reconciling"])]
    member.leave()
    return answers, joins[1:], types, states, listed(wire, group), described(wire, "", wire.name("nope"))


@same_answer("CG14")
def test_topics_come_grow_and_go(wire: Wire) -> Any:
    group, late = wire.name("g"), wire.name("late")
    member = Consumer(wire, group, "m")
    steps = [member.join([late])]
    wire.create("late", 2)
    member.until_assigned(2)
    return [*steps, member.epoch, described(wire, group)]
