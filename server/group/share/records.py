"""Creates the records of a share group, which group.py replays. Their api keys are 10 to 15."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.server.group.modern.assignor import Assignment
from ottla.server.group.records import ProtocolRecord
from ottla.server.group.share.member import ShareMember, ordered
from ottla.wire.messages.internal.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from ottla.wire.messages.internal.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from ottla.wire.messages.internal.share_group_metadata_key import ShareGroupMetadataKey
from ottla.wire.messages.internal.share_group_metadata_value import ShareGroupMetadataValue
from ottla.wire.messages.internal.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from ottla.wire.messages.internal.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from ottla.wire.messages.internal.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from ottla.wire.messages.internal.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from ottla.wire.messages.internal.share_group_target_assignment_metadata_value import ShareGroupTargetAssignmentMetadataValue


def epoch(group_id: str, group_epoch: int, metadata_hash: int) -> ProtocolRecord:
    return ProtocolRecord(ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(group_epoch, metadata_hash))


def member(group_id: str, updated: ShareMember) -> ProtocolRecord:
    """Returns the record of a member's metadata."""
    return ProtocolRecord(ShareGroupMemberMetadataKey(group_id, updated.member_id), updated.metadata_value())


def current(group_id: str, updated: ShareMember) -> ProtocolRecord:
    """Returns the record of a member's current assignment and epoch."""
    return ProtocolRecord(ShareGroupCurrentMemberAssignmentKey(group_id, updated.member_id), updated.assignment_value())


def target(group_id: str, member_id: str, assignment: Assignment) -> ProtocolRecord:
    """Returns the record of a member's target assignment."""
    parts = [TopicPartition(topic_id, partitions) for topic_id, partitions in ordered(assignment)]
    return ProtocolRecord(
        ShareGroupTargetAssignmentMemberKey(group_id, member_id), ShareGroupTargetAssignmentMemberValue(parts)
    )  # fmt: skip


def target_epoch(group_id: str, assignment_epoch: int, timestamp_ms: int) -> ProtocolRecord:
    """Returns the record of the epoch that the targets were made for, and of when they were made."""
    return ProtocolRecord(
        ShareGroupTargetAssignmentMetadataKey(group_id),
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch, timestamp_ms),
    )


def member_tombstones(group_id: str, member_id: str) -> list[ProtocolRecord]:
    """Returns a member's three tombstones in the order in which Kafka writes them, since its replay depends on that order."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        metadata_tombstone(group_id, member_id),
    ]


def current_tombstone(group_id: str, member_id: str) -> ProtocolRecord:
    return ProtocolRecord(ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None)


def target_tombstone(group_id: str, member_id: str) -> ProtocolRecord:
    return ProtocolRecord(ShareGroupTargetAssignmentMemberKey(group_id, member_id), None)


def metadata_tombstone(group_id: str, member_id: str) -> ProtocolRecord:
    return ProtocolRecord(ShareGroupMemberMetadataKey(group_id, member_id), None)


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[ProtocolRecord]:
    """Returns the tombstones of everything in a group, in Kafka's order."""
    ids = list(member_ids)
    return [
        *(current_tombstone(group_id, member_id) for member_id in ids),
        *(target_tombstone(group_id, member_id) for member_id in ids),
        ProtocolRecord(ShareGroupTargetAssignmentMetadataKey(group_id), None),
        *(metadata_tombstone(group_id, member_id) for member_id in ids),
        ProtocolRecord(ShareGroupStatePartitionMetadataKey(group_id), None),
        ProtocolRecord(ShareGroupMetadataKey(group_id), None),
    ]
