"""Makes the target assignments of large groups in the background.

What an assignment takes grows with the subscriptions of all members, and one heartbeat may cause the assignment of a group whose
members read hundreds of thousands of topics together. So it is made in steps, out of what the group was when they began. If there
is little to do (`is_small`), as for nearly all groups, the heartbeat takes all steps and writes the target along with what it
changes itself. Otherwise it is answered with the former target, the steps are taken in turns with everything else on the event
loop (server/base/turns.py), and the new target is written when it is made (`TargetJobs`). The members reach it by their next
heartbeats. That is what Kafka does with `group.consumer.assignor.offload.enable` and its twin for share groups, in a thread.

What happens to the group meanwhile makes another assignment due, because it changes the group's epoch; two things do not, and are
seen to when a target is written: a static member that came back under another id gets what its former self was to get, and a
member that left gets no record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from ottla.server.base.turns import Steps
from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignment, AssignorError, GroupAssignment
from ottla.server.group.modern.group import ModernMember, SubscribedGroup
from ottla.server.group.modern.java_order import hash_order, string_hash
from ottla.server.group.modern.jobs import GroupJobs
from ottla.server.group.modern.target import changed_targets
from ottla.server.group.modern.topics import Topics
from ottla.server.group.protocol import ShardContext
from ottla.server.group.records import GroupRecord, ProtocolRecord, encode_ahead
from ottla.server.group.result import Result

logger = logging.getLogger("ottla.server.group")

M = TypeVar("M", bound=ModernMember)

AT_ONCE: Final = 2_000
"""A target is made at once if the topics of all members, counted for each member, and their partitions are no more than that."""


def is_small(subscriptions: Iterable[frozenset[str]], topics: Topics) -> bool:
    """Returns whether a target can be made at once (AT_ONCE). `subscriptions` are the names that the members subscribe to."""
    rest = AT_ONCE
    seen: set[str] = set()
    for names in subscriptions:
        rest -= len(names)
        if rest < 0:
            return False
        seen |= names
    return topics.partitions_in(seen) <= rest


class TargetRecords(Protocol):
    """Makes the records of targets: the module records.py of a kind of groups."""

    def target(self, group_id: str, member_id: str, assignment: Assignment) -> ProtocolRecord: ...

    def target_epoch(self, group_id: str, assignment_epoch: int, timestamp_ms: int) -> ProtocolRecord: ...


class TargetJobs(GroupJobs):
    """Makes targets in the background."""

    def __init__(self, shard: ShardContext, records: TargetRecords) -> None:
        super().__init__(shard.clock)
        self._shard = shard
        self._records = records

    def start(self, group: SubscribedGroup[M], members: Mapping[str, M], assigned: Steps[GroupAssignment]) -> None:
        """Begins to make a target for the group's present epoch, of what the steps return for the members that there are, unless
        one is being made: of two who find that none is, the other one may be the first to get here."""
        if not self.is_running(group.group_id):
            self.begin(group.group_id, self._make(group, group.epoch, members, dict(group.targets), assigned))

    def _make(
        self,
        group: SubscribedGroup[M],
        epoch: int,
        members: Mapping[str, M],
        former: Mapping[str, Assignment],
        steps: Steps[GroupAssignment],
    ) -> Steps[None]:
        now_ms = self._shard.clock.now_ms
        try:
            assigned = yield from steps
        except AssignorError as error:
            logger.warning("group %s: no assignment could be made for epoch %d: %s", group.group_id, epoch, error)
        else:
            made: dict[str, GroupRecord] = {}
            for member_id, target in changed_targets(former, assigned, members).items():
                made[member_id] = encode_ahead(self._records.target(group.group_id, member_id, target), now_ms())
                yield None
            if group.assignment_epoch < epoch:  # else all members have left meanwhile
                self._shard.run_timer(Result(self._written(group, epoch, members, assigned, made), None))
        if group.assignment_epoch < epoch:
            group.assignment_failed_ms = now_ms()

    def _written(
        self,
        group: SubscribedGroup[M],
        epoch: int,
        members: Mapping[str, M],
        assigned: GroupAssignment,
        made: Mapping[str, GroupRecord],
    ) -> list[GroupRecord]:
        """Returns the records of the target for the members that there are now. `made` are those that are made already."""
        written: list[GroupRecord] = []
        for member_id in hash_order(members, string_hash):
            member: Any = group.present(members[member_id])
            target = assigned.get(member_id, NOTHING_ASSIGNED)
            if member is None or group.targets.get(member.member_id) == target:
                continue
            record = made.get(member_id) if member.member_id == member_id else None
            written.append(record or self._records.target(group.group_id, member.member_id, target))
        written.append(self._records.target_epoch(group.group_id, epoch, self._shard.clock.now_ms()))
        return written
