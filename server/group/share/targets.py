"""Makes the target assignments of share groups, in steps, out of a snapshot of the group (`Snapshot`). modern/target_jobs.py
says when these steps are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.server.base.turns import Steps
from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignment, GroupAssignment, GroupSpec, MemberSpec
from ottla.server.group.modern.java_order import hash_order, string_hash
from ottla.server.group.modern.topics import Topics
from ottla.server.group.share import assignor
from ottla.server.group.share.member import ShareMember
from ottla.server.group.share.state_partitions import ByTopic


class Snapshot(NamedTuple):
    """The group that a target is made for, as it was when that began."""

    members: Mapping[str, ShareMember]
    former: Mapping[str, Assignment]
    """The target of each member so far."""
    initialized: ByTopic
    """The partitions that have state: only these are assigned."""

    def subscriptions(self) -> Iterator[frozenset[str]]:
        """Yields the names that the members subscribe to."""
        return (member.topics for member in self.members.values())


def assign(group: Snapshot, topics: Topics) -> Steps[GroupAssignment]:
    """Makes steps that return the assignment. They raise AssignorError if there can be none."""
    ids: dict[frozenset[str], list[bytes]] = {}  # members that subscribe to the same topics share their list
    specs: dict[str, MemberSpec] = {}
    for member_id in hash_order(group.members, string_hash):
        wanted = group.members[member_id].topics
        if wanted not in ids:
            ids[wanted] = yield from topics.ids_in_hash_order(wanted)
        specs[member_id] = MemberSpec(ids[wanted], group.former.get(member_id, NOTHING_ASSIGNED))
        yield None
    counts: dict[bytes, int] = {}
    for listed in ids.values():
        counts.update(topics.partition_counts(listed))
        yield None
    initialized = {topic_id: topic.partitions for topic_id, topic in group.initialized.items()}
    spec = GroupSpec(specs, counts, len(ids) <= 1, lambda topic_id, partition: False)
    return (yield from assignor.assign(spec, initialized))
