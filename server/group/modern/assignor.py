"""What a server-side assignor is given, and what it gives back.

A partition is known by its topic's id (16 bytes) and its index. An assignment is `{topic id: partitions}` without empty sets. Who
is in the group, in which order, and what there is to share out comes in a GroupSpec; the answer is an assignment for every member
that gets one. An assignor changes nothing that it was given, and knows neither clock nor network: same question, same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

Assignment = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions, none of them empty. Never changed once it is made."""

NOTHING_ASSIGNED: Final[Assignment] = {}


class AssignorError(Exception):
    """No assignment can be made of this, such as topics that do not exist."""


@dataclass(slots=True, frozen=True)
class MemberSpec:
    """One member as an assignor sees it: what it wants and what the last target gave it."""

    topics: Collection[bytes]
    """Ids of subscribed topics that exist, each once, in Kafka's order."""
    assignment: Assignment = field(default_factory=dict)
    instance_id: str | None = None
    rack_id: str | None = None


@dataclass(slots=True, frozen=True)
class GroupSpec:
    """A group as an assignor sees it."""

    members: Mapping[str, MemberSpec]
    """By member id, in Kafka's order (java_order.py): earlier members are served first."""
    partition_counts: Mapping[bytes, int]
    """Of all topics that anybody subscribed to."""
    homogeneous: bool
    """All members have the same subscription."""
    is_assigned: Callable[[bytes, int], bool]
    """Whether the last target gives a partition to somebody, be it one who has left meanwhile and whose place is taken."""

    def partitions_of(self, topic_id: bytes) -> int:
        """AssignorError for a topic that does not exist."""
        count = self.partition_counts.get(topic_id)
        if count is None:
            raise AssignorError(f"members are subscribed to a topic that does not exist: {topic_id.hex()}")
        return count


GroupAssignment = dict[str, Assignment]
Assignor = Callable[[GroupSpec], GroupAssignment]
"""AssignorError: no assignment can be made."""


def inverted(assignments: Mapping[str, Assignment]) -> Callable[[bytes, int], bool]:
    """`is_assigned` of a GroupSpec, of the last target."""
    taken: dict[bytes, set[int]] = {}
    for assignment in assignments.values():
        for topic_id, partitions in assignment.items():
            taken.setdefault(topic_id, set()).update(partitions)
    return lambda topic_id, partition: partition in taken.get(topic_id, ())


def is_homogeneous(members: Mapping[str, Collection[object]]) -> bool:
    """Whether all members name the same topics, by subscription: each topic has as many subscribers as there are members."""
    subscribers: dict[object, int] = {}
    for topics in members.values():
        for topic in topics:
            subscribers[topic] = subscribers.get(topic, 0) + 1
    return all(count == len(members) for count in subscribers.values())
