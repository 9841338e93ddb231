"""Computes a streams group's target assignment, and the records of its changes.

The members are as they will be when this heartbeat is written, in the order in which Kafka iterates over them. As long as the
topology is not ready, the target is that no member has tasks.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.server.group.modern.java_order import hash_order, string_hash, timeline_map_order
from ottla.server.group.records import ProtocolRecord
from ottla.server.group.streams.assignor import MemberSpec, assign
from ottla.server.group.streams.group import StreamsGroup, TaskOffsets
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.records import target_epoch_record, target_record
from ottla.server.group.streams.streams_group_config import STANDBY_REPLICAS, AssignmentConfig, StreamsGroupConfig
from ottla.server.group.streams.tasks import NO_TASKS, Tasks
from ottla.server.group.streams.topology import ConfiguredTopology


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
) -> dict[str, Tasks]:
    """Returns every member's target, in the order in which records are written."""
    ids = hash_order(membership.members, string_hash)
    if not topology.is_ready:
        return dict.fromkeys(ids, NO_TASKS)
    specs = {
        member_id: MemberSpec(
            membership.members[member_id].process_id,
            membership.members[member_id].held.as_tasks(),
            task_offsets.get(member_id, TaskOffsets()).offsets,
        )
        for member_id in ids
    }
    return assign(specs, topology.specs(), standby_replicas)


def may_assign(group: StreamsGroup, interval_ms: int, now_ms: int) -> bool:
    """Returns whether the interval since the last assignment is over."""
    return group.assignment_timestamp_ms == 0 or interval_ms == 0 or now_ms >= group.assignment_timestamp_ms + interval_ms


def target_records(
    group_id: str, former: Mapping[str, Tasks], targets: Mapping[str, Tasks], epoch: int, now_ms: int
) -> list[ProtocolRecord]:
    """Returns the records of members whose target differs from the former one, and the one of the epoch."""
    changed = [
        target_record(group_id, member_id, tasks) for member_id, tasks in targets.items() if former.get(member_id) != tasks
    ]
    return [*changed, target_epoch_record(group_id, epoch, now_ms)]


def delayed_target(group: StreamsGroup, settings: StreamsGroupConfig, now_ms: int) -> list[ProtocolRecord]:
    """Returns the records of a group's first assignment, once its delay is over.

    There are none if all members have left, if no topology is known yet, or if the group has its assignment.
    """
    if group.is_empty or group.configured is None or group.epoch <= group.assignment_epoch:
        return []
    if not may_assign(group, settings.assignment_interval_ms(group.group_id), now_ms):
        return []
    membership = Membership(group)
    replicas = _recorded_replicas(group.metadata.assignment_configs, settings.assignment(group.group_id))
    targets = make_target(membership, group.configured, group.task_offsets, replicas)
    return target_records(group.group_id, membership.targets, targets, group.epoch, now_ms)


def _recorded_replicas(recorded: Mapping[str, str], now: AssignmentConfig) -> int:
    text = recorded.get(STANDBY_REPLICAS, "")
    return int(text) if text.isdecimal() else now.standby_replicas
