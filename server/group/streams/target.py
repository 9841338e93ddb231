"""Makes a streams group's target assignment and the records of its changes: at once in the heartbeat that finds one due, or in
the background.

The members are as they will be when this heartbeat is written, in the order in which Kafka iterates over them. As long as the
topology is not ready, the target is that no member has tasks.

The target of a group with few tasks is written along with what the heartbeat changes itself. That of a larger one is made in
turns with everything else on the event loop (server/base/turns.py), out of a snapshot (`Membership`), and is written as a whole
when it is made (`TargetJobs`). Until then members are led to the former one, and a status says that the assignment is delayed;
they reach the new one by their next heartbeats. What happens to the group meanwhile makes another assignment due, because it
changes the group's epoch; two things do not, and are seen to when a target is written: a static member that came back under
another id gets what its former self was to get, and a member that left gets no record.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ottla.server.base.turns import Steps
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.java_order import hash_order, string_hash, timeline_map_order
from ottla.server.group.modern.jobs import GroupJobs
from ottla.server.group.protocol import ShardContext
from ottla.server.group.records import ProtocolRecord
from ottla.server.group.result import Result
from ottla.server.group.streams.assignor import MemberSpec, assign
from ottla.server.group.streams.group import StreamsGroup, TaskOffsets
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.records import target_epoch_record, target_record, target_record_ahead
from ottla.server.group.streams.streams_group_config import STANDBY_REPLICAS, AssignmentConfig, StreamsGroupConfig
from ottla.server.group.streams.tasks import NO_TASKS, Tasks
from ottla.server.group.streams.topology import ConfiguredTopology

logger = logging.getLogger("ottla.server.group")

AT_ONCE: Final = 1_000
"""A target is made at once if its active and standby tasks, the members, and the offsets that they reported are no more than
that."""


class Membership:
    """A group's members and targets as they will be: with the heartbeat's member, and without the one that it replaces."""

    def __init__(self, group: StreamsGroup, updated: StreamsMember | None = None) -> None:
        self.members: dict[str, StreamsMember] = {name: group.members[name] for name in timeline_map_order(list(group.members))}
        self.targets: dict[str, Tasks] = dict(group.targets)
        if updated is None:
            return
        member_id = updated.member_id
        self.members[member_id] = updated
        replaced = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
        if replaced is not None and replaced != member_id:
            if replaced in self.targets:
                self.targets[member_id] = self.targets.pop(replaced)
            self.members.pop(replaced, None)


def make_target(
    membership: Membership, topology: ConfiguredTopology, task_offsets: Mapping[str, TaskOffsets], standby_replicas: int
) -> Steps[dict[str, Tasks]]:
    """Makes steps that return every member's target, in the order in which records are written."""
    ids = hash_order(membership.members, string_hash)
    if not topology.is_ready:
        return dict.fromkeys(ids, NO_TASKS)
    specs: dict[str, MemberSpec] = {}
    for member_id in ids:
        member = membership.members[member_id]
        offsets = task_offsets.get(member_id, TaskOffsets()).offsets
        specs[member_id] = MemberSpec(member.process_id, member.held.as_tasks(), offsets)
        yield None
    return (yield from assign(specs, topology.specs(), standby_replicas))


def is_small(group: StreamsGroup, topology: ConfiguredTopology, standby_replicas: int) -> bool:
    """Returns whether the target can be made at once (AT_ONCE)."""
    if not topology.is_ready:
        return len(group.members) <= AT_ONCE
    copies = sum(spec.tasks * (1 + spec.stateful * standby_replicas) for spec in topology.specs().values())
    if copies + len(group.members) > AT_ONCE:
        return False
    return copies + len(group.members) + sum(known.number for known in group.task_offsets.values()) <= AT_ONCE


def may_assign(group: StreamsGroup, interval_ms: int, now_ms: int) -> bool:
    """Returns whether the interval since the last assignment, or since one failed, is over."""
    last_ms = max(group.assignment_timestamp_ms, group.assignment_failed_ms)
    return last_ms == 0 or interval_ms == 0 or now_ms >= last_ms + interval_ms


def target_records(
    group_id: str, former: Mapping[str, Tasks], targets: Mapping[str, Tasks], epoch: int, now_ms: int
) -> list[ProtocolRecord]:
    """Returns the records of members whose target differs from the former one, and the one of the epoch."""
    changed = [
        target_record(group_id, member_id, tasks) for member_id, tasks in targets.items() if former.get(member_id) != tasks
    ]
    return [*changed, target_epoch_record(group_id, epoch, now_ms)]


class TargetJobs(GroupJobs):
    """Makes targets in the background."""

    def __init__(self, shard: ShardContext, settings: StreamsGroupConfig) -> None:
        super().__init__(shard.clock)
        self._shard = shard
        self._settings = settings

    def start(self, group: StreamsGroup, topology: ConfiguredTopology, standby_replicas: int) -> None:
        """Begins to make a target for the group's present epoch. None may be running for it."""
        made = make_target(membership := Membership(group), topology, dict(group.task_offsets), standby_replicas)
        self.begin(group.group_id, self._make(group, group.epoch, membership, made))

    def start_delayed(self, group: StreamsGroup) -> None:
        """Does the same for a group's first assignment, once its delay is over.

        There is none if all members have left, if no topology is known yet, or if the group has its assignment.
        """
        if group.is_empty or group.configured is None or group.epoch <= group.assignment_epoch:
            return
        interval_ms = self._settings.assignment_interval_ms(group.group_id)
        if may_assign(group, interval_ms, self._shard.clock.now_ms()) and not self.is_running(group.group_id):
            now = self._settings.assignment(group.group_id)
            self.start(group, group.configured, _recorded_replicas(group.metadata.assignment_configs, now))

    def _make(self, group: StreamsGroup, epoch: int, membership: Membership, making: Steps[dict[str, Tasks]]) -> Steps[None]:
        targets = yield from making
        ready: dict[str, ProtocolRecord] = {}
        for member_id, tasks in targets.items():
            if membership.targets.get(member_id) != tasks:
                ready[member_id] = target_record_ahead(group.group_id, member_id, tasks, self._shard.clock.now_ms())
            yield None
        if group.assignment_epoch >= epoch:  # all members have left meanwhile
            return
        try:
            self._shard.run(Result(self._records(group, epoch, membership, targets, ready), None))
        except GroupError as error:
            group.assignment_failed_ms = self._shard.clock.now_ms()
            logger.warning("group %s: cannot write the assignment of epoch %d: %s", group.group_id, epoch, error)

    def _records(
        self,
        group: StreamsGroup,
        epoch: int,
        membership: Membership,
        targets: Mapping[str, Tasks],
        ready: Mapping[str, ProtocolRecord],
    ) -> list[ProtocolRecord]:
        """Returns the records of the target for the members that there are now. `ready` are those that were made of what the
        members had when that began.
        """
        now_ms = self._shard.clock.now_ms()
        written: list[ProtocolRecord] = []
        for member_id, tasks in targets.items():
            member = group.members.get(member_id)
            if member is None:
                instance_id = membership.members[member_id].instance_id
                member = None if instance_id is None else group.static_member(instance_id)
            if member is None:
                continue
            former = group.targets.get(member.member_id)
            if member.member_id == member_id and former is membership.targets.get(member_id):
                written += [ready[member_id]] if member_id in ready else []
            elif former != tasks:
                written.append(target_record(group.group_id, member.member_id, tasks))
        return [*written, target_epoch_record(group.group_id, epoch, now_ms)]


def _recorded_replicas(recorded: Mapping[str, str], now: AssignmentConfig) -> int:
    text = recorded.get(STANDBY_REPLICAS, "")
    return int(text) if text.isdecimal() else now.standby_replicas
