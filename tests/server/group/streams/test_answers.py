"""These tests cover how much work the endpoints in an answer are; what they are is in test_protocol.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.server.base.turns import at_once
from ottla.server.group.streams import answers
from ottla.server.group.streams.member import Endpoint, StreamsMember
from ottla.server.group.streams.tasks import HeldTasks
from ottla.server.group.streams.topology import ConfiguredSubtopology, ConfiguredTopology
from ottla.wire.messages.streams_group_heartbeat import EndpointToPartitions
from tests.server.group.streams.support import topic

NARROW, WIDE = 50, 60


class Group:
    """A group with a subtopology that reads many topics of one partition and, between them, one of many."""

    def __init__(self, *members: StreamsMember) -> None:
        self.members = {member.member_id: member for member in members}
        names = [f"n{number}" for number in range(NARROW)]
        names.insert(NARROW // 2, "wide")
        self.topology = ConfiguredTopology(0, {"0": ConfiguredSubtopology(WIDE, names, {}, (), {})}, {}, None)
        topics = {name: topic(name, WIDE if name == "wide" else 1) for name in names}
        self.cluster: Any = SimpleNamespace(topics=topics)

    def endpoints(self, updated: StreamsMember) -> Any:
        group: Any = self
        return answers.endpoints(group, updated, None, self.topology, self.cluster)


def holder(name: str, partitions: range) -> StreamsMember:
    held = HeldTasks({"0": dict.fromkeys(reversed(partitions), 3)})
    return StreamsMember(name, endpoint=Endpoint(name, 1), held=held)


def listed(each: EndpointToPartitions) -> dict[str, list[int]]:
    assert each.user_endpoint is not None
    return {found.topic: found.partitions for found in each.active_partitions}


def test_topics_come_in_the_order_of_the_topology_with_the_partitions_that_they_have() -> None:
    member = holder("m", range(WIDE))
    (found,) = at_once(Group(member).endpoints(member))
    assert [each.topic for each in found.active_partitions][24:27] == ["n24", "wide", "n25"]
    assert listed(found) == {f"n{number}": [0] for number in range(NARROW)} | {"wide": list(range(WIDE))}
    assert found.standby_partitions == []


def test_topics_without_any_of_the_partitions_are_not_looked_at() -> None:
    members = [holder(f"m{number}", range(number, number + 1)) for number in range(1, WIDE)]
    steps = Group(*members).endpoints(members[0])
    pauses = sum(1 for _ in steps)
    assert pauses == 2 * len(members), "a member, and its one topic"


def test_others_come_between_two_topics_and_the_members_are_those_of_the_heartbeat() -> None:
    member = holder("m", range(WIDE))
    group = Group(member, holder("other", range(1)))
    steps = group.endpoints(member)
    group.members.clear()
    for _ in range(2 * (NARROW + 1) + 2):
        assert next(steps) is None
    assert [each.user_endpoint.host for each in at_once(steps)] == ["other", "m"]
