"""Creates the records of a consumer group, which group.py replays. Their api keys are 3 to 8 and 16."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.server.group.consumer.member import ConsumerMember
from ottla.server.group.modern.assignor import Assignment
from ottla.server.group.modern.java_order import hash_order, partition_order, uuid_hash
from ottla.server.group.records import ProtocolRecord
from ottla.wire.messages.internal.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from ottla.wire.messages.internal.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.wire.messages.internal.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.wire.messages.internal.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.wire.messages.internal.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ottla.wire.messages.internal.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ottla.wire.messages.internal.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from ottla.wire.messages.internal.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from ottla.wire.messages.internal.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from ottla.wire.messages.internal.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from ottla.wire.messages.internal.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)


def epoch(group_id: str, group_epoch: int, metadata_hash: int) -> ProtocolRecord:
    return ProtocolRecord(ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(group_epoch, metadata_hash))


def member(group_id: str, updated: ConsumerMember) -> ProtocolRecord:
    """Returns the record of a member's metadata."""
    return ProtocolRecord(ConsumerGroupMemberMetadataKey(group_id, updated.member_id), updated.metadata_value())


def current(group_id: str, updated: ConsumerMember) -> ProtocolRecord:
    """Returns the record of a member's current assignment, state and epoch."""
    return ProtocolRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, updated.member_id), updated.assignment_value())


def target(group_id: str, member_id: str, assignment: Assignment) -> ProtocolRecord:
    """Returns the record of a member's target assignment."""
    return ProtocolRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            [TopicPartition(topic_id, partition_order(assignment[topic_id])) for topic_id in hash_order(assignment, uuid_hash)]
        ),
    )


def target_epoch(group_id: str, assignment_epoch: int, timestamp_ms: int) -> ProtocolRecord:
    """Returns the record of the epoch that the targets were made for, and of when they were made."""
    return ProtocolRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch, timestamp_ms),
    )


def regex(group_id: str, expression: str, topics: Iterable[str], version: int, timestamp_ms: int) -> ProtocolRecord:
    """Returns the record of the topics that an expression matched in a version of the metadata, and of when that was looked
    up.
    """
    return ProtocolRecord(
        ConsumerGroupRegularExpressionKey(group_id, expression),
        ConsumerGroupRegularExpressionValue(sorted(topics, key=lambda name: name.encode("utf-16-be")), version, timestamp_ms),
    )


def regex_tombstone(group_id: str, expression: str) -> ProtocolRecord:
    return ProtocolRecord(ConsumerGroupRegularExpressionKey(group_id, expression), None)


def partition_metadata_tombstone(group_id: str) -> ProtocolRecord:
    """Returns the tombstone of the partition metadata, which Kafka before 4.1 wrote instead of a hash."""
    return ProtocolRecord(ConsumerGroupPartitionMetadataKey(group_id), None)


def member_tombstones(group_id: str, member_id: str) -> Sequence[ProtocolRecord]:
    """Returns a member's three tombstones in the order in which Kafka writes them, since its replay depends on that order."""
    return (
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        metadata_tombstone(group_id, member_id),
    )


def current_tombstone(group_id: str, member_id: str) -> ProtocolRecord:
    return ProtocolRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None)


def target_tombstone(group_id: str, member_id: str) -> ProtocolRecord:
    return ProtocolRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None)


def metadata_tombstone(group_id: str, member_id: str) -> ProtocolRecord:
    return ProtocolRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), None)


def target_epoch_tombstone(group_id: str) -> ProtocolRecord:
    return ProtocolRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), None)


def epoch_tombstone(group_id: str) -> ProtocolRecord:
    return ProtocolRecord(ConsumerGroupMetadataKey(group_id), None)
