"""Makes the target assignments of consumer groups, in steps, out of a snapshot of the group (`Snapshot`). modern/target_jobs.py
says when these steps are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.server.base.turns import Steps
from ottla.server.group.consumer.group import ResolvedRegex, topics_of
from ottla.server.group.consumer.member import ConsumerMember, member_order
from ottla.server.group.modern.assignor import (
    NOTHING_ASSIGNED,
    Assignment,
    Assignor,
    GroupAssignment,
    GroupSpec,
    MemberSpec,
    assignment_lookup,
)
from ottla.server.group.modern.topics import Topics


class Snapshot(NamedTuple):
    """The group that a target is made for, as it was when that began."""

    members: Mapping[str, ConsumerMember]
    former: Mapping[str, Assignment]
    """The target of each member so far."""
    taken: Mapping[str, Assignment]
    """The whole target so far, also that of a static member that was replaced since."""
    regexes: Mapping[str, ResolvedRegex]

    def subscriptions(self) -> Iterator[frozenset[str]]:
        """Yields the names that the members subscribe to, some of them in two parts."""
        for member in self.members.values():
            yield member.topics
            if member.regex in self.regexes:
                yield self.regexes[member.regex].topics


def assign(group: Snapshot, topics: Topics, assignor: Assignor) -> Steps[GroupAssignment]:
    """Makes steps that return the assignment. They raise AssignorError if there can be none."""
    spec = yield from _spec(group, topics)
    return (yield from assignor(spec))


def _spec(group: Snapshot, topics: Topics) -> Steps[GroupSpec]:
    """Makes steps that return the group as an assignor gets it. Whether all subscriptions are the same is decided by the names in
    them, so that topics which do not exist count as well.
    """
    ids: dict[frozenset[str], list[bytes]] = {}  # members that subscribe to the same topics share their list
    specs: dict[str, MemberSpec] = {}
    for member_id in member_order(group.members):
        member = group.members[member_id]
        wanted = topics_of(member, group.regexes)
        if wanted not in ids:
            ids[wanted] = yield from topics.ids_in_hash_order(wanted)
        former = group.former.get(member_id, NOTHING_ASSIGNED)
        specs[member_id] = MemberSpec(ids[wanted], former, member.instance_id, member.rack_id)
        yield None
    counts: dict[bytes, int] = {}
    for listed in ids.values():
        counts.update(topics.partition_counts(listed))
        yield None
    regexes = {member.regex for member in group.members.values() if member.regex}
    named = any(member.topics for member in group.members.values())
    alike = len(regexes) == 1 and not named and all(member.regex for member in group.members.values())
    return GroupSpec(specs, counts, alike if regexes else len(ids) <= 1, assignment_lookup(group.taken))
