"""The assignor `range`: every subscriber gets a run of neighbouring partitions of each topic, in the order of the members.

Static members come first, by instance id, then the others by member id. So members that have the same topics with equally many
partitions get the same partition numbers in all of them (co-partitioning). What does not divide evenly goes to the first members.
It is not sticky: the last assignment plays no part.
"""

from __future__ import annotations

from ottla.server.base.turns import Steps
from ottla.server.group.modern.assignor import Assignment, GroupAssignment, GroupSpec, MemberSpec
from ottla.server.group.modern.java_order import string_key


class _Runs:
    """The partitions of one topic, split into runs of `quota` or one more for its subscribers, one after the other."""

    __slots__ = ("_extra", "_next", "_quota")

    def __init__(self, partitions: int, subscribers: int) -> None:
        self._quota, self._extra = divmod(partitions, subscribers)
        self._next = 0

    def take(self) -> frozenset[int]:
        start = self._next
        self._next += self._quota + (self._extra > 0)
        self._extra -= self._extra > 0
        return frozenset(range(start, self._next))


def assign(group: GroupSpec) -> Steps[GroupAssignment]:
    """Makes steps that compute the assignment (see the module's docstring). They raise AssignorError for topics that do not
    exist.
    """
    ordered = sorted(group.members.items(), key=_rank)
    subscribers: dict[bytes, int] = {}
    for _, member in ordered:
        for topic_id in member.topics:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
        yield None
    runs = {topic_id: _Runs(group.partitions_of(topic_id), count) for topic_id, count in subscribers.items()}
    yield None
    target: GroupAssignment = {}
    for member_id, member in ordered:
        target[member_id] = _take(member, runs)
        yield None
    return target


def _rank(member: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    member_id, spec = member
    return spec.instance_id is None, string_key(member_id if spec.instance_id is None else spec.instance_id)


def _take(member: MemberSpec, runs: dict[bytes, _Runs]) -> Assignment:
    taken = {topic_id: runs[topic_id].take() for topic_id in member.topics}
    return {topic_id: partitions for topic_id, partitions in taken.items() if partitions}
