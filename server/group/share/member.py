"""One member of a share group, as its records describe it. Never changed: an update is another object (`dataclasses.replace`).

A member gets its target at once: nobody has to give anything up, for partitions are shared. So it is always stable, and its epoch
is that of the target it was told last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignment
from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_EPOCH
from ottla.server.group.modern.java_order import hash_order, partition_order, string_key, uuid_hash
from ottla.wire.messages.internal.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.wire.messages.internal.share_group_member_metadata_value import ShareGroupMemberMetadataValue

STABLE: Final = 0
"""The only state of a member, as records have it."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    member_id: str
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    """Names that it subscribed to, whether or not they exist."""
    assigned: Assignment = field(default_factory=dict)

    def moved_to(self, epoch: int, assigned: Assignment) -> ShareMember:
        """The epoch it was in is kept: the answer that tells it the new one may get lost."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, assigned=assigned)

    # Records

    def metadata_value(self) -> ShareGroupMemberMetadataValue:
        topics = sorted(self.topics, key=string_key)
        return ShareGroupMemberMetadataValue(self.rack_id, self.client_id, self.client_host, topics)

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> ShareMember:
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )

    def assignment_value(self) -> ShareGroupCurrentMemberAssignmentValue:
        parts = [TopicPartitions(topic_id, partitions) for topic_id, partitions in ordered(self.assigned)]
        return ShareGroupCurrentMemberAssignmentValue(self.epoch, self.previous_epoch, STABLE, parts)

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=assignment_of((part.topic_id, part.partitions) for part in value.assigned_partitions),
        )

    def without_assignment(self) -> ShareMember:
        """After the tombstone of its assignment: the next is that of the member itself."""
        return replace(self, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned=NOTHING_ASSIGNED)


def ordered(assignment: Assignment) -> list[tuple[bytes, list[int]]]:
    """As Kafka lists it in records and answers."""
    return [(topic_id, partition_order(assignment[topic_id])) for topic_id in hash_order(assignment, uuid_hash)]


def assignment_of(parts: Iterable[tuple[bytes, Iterable[int]]]) -> Assignment:
    """From records: topic ids and partitions. Unlike in other kinds of groups a topic may have none: so does Kafka keep and show
    one of which everything was taken away.
    """
    return {bytes(topic_id): frozenset(partitions) for topic_id, partitions in parts}
