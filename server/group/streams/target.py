"""Works out a streams group's target assignment, and the records that say what of it is new.

The members come as they are going to be when this heartbeat is written, in the order in which Kafka sees them. As long as the
topology is not ready nobody is assigned anything, which is a target too.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.server.group.modern.java_order import hash_order, string_hash, timeline_map_order
from ottla.server.group.records import ProtocolRecord
from ottla.server.group.streams.assignor import MemberSpec, assign
from ottla.server.group.streams.group import StreamsGroup, TaskOffsets
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.records import target_epoch_record, target_record
from ottla.server.group.streams.tasks import NO_TASKS, Tasks
from ottla.server.group.streams.topology import ConfiguredTopology


class Roll:
    """A group's members and targets as they are going to be: with the heartbeat's member, in place of the one it replaces."""

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
    roll: Roll, topology: ConfiguredTopology, task_offsets: Mapping[str, TaskOffsets], standby_replicas: int
) -> dict[str, Tasks]:
    """Every member's target, in the order in which records are written."""
    ids = hash_order(roll.members, string_hash)
    if not topology.is_ready:
        return dict.fromkeys(ids, NO_TASKS)
    specs = {
        member_id: MemberSpec(
            roll.members[member_id].process_id,
            roll.members[member_id].held.as_tasks(),
            task_offsets.get(member_id, TaskOffsets()).offsets,
        )
        for member_id in ids
    }
    return assign(specs, topology.specs(), standby_replicas)


def may_assign(group: StreamsGroup, interval_ms: int, now_ms: int) -> bool:
    """Has the least time between two assignments passed since the last one?"""
    return group.assignment_timestamp_ms == 0 or interval_ms == 0 or now_ms >= group.assignment_timestamp_ms + interval_ms


def target_records(
    group_id: str, former: Mapping[str, Tasks], targets: Mapping[str, Tasks], epoch: int, now_ms: int
) -> list[ProtocolRecord]:
    """Those of members whose target is another one, and the epoch's."""
    changed = [
        target_record(group_id, member_id, tasks) for member_id, tasks in targets.items() if former.get(member_id) != tasks
    ]
    return [*changed, target_epoch_record(group_id, epoch, now_ms)]
