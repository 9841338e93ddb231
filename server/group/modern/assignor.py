"""The contract of server-side assignors: what they are given and what they return.

A partition is a topic id (16 bytes) and an index. An assignment is `{topic id: partitions}` without empty sets. A GroupSpec has
the members of the group, in order, and the partitions to assign; an assignor returns an assignment for every member that gets
one. Those of consumer groups work in steps, since that may take long. An assignor changes nothing that it was given, and depends
on neither clock nor network: the same GroupSpec leads to the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.server.base.turns import Steps

Assignment = Mapping[bytes, frozenset[int]]
"""An assignment: the partitions by topic id, none of them empty. It is never changed once it is made."""

NOTHING_ASSIGNED: Final[Assignment] = {}


class AssignorError(Exception):
    """No assignment can be made, for example because a topic does not exist."""


@dataclass(slots=True, frozen=True)
class MemberSpec:
    """One member as an assignor sees it: its subscription, and its assignment in the last target."""

    topics: Collection[bytes]
    """The ids of subscribed topics that exist, each once, in Kafka's order."""
    assignment: Assignment = field(default_factory=dict)
    instance_id: str | None = None
    rack_id: str | None = None


@dataclass(slots=True, frozen=True)
class GroupSpec:
    """A group as an assignor sees it."""

    members: Mapping[str, MemberSpec]
    """The members by member id, in Kafka's order (java_order.py): earlier members are served first."""
    partition_counts: Mapping[bytes, int]
    """The number of partitions of each subscribed topic."""
    homogeneous: bool
    """True if all members have the same subscription."""
    is_assigned: Callable[[bytes, int], bool]
    """True if the last target assigns a partition to any member, including one that has left and was replaced since."""

    def partitions_of(self, topic_id: bytes) -> int:
        """Returns the number of partitions of a topic. Raises AssignorError for one that does not exist."""
        count = self.partition_counts.get(topic_id)
        if count is None:
            raise AssignorError(f"members are subscribed to a topic that does not exist: {topic_id.hex()}")
        return count


GroupAssignment = dict[str, Assignment]
Assignor = Callable[[GroupSpec], Steps[GroupAssignment]]
"""A function that makes steps which compute a group's assignment. They raise AssignorError if none can be made."""


def assignment_lookup(assignments: Mapping[str, Assignment]) -> Callable[[bytes, int], bool]:
    """Returns the `is_assigned` of a GroupSpec: a function that looks partitions up in the assignments of the last target."""
    taken: dict[bytes, set[int]] = {}
    for assignment in assignments.values():
        for topic_id, partitions in assignment.items():
            taken.setdefault(topic_id, set()).update(partitions)
    return lambda topic_id, partition: partition in taken.get(topic_id, ())
