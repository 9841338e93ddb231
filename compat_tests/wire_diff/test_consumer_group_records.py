"""Tests of the records that consumer groups leave in `__consumer_offsets`, record by record, and classic members among them: the
way from one kind of group to the other, by single requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any

from compat_tests.wire import Wire
from compat_tests.wire_diff.consumers import Consumer, described, topic_of_groups
from compat_tests.wire_diff.group_records import written
from compat_tests.wire_diff.members import Member
from compat_tests.wire_diff.same import same_answer
from ottla.wire.messages import describe_groups, list_groups
from ottla.wire.messages.internal import consumer_protocol_assignment, consumer_protocol_subscription


def subscription(
    topics: Sequence[str], owned: Mapping[str, Sequence[int]] | None = None, user_data: bytes | None = None
) -> bytes:
    """The subscription that a classic consumer sends to the others: ConsumerProtocol, version 1."""
    parts = [consumer_protocol_subscription.TopicPartition(topic, list(p)) for topic, p in (owned or {}).items()]
    told = consumer_protocol_subscription.ConsumerProtocolSubscription(list(topics), user_data, parts)
    out: list[Any] = [pack(">h", 1)]
    consumer_protocol_subscription.ENCODE[1](told, out)
    return b"".join(bytes(part) for part in out)


def assignment(given: Mapping[str, Sequence[int]], user_data: bytes | None = None) -> bytes:
    parts = [consumer_protocol_assignment.TopicPartition(topic, list(p)) for topic, p in given.items()]
    out: list[Any] = [pack(">h", 1)]
    consumer_protocol_assignment.ENCODE[1](consumer_protocol_assignment.ConsumerProtocolAssignment(parts, user_data), out)
    return b"".join(bytes(part) for part in out)


class Classic(Member):
    """A classic consumer: its subscription is one, and so are its assignments."""

    def __init__(self, wire: Wire, group: str, name: str, topic: str, instance: str | None = None) -> None:
        super().__init__(wire, group, name, instance)
        self.topic = topic
        self.owned: list[int] = []

    def rejoin(self, version: int = 9, **changes: Any) -> Any:
        told = subscription([self.topic], {self.topic: self.owned} if self.owned else None)
        return self.enter_with([("range", told), ("roundrobin", told)], version, **changes)

    def enter_with(self, protocols: list[tuple[str, bytes]], version: int = 9, **changes: Any) -> Any:
        answer = self.join(version, protocols=protocols, **changes)
        return self.join(version, protocols=protocols, **changes) if answer.error_code == 79 else answer

    def found(self, partitions: Sequence[int]) -> None:
        """Be a stable group of one."""
        assert self.rejoin().error_code == 0
        assert self.sync({self.id: assignment({self.topic: partitions})}).error_code == 0
        self.owned = list(partitions)

    def take(self) -> Any:
        """Sync, and have what that brings."""
        answer = self.sync()
        if answer.error_code == 0:
            got, _ = consumer_protocol_assignment.DECODE[1](bytes(answer.assignment), 2)
            self.owned = [index for part in got.assigned_partitions for index in part.partitions]
            answer.assignment = sorted(self.owned)
        return answer


def listed(wire: Wire, group: str) -> list[Any]:
    return [each for each in wire.call(list_groups.ListGroupsRequest(), 5).groups if each.group_id == group]


def shown(wire: Wire, group: str) -> Any:
    return wire.call(describe_groups.DescribeGroupsRequest([group]), 6)


@same_answer("records of members that come and go")
def test_records_of_members_that_come_and_go(wire: Wire) -> Any:
    topic, group = topic_of_groups(wire, "t", 3), wire.name("g")
    first, second = Consumer(wire, group, "m1"), Consumer(wire, group, "m2", "i2")
    first.join([topic], rack_id="r1", server_assignor="range")
    second.join([topic])
    second.until(first.epoch + 1, topic_partitions=[])
    first.beat()
    first.until_assigned(1)
    second.until_assigned(2)
    second.leave(member_epoch=-2)
    first.leave()
    second.leave()
    return written(wire, group)


@same_answer("records of static members and expressions")
def test_records_of_static_members_and_expressions(wire: Wire) -> Any:
    topic_of_groups(wire, "t1", 2)
    group = wire.name("g")
    former, new = Consumer(wire, group, "m1", "i1"), Consumer(wire, group, "m2", "i1")
    former.join(None, subscribed_topic_regex=f"{wire.name('t')}[0-9]")
    former.until_assigned(2)
    former.leave(member_epoch=-2)
    new.join(None, subscribed_topic_regex=f"{wire.name('t')}[0-9]")
    new.beat(subscribed_topic_regex="", subscribed_topic_names=[])
    new.leave()
    return written(wire, group)


@same_answer("CGM1")
def test_a_classic_group_is_taken_along_and_left_behind(wire: Wire) -> Any:
    topic, group = topic_of_groups(wire, "t", 2), wire.name("g")
    old = Classic(wire, group, "c", topic)
    old.found([0, 1])
    new = Consumer(wire, group, "m")
    steps = [new.join([topic]), described(wire, group), listed(wire, group), shown(wire, group), old.heartbeat(), old.sync()]
    steps += [old.rejoin(), old.take(), old.heartbeat(), new.beat(), described(wire, group)]
    steps += [old.rejoin(), old.take(), old.heartbeat()]
    new.until_assigned(1)
    steps += [described(wire, group), old.heartbeat(generation_id=99), old.commit(topic), new.assigned]
    steps += [new.leave(), listed(wire, group), shown(wire, group), described(wire, group), old.heartbeat()]
    old.rejoin()
    old.sync({old.id: assignment({topic: [0, 1]})})
    return [len(steps), *[step for step in steps if not isinstance(step, dict)], old.heartbeat(), written(wire, group)]


@same_answer("CGM2")
def test_a_classic_member_joins_a_consumer_group(wire: Wire) -> Any:
    topic, group = topic_of_groups(wire, "t", 2), wire.name("g")
    new = Consumer(wire, group, "m")
    new.join([topic])
    old = Classic(wire, group, "c", topic)
    steps = [old.rejoin()]
    new.until(3, topic_partitions=[])
    steps += [described(wire, group), new.owning({}), old.heartbeat(), old.rejoin(), old.take(), old.heartbeat()]
    steps += [old.sync(protocol_name="sticky"), old.sync(protocol_type="connect"), old.sync(member_id="zzz")]
    steps += [old.heartbeat(member_id=new.id), old.heartbeat(generation_id=77), described(wire, group)]
    steps += [Classic(wire, group, "d", topic).enter_with([("sticky", subscription([topic]))])]
    return [*steps, old.leave(), old.heartbeat(), described(wire, group)]


@same_answer("CGM3")
def test_empty_groups_change_their_kind(wire: Wire) -> Any:
    topic, group, other = topic_of_groups(wire, "t", 2), wire.name("g"), wire.name("h")
    old, new = Classic(wire, group, "c", topic), Consumer(wire, group, "m")
    old.found([0, 1])
    old.leave()
    steps = [listed(wire, group), new.join([topic]), listed(wire, group), new.leave(), listed(wire, group)]
    again = Classic(wire, group, "e", topic)
    steps += [again.join(member_id="zzz"), again.rejoin().error_code, listed(wire, group)]
    lone = Classic(wire, other, "l", topic)
    lone.commit(topic)
    late = Consumer(wire, other, "m")
    return [*steps, listed(wire, other), late.join([topic]), listed(wire, other), written(wire, other)]


@same_answer("CGM4")
def test_groups_that_cannot_be_taken_along(wire: Wire) -> Any:
    topic = topic_of_groups(wire, "t")
    connect, unreadable, special = (Classic(wire, wire.name(stem), stem, topic) for stem in ("connect", "unreadable", "special"))
    connect.enter_with([("a", b"")], protocol_type="connect")
    connect.sync({connect.id: b""}, protocol_type="connect", protocol_name="a")
    unreadable.enter_with([("range", b"xx")])
    unreadable.sync({unreadable.id: b"yy"})
    special.rejoin()
    special.sync({special.id: assignment({topic: [0]}, b"mine")})
    joins = [Consumer(wire, each.group, "m").join([topic]) for each in (connect, unreadable, special)]
    return joins, [each.heartbeat() for each in (connect, unreadable, special)]


@same_answer("CGM5")
def test_a_static_member_changes_its_protocol(wire: Wire) -> Any:
    topic, group = topic_of_groups(wire, "t", 2), wire.name("g")
    old = Classic(wire, group, "c", topic, "i")
    old.found([0, 1])
    new = Consumer(wire, group, "m", "i")
    steps = [new.join([topic]), old.heartbeat(), described(wire, group), new.beat()]
    back = Classic(wire, group, "d", topic, "i")
    steps += [back.rejoin(), listed(wire, group), shown(wire, group), new.beat(), back.heartbeat(), back.take()]
    return [*steps, written(wire, group)]
