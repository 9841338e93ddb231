"""A `ShareMember` is one member of a share group, as its records describe it. It is never changed: an update is another object
(`dataclasses.replace`).

A member gets its target at once: no other member has to give anything up first, since partitions are shared. So it is always
stable, and its epoch is that of the last target that it got.
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

LONGEST_MEMBER_ID: Final = 36
"""The length of a UUID as text: the share group APIs take no longer member id."""
STABLE: Final = 0
"""The only state of a member, as the records number it."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member of a share group (see the module's docstring)."""

    member_id: str
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    """The topic names that it subscribed to, whether or not they exist."""
    assigned: Assignment = field(default_factory=dict)

    def moved_to(self, epoch: int, assigned: Assignment) -> ShareMember:
        """Returns the member in a new epoch. It keeps the former epoch, since the answer with the new one may get lost."""
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
        """Returns the member after the tombstone of its assignment; the tombstone of the member itself comes next."""
        return replace(self, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned=NOTHING_ASSIGNED)


def ordered(assignment: Assignment) -> list[tuple[bytes, list[int]]]:
    """Returns the assignment in the order that Kafka uses in records and answers."""
    return [(topic_id, partition_order(assignment[topic_id])) for topic_id in hash_order(assignment, uuid_hash)]


def assignment_of(parts: Iterable[tuple[bytes, Iterable[int]]]) -> Assignment:
    """Returns an assignment from the topic ids and partitions of a record. Unlike in other kinds of groups a topic may have no
    partitions, since Kafka keeps and shows a topic from which everything was taken away.
    """
    return {bytes(topic_id): frozenset(partitions) for topic_id, partitions in parts}
