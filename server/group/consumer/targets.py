"""Makes the target assignments of consumer groups: at once in the heartbeat that finds one due, or in the background.

What an assignment takes grows with the subscriptions of all members, and one heartbeat may cause the assignment of a group whose
members read hundreds of thousands of topics together. So it is made in steps, out of a snapshot of the group (`Snapshot`). If
there is little to do, as for nearly all groups, the heartbeat takes all steps and writes the target along with what it changes
itself. Otherwise it is answered with the former target, the steps are taken in turns with everything else on the event loop
(server/base/turns.py), and the new target is written when it is made (`TargetJobs`). The members reach it by their next
heartbeats. That is what Kafka does with `group.consumer.assignor.offload.enable`, in a thread.

What happens to the group meanwhile makes another assignment due, because it changes the group's epoch; two things do not, and are
seen to when a target is written: a static member that came back under another id gets what its former self was to get, and a
member that left gets no record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from ottla.server.base.clock import Clock
from ottla.server.base.turns import Steps
from ottla.server.group.consumer import records
from ottla.server.group.consumer.group import ConsumerGroup, ResolvedRegex, topics_of
from ottla.server.group.consumer.member import ConsumerMember, member_order
from ottla.server.group.modern.assignor import (
    NOTHING_ASSIGNED,
    Assignment,
    Assignor,
    AssignorError,
    GroupAssignment,
    GroupSpec,
    MemberSpec,
    assignment_lookup,
)
from ottla.server.group.modern.jobs import GroupJobs
from ottla.server.group.modern.target import changed_targets
from ottla.server.group.modern.topics import Topics
from ottla.server.group.records import GroupRecord
from ottla.server.group.result import Result

logger = logging.getLogger("ottla.server.group")

AT_ONCE: Final = 2_000
"""A target is made at once if the topics of all members, counted for each member, and their partitions are no more than that."""


class Snapshot(NamedTuple):
    """The group that a target is made for, as it was when that began."""

    epoch: int
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

    def is_small(self, topics: Topics) -> bool:
        """Returns whether the target can be made at once (AT_ONCE)."""
        rest = AT_ONCE
        for names in self.subscriptions():
            rest -= len(names)
            if rest < 0:
                return False
        return topics.partitions_in(frozenset(chain.from_iterable(self.subscriptions()))) <= rest


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


class TargetJobs(GroupJobs):
    """Makes targets in the background. `run` writes a result for which no request waits."""

    def __init__(self, clock: Clock, topics: Topics, run: Callable[[Result[None]], None]) -> None:
        super().__init__(clock)
        self._topics = topics
        self._run = run

    def start(self, group: ConsumerGroup, assignor: Assignor) -> None:
        """Begins to make a target for the group's present epoch. None may be running for it."""
        former = dict(group.targets)
        snapshot = Snapshot(group.epoch, dict(group.members), former, former, dict(group.regexes))
        self.begin(group.group_id, self._make(group, snapshot, assignor))

    def _make(self, group: ConsumerGroup, snapshot: Snapshot, assignor: Assignor) -> Steps[None]:
        try:
            assigned = yield from assign(snapshot, self._topics, assignor)
        except AssignorError as error:
            logger.warning("group %s: no assignment could be made for epoch %d: %s", group.group_id, snapshot.epoch, error)
        else:
            made: dict[str, GroupRecord] = {}
            for member_id, target in changed_targets(snapshot.former, assigned, snapshot.members).items():
                made[member_id] = records.target(group.group_id, member_id, target)
                yield None
            if group.assignment_epoch < snapshot.epoch:  # else all members have left meanwhile
                self._run(Result(self._records(group, snapshot, assigned, made), None))
        if group.assignment_epoch < snapshot.epoch:
            group.assignment_failed_ms = self._clock.now_ms()

    def _records(
        self, group: ConsumerGroup, snapshot: Snapshot, assigned: GroupAssignment, made: Mapping[str, GroupRecord]
    ) -> list[GroupRecord]:
        """Returns the records of the target for the members that there are now. `made` are those that are made already."""
        written: list[GroupRecord] = []
        for member_id in member_order(snapshot.members):
            member = group.members.get(member_id) or group.static_member(snapshot.members[member_id].instance_id)
            target = assigned.get(member_id, NOTHING_ASSIGNED)
            if member is None or group.targets.get(member.member_id) == target:
                continue
            record = made.get(member_id) if member.member_id == member_id else None
            written.append(record or records.target(group.group_id, member.member_id, target))
        written.append(records.target_epoch(group.group_id, snapshot.epoch, self._clock.now_ms()))
        return written
