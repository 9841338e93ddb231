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
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.group.modern.assignor import AssignorError
from ottla.server.group.modern.group import ModernMember
from ottla.server.group.modern.java_order import hash_order, string_hash
from ottla.server.group.modern.topics import Topics
from ottla.server.group.protocol import ShardContext
from ottla.server.group.records import GroupRecord, encode_ahead
from ottla.server.group.result import Result

logger = logging.getLogger("ottla.server.group")

T = TypeVar("T")

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


class Targeted(Protocol[T]):
    """A group as its targets are made."""

    group_id: str
    assignment_epoch: int
    assignment_failed_ms: int
    targets: dict[str, T]

    @property
    def epoch(self) -> int: ...

    def present(self, member: Any) -> Any:
        """Returns the member that is there now in place of one that was there before, or None if it left."""


class TargetJobs(Generic[T]):
    """Makes targets in the background, at most one at a time for each group. `nothing` is that of a member that gets nothing, and
    the other two make the record of a member's target and that of the epoch that the target is of."""

    def __init__(
        self,
        shard: ShardContext,
        nothing: T,
        target_record: Callable[[str, str, T], GroupRecord],
        epoch_record: Callable[[str, int, int], GroupRecord],
    ) -> None:
        self._shard = shard
        self._nothing = nothing
        self._target_record = target_record
        self._epoch_record = epoch_record
        self._jobs: dict[str, Promise[None]] = {}

    def is_running(self, group_id: str) -> bool:
        return group_id in self._jobs

    def start(self, group: Targeted[T], members: Mapping[str, ModernMember], assigned: Steps[Mapping[str, T]]) -> None:
        """Begins to make a target for the group's present epoch, of what the steps return for the members that there are, unless
        one is being made: of two who find that none is, the other one may be the first to get here. Takes all steps now if they
        are few."""
        group_id = group.group_id
        if self.is_running(group_id):
            return
        job = take_steps(self._make(group, group.epoch, members, dict(group.targets), assigned), self._shard.clock)
        if isinstance(job, Promise):
            self._jobs[group_id] = job
            job.add_done_callback(lambda done: self._ended(group_id, done))

    def drop(self, group_id: str) -> None:
        """Makes no target any more for a group that was removed or went to another broker."""
        job = self._jobs.get(group_id)
        if job is not None:
            job.cancel()

    def _ended(self, group_id: str, job: Promise[None]) -> None:
        del self._jobs[group_id]
        if not job.cancelled():
            job.result()  # raises what nobody expected

    def _make(
        self,
        group: Targeted[T],
        epoch: int,
        members: Mapping[str, ModernMember],
        former: Mapping[str, T],
        steps: Steps[Mapping[str, T]],
    ) -> Steps[None]:
        now_ms = self._shard.clock.now_ms
        try:
            assigned = yield from steps
        except AssignorError as error:
            logger.warning("group %s: no assignment could be made for epoch %d: %s", group.group_id, epoch, error)
        else:
            targets = {member_id: assigned.get(member_id, self._nothing) for member_id in hash_order(members, string_hash)}
            made: dict[str, GroupRecord] = {}
            for member_id, target in targets.items():
                if former.get(member_id) != target:
                    made[member_id] = encode_ahead(self._target_record(group.group_id, member_id, target), now_ms())
                yield None
            if group.assignment_epoch < epoch:  # else all members have left meanwhile
                self._shard.run_timer(Result(self._written(group, epoch, members, targets, made), None))
        if group.assignment_epoch < epoch:
            group.assignment_failed_ms = now_ms()

    def _written(
        self,
        group: Targeted[T],
        epoch: int,
        members: Mapping[str, ModernMember],
        targets: Mapping[str, T],
        made: Mapping[str, GroupRecord],
    ) -> list[GroupRecord]:
        """Returns the records of the target for the members that there are now. `made` are those that are made already."""
        written: list[GroupRecord] = []
        for member_id, target in targets.items():
            member = group.present(members[member_id])
            if member is None or group.targets.get(member.member_id) == target:
                continue
            record = made.get(member_id) if member.member_id == member_id else None
            written.append(record or self._target_record(group.group_id, member.member_id, target))
        written.append(self._epoch_record(group.group_id, epoch, self._shard.clock.now_ms()))
        return written
