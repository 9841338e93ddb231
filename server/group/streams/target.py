"""Makes a streams group's target assignment and the records of its changes: at once in the heartbeat that finds one due, or in
the background.

The members are as they will be when this heartbeat is written, in the order in which Kafka iterates over them. As long as the
topology is not ready, the target is that no member has tasks.

The target of a group with few tasks is written along with what the heartbeat changes itself. That of a larger one is made in the
background out of a snapshot (`Membership`), as those of other groups are (modern/target_jobs.py). Until then members are led to
the former one, and a status says that the assignment is delayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.server.base.turns import Steps
from ottla.server.group.modern.java_order import hash_order, string_hash, timeline_map_order
from ottla.server.group.modern.target_jobs import TargetJobs
from ottla.server.group.protocol import ShardContext
from ottla.server.group.records import ProtocolRecord
from ottla.server.group.streams.assignor import MemberSpec, assign
from ottla.server.group.streams.group import StreamsGroup, TaskOffsets
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.records import target_epoch_record, target_record, target_record_ahead
from ottla.server.group.streams.streams_group_config import STANDBY_REPLICAS, AssignmentConfig, StreamsGroupConfig
from ottla.server.group.streams.tasks import NO_TASKS, Tasks
from ottla.server.group.streams.topology import ConfiguredTopology

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
    return interval_ms == 0 or not group.is_early(now_ms, interval_ms)


def target_records(
    group_id: str, former: Mapping[str, Tasks], targets: Mapping[str, Tasks], epoch: int, now_ms: int
) -> list[ProtocolRecord]:
    """Returns the records of members whose target differs from the former one, and the one of the epoch."""
    changed = [
        target_record(group_id, member_id, tasks) for member_id, tasks in targets.items() if former.get(member_id) != tasks
    ]
    return [*changed, target_epoch_record(group_id, epoch, now_ms)]


class StreamsTargetJobs(TargetJobs[Tasks]):
    """Makes targets in the background."""

    def __init__(self, shard: ShardContext, settings: StreamsGroupConfig) -> None:
        super().__init__(shard, NO_TASKS, self._record_ahead, target_epoch_record)
        self._settings = settings

    def _record_ahead(self, group_id: str, member_id: str, tasks: Tasks) -> ProtocolRecord:
        return target_record_ahead(group_id, member_id, tasks, self._shard.clock.now_ms())

    def start_with(self, group: StreamsGroup, topology: ConfiguredTopology, standby_replicas: int) -> None:
        """Begins to make a target for the group's present epoch, unless one is being made."""
        membership = Membership(group)
        made = make_target(membership, topology, dict(group.task_offsets), standby_replicas)
        self.start(group, membership.members, made)

    def start_delayed(self, group: StreamsGroup) -> None:
        """Does the same for a group's first assignment, once its delay is over.

        There is none if all members have left, if no topology is known yet, or if the group has its assignment.
        """
        if group.is_empty or group.configured is None or group.epoch <= group.assignment_epoch:
            return
        interval_ms = self._settings.assignment_interval_ms(group.group_id)
        if may_assign(group, interval_ms, self._shard.clock.now_ms()):
            now = self._settings.assignment(group.group_id)
            self.start_with(group, group.configured, _recorded_replicas(group.metadata.assignment_configs, now))


def _recorded_replicas(recorded: Mapping[str, str], now: AssignmentConfig) -> int:
    text = recorded.get(STANDBY_REPLICAS, "")
    return int(text) if text.isdecimal() else now.standby_replicas
