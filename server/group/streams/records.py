"""Creates the records of a streams group in `__consumer_offsets`, and reads those that are not a member's (member.py reads
these), by their api keys.

    17 metadata               the group epoch, hash of its topics, validated topology epoch, and settings of the last assignment
    23 topology               the subtopologies and their topics, as the first member sent them
    19 member                 a member's ids, client and process
    20, 21 target assignment  its epoch, and each member's tasks
    22 current assignment     a member's epoch and state, the tasks that it holds and those it has to give up

A record without a value is a tombstone. Lists are sorted (partitions, subtopologies, tags), as Kafka 4.4 writes most of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.server.group.records import ProtocolRecord, encode_record
from ottla.server.group.streams.member import StreamsMember
from ottla.server.group.streams.tasks import NONE, ActiveTasks, TaskIds, Tasks
from ottla.wire.messages.internal import (
    streams_group_current_member_assignment_value as current_value,
)
from ottla.wire.messages.internal import (
    streams_group_member_metadata_value as member_value,
)
from ottla.wire.messages.internal import (
    streams_group_target_assignment_member_value as target_value,
)
from ottla.wire.messages.internal.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from ottla.wire.messages.internal.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from ottla.wire.messages.internal.streams_group_metadata_key import StreamsGroupMetadataKey
from ottla.wire.messages.internal.streams_group_metadata_value import LastAssignmentConfig, StreamsGroupMetadataValue
from ottla.wire.messages.internal.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from ottla.wire.messages.internal.streams_group_target_assignment_metadata_key import StreamsGroupTargetAssignmentMetadataKey
from ottla.wire.messages.internal.streams_group_target_assignment_metadata_value import StreamsGroupTargetAssignmentMetadataValue
from ottla.wire.messages.internal.streams_group_topology_key import StreamsGroupTopologyKey
from ottla.wire.messages.internal.streams_group_topology_value import StreamsGroupTopologyValue
from ottla.wire.primitives import WireStruct


class GroupMetadata(NamedTuple):
    """The content of the group's own record. The description epochs belong to KIP-1331, which needs a plugin; they are -1, since
    nothing is stored.
    """

    epoch: int = 1
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    assignment_configs: Mapping[str, str] = NONE
    stored_description_epoch: int = -1
    failed_description_epoch: int = -1


# To records


def metadata_record(group_id: str, metadata: GroupMetadata) -> ProtocolRecord:
    return ProtocolRecord(
        StreamsGroupMetadataKey(group_id),
        StreamsGroupMetadataValue(
            metadata.epoch,
            metadata.metadata_hash,
            metadata.validated_topology_epoch,
            [LastAssignmentConfig(key, value) for key, value in metadata.assignment_configs.items()],
            metadata.stored_description_epoch,
            metadata.failed_description_epoch,
        ),
    )


def topology_record(group_id: str, topology: StreamsGroupTopologyValue) -> ProtocolRecord:
    return ProtocolRecord(StreamsGroupTopologyKey(group_id), topology)


def member_record(group_id: str, member: StreamsMember) -> ProtocolRecord:
    endpoint = member.endpoint
    return ProtocolRecord(
        StreamsGroupMemberMetadataKey(group_id, member.member_id),
        member_value.StreamsGroupMemberMetadataValue(
            member.instance_id,
            member.rack_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.topology_epoch,
            member.process_id,
            None if endpoint is None else member_value.Endpoint(*endpoint),
            [member_value.KeyValue(key, value) for key, value in sorted(member.client_tags.items())],
        ),
    )


def target_record(group_id: str, member_id: str, tasks: Tasks) -> ProtocolRecord:
    def listed(task_ids: TaskIds) -> list[target_value.TaskIds]:
        return [target_value.TaskIds(name, sorted(partitions)) for name, partitions in sorted(task_ids.items())]

    return ProtocolRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id, member_id),
        target_value.StreamsGroupTargetAssignmentMemberValue(listed(tasks.active), listed(tasks.standby), listed(tasks.warmup)),
    )


class _KnownTarget(WireStruct):
    """The value of a target's record that was encoded ahead: tasks that need not be read again when it is replayed."""

    __slots__ = ("tasks",)

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks


def target_record_ahead(group_id: str, member_id: str, tasks: Tasks, now_ms: int) -> ProtocolRecord:
    """Returns the same record, with its bytes: to write and to replay it takes next to nothing, however many tasks it has."""
    record = target_record(group_id, member_id, tasks)
    return ProtocolRecord(record.key, _KnownTarget(tasks), encode_record(record, now_ms))


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> ProtocolRecord:
    return ProtocolRecord(
        StreamsGroupTargetAssignmentMetadataKey(group_id), StreamsGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
    )


def current_record(group_id: str, member: StreamsMember) -> ProtocolRecord:
    def active(tasks: ActiveTasks) -> list[current_value.TaskIds]:
        return [
            current_value.TaskIds(name, partitions := sorted(epochs), [epochs[partition] for partition in partitions])
            for name, epochs in sorted(tasks.items())
        ]

    def copies(tasks: TaskIds) -> list[current_value.TaskIds]:
        return [current_value.TaskIds(name, sorted(partitions)) for name, partitions in sorted(tasks.items())]

    held, leaving = member.held, member.to_revoke
    return ProtocolRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id),
        current_value.StreamsGroupCurrentMemberAssignmentValue(
            member.epoch,
            member.previous_epoch,
            member.state,
            active(held.active),
            copies(held.standby),
            copies(held.warmup),
            active(leaving.active),
            copies(leaving.standby),
            copies(leaving.warmup),
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[ProtocolRecord]:
    """Returns a member's tombstones in Kafka's order: of its current assignment, of its target, and of the member itself."""
    return [
        ProtocolRecord(StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        ProtocolRecord(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None),
        ProtocolRecord(StreamsGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[ProtocolRecord]:
    """Returns the tombstones of everything in the group, including its remaining members."""
    members = list(member_ids)
    return [
        *(ProtocolRecord(StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None) for member_id in members),
        *(ProtocolRecord(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None) for member_id in members),
        ProtocolRecord(StreamsGroupTargetAssignmentMetadataKey(group_id), None),
        *(ProtocolRecord(StreamsGroupMemberMetadataKey(group_id, member_id), None) for member_id in members),
        ProtocolRecord(StreamsGroupMetadataKey(group_id), None),
        ProtocolRecord(StreamsGroupTopologyKey(group_id), None),
    ]


# From records


def read_metadata(value: StreamsGroupMetadataValue) -> GroupMetadata:
    return GroupMetadata(
        value.epoch,
        value.metadata_hash,
        value.validated_topology_epoch,
        {config.key: config.value for config in value.last_assignment_configs or ()},
        value.stored_description_topology_epoch,
        value.failed_description_topology_epoch,
    )


def read_target(value: target_value.StreamsGroupTargetAssignmentMemberValue | _KnownTarget) -> Tasks:
    if isinstance(value, _KnownTarget):
        return value.tasks
    return Tasks(
        *(
            {tasks.subtopology_id: frozenset(tasks.partitions) for tasks in role}
            for role in (value.active_tasks, value.standby_tasks, value.warmup_tasks)
        )
    )
