"""What happens to a streams group besides heartbeats: members go, and the first assignment comes when its delay is over."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.server.group.records import GroupRecord
from ottla.server.group.streams import records
from ottla.server.group.streams.group import StreamsGroup
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.settings import STANDBY_REPLICAS, AssignmentSettings, StreamsSettings
from ottla.server.group.streams.target import Roll, make_target, may_assign, target_records


def delayed_records(group: StreamsGroup, settings: StreamsSettings, now_ms: int) -> list[GroupRecord]:
    """The first assignment of a group, once its delay is over; none where everybody left, or no topology is known yet."""
    if group.is_empty or group.configured is None or group.epoch <= group.assignment_epoch:
        return []
    if not may_assign(group, settings.assignment_interval_ms(group.group_id), now_ms):
        return []
    roll = Roll(group)
    replicas = _recorded_replicas(group.metadata.assignment_configs, settings.assignment(group.group_id))
    targets = make_target(roll, group.configured, group.task_offsets, replicas)
    return [*target_records(group.group_id, roll.targets, targets, group.epoch, now_ms)]


def leave_records(group: StreamsGroup, member: StreamsMember) -> list[GroupRecord]:
    """A member is gone for good: the others share its tasks with their next heartbeats."""
    gone: list[GroupRecord] = [*records.member_tombstones(group.group_id, member.member_id)]
    gone.append(records.metadata_record(group.group_id, group.metadata._replace(epoch=group.epoch + 1)))
    if len(group.members) == 1:
        gone.append(records.target_epoch_record(group.group_id, group.epoch + 1, 0))
    return gone


def _recorded_replicas(recorded: Mapping[str, str], now: AssignmentSettings) -> int:
    text = recorded.get(STANDBY_REPLICAS, "")
    return int(text) if text.isdecimal() else now.standby_replicas
