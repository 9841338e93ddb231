"""OffsetDelete: a group's committed offsets, forgotten or refused, and what OffsetFetch then finds."""

from __future__ import annotations

import struct
from typing import Any

from compat_tests.wire import Wire
from compat_tests.wire_diff.members import Member, stable
from compat_tests.wire_diff.same import same_answer
from compat_tests.wire_diff.test_offsets import fetched
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic

ONLY_VERSION = 0


def delete(wire: Wire, group: str, *topics: tuple[str, list[int]]) -> Any:
    asked = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(n) for n in indexes]) for name, indexes in topics]
    return wire.call(OffsetDeleteRequest(group, asked), ONLY_VERSION)


def subscription(*topics: str) -> bytes:
    """A consumer's, version 0, without user data."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def simple(wire: Wire, topic: str, partitions: int) -> str:
    """A group without members that has committed offsets."""
    group = wire.name("simple")
    member = Member(wire, group, "s")
    for index in range(partitions):
        member.commit(topic, partition=index)
    return group


@same_answer("OD3")
def test_offsets_that_exist_and_that_do_not(wire: Wire) -> Any:
    topic, other = wire.create("t", 3), wire.create("u")
    group = simple(wire, topic, 2)
    answers = [
        delete(wire, group, (topic, [0, 2, 9, -1]), ("no-such-topic", [0, 1]), ("", [0]), ("a b", [0]), (other, [])),
        delete(wire, group, (topic, [0])),
        delete(wire, group),
        delete(wire, group, ("__consumer_offsets", [0]), ("__cluster_metadata", [0])),
    ]
    return answers, fetched(wire, group, None), fetched(wire, group, {topic: [0, 1, 2]})


@same_answer("offsets that are deleted twice")
def test_duplicates(wire: Wire) -> Any:
    topic = wire.create("t", 3)
    group = simple(wire, topic, 3)
    return [
        delete(wire, group, (topic, [1, 1])),
        delete(wire, group, (topic, [1]), (topic, [2]), (topic, [1])),
        delete(wire, group, ("nope", [0, 0]), ("nope", [1]), (topic, [9, 9]), (topic, [2]), (topic, [2, 9])),
        fetched(wire, group, None),
    ]


@same_answer("OD2")
def test_groups_that_are_refused_whole(wire: Wire) -> Any:
    topic = wire.create("t")
    member = Member(wire, wire.name("connect"), "m")
    member.join(protocol_type="connect")
    member.join(protocol_type="connect")
    groups = [wire.name("nog"), "", "x" * 32767, wire.name("connect")]
    return [delete(wire, group, (topic, [0]), ("nope", [0])) for group in groups], delete(wire, groups[0])


@same_answer("OD1")
def test_a_consumer_group_keeps_what_it_reads(wire: Wire) -> Any:
    topic, other = wire.create("t", 2), wire.create("u")
    group = wire.name("g")
    member = Member(wire, group, "m1")
    protocols = [("range", subscription(topic))]

    def ask() -> Any:
        return delete(wire, group, (topic, [0, 0]), (other, [0]), ("nope", [1])), delete(wire, group, (topic, [0]), (topic, [1]))

    seen = [member.join(protocols=protocols), ask(), member.join(protocols=protocols), ask()]
    seen += [member.sync({member.id: b"A"}), member.commit(topic), member.commit(other), ask(), fetched(wire, group, None)]
    seen += [member.leave(), ask(), fetched(wire, group, None)]
    return seen


@same_answer("OD5")
def test_a_subscription_that_nobody_can_read(wire: Wire) -> Any:
    topic = wire.create("t")
    group = wire.name("g")
    stable(wire, group)
    return delete(wire, group, (topic, [0]))
