"""A `ShareGroup` is one share group: the content of its records, and what can be derived from them.

    epoch              counts the changes that require another assignment: of subscriptions, members, topics and partitions
                       whose state was initialized
    assignment epoch   the epoch that the target assignment was made for; it is lower than the first while a new one is due
    member epochs      the epoch of the assignment that each member has got

The group is EMPTY without members and STABLE with members. Only `replay` changes any of this. The deadline for checking topics
again is in no record, only in memory; for a group that was loaded it is in the past.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Any, ClassVar, Final

from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignment
from ottla.server.group.modern.group import LARGE, SubscribedGroup
from ottla.server.group.records import GroupRecord, ProtocolRecord
from ottla.server.group.share import records
from ottla.server.group.share.member import ShareMember, assignment_of
from ottla.server.group.share.state_partitions import NOTHING, StatePartitions, from_value
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.share_group_metadata_key import ShareGroupMetadataKey

EMPTY: Final = "Empty"
STABLE: Final = "Stable"


class ShareGroup(SubscribedGroup[ShareMember]):
    """A share group (see the module's docstring)."""

    kind: ClassVar[Kind] = Kind.SHARE
    metadata_key: ClassVar[type] = ShareGroupMetadataKey

    def __init__(self, group_id: str, now_ms: Callable[[], int]) -> None:
        super().__init__(group_id)
        self.protocol_type = "share"
        self.state_partitions: StatePartitions = NOTHING
        self._now_ms = now_ms
        self._awaits: bool | None = None  # the value of awaits_partitions since the last record; None if not computed

    # Methods of every group

    @property
    def state_name(self) -> str:
        return STABLE if self.members else EMPTY

    @property
    def is_expendable(self) -> bool:
        """Says whether the group may be removed with its last offset: never, since it has no offsets and exists until it is
        deleted.
        """
        return False

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.names.counts

    def reads_any(self, topics: Set[str]) -> bool:
        """Returns whether the group is subscribed to one of these topics."""
        return not self.names.counts.keys().isdisjoint(topics)

    @property
    def may_expire_offsets(self) -> bool:
        return False

    def tombstones(self) -> Sequence[GroupRecord]:
        return records.group_tombstones(self.group_id, self.members)

    @property
    def is_large(self) -> bool:
        """Returns whether its members name so many topics, or it has state in so many, that an operation may take longer than a
        turn: a group without members has state, too."""
        return super().is_large or sum(map(len, self.state_partitions)) > LARGE

    # Members

    def member(self, member_id: str) -> ShareMember:
        """Returns a member. Raises GroupError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {member_id}.")
        return member

    def target_of(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING_ASSIGNED)

    def subscribed_topics(self, old: ShareMember, new: ShareMember | None = None) -> set[str]:
        """Returns the topic names that members subscribe to, as if `new` had replaced `old`."""
        return self.names.changed([old.topics], frozenset() if new is None else new.topics)

    @property
    def awaits_partitions(self) -> bool:
        """Says whether there are initialized partitions of subscribed topics that the target assigns to no member. Every
        heartbeat asks for this, and only a record changes it.
        """
        if self._awaits is None:
            self._awaits = bool(self.names.counts) and self._has_unassigned_partitions()
        return self._awaits

    def _has_unassigned_partitions(self) -> bool:
        given: dict[bytes, set[int]] = {}
        for assignment in self.targets.values():
            for topic_id, partitions in assignment.items():
                given.setdefault(topic_id, set()).update(partitions)
        return any(
            topic.name in self.names.counts and given.get(topic_id) != set(topic.partitions)
            for topic_id, topic in self.state_partitions.initialized.items()
        )

    # Replay

    def replay(self, record: ProtocolRecord) -> None:
        self.changes += 1
        self._awaits = None
        _REPLAY[type(record.key).__name__](self, record.key, record.value)

    def _replay_epoch(self, key: Any, value: Any) -> None:
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _new_member(self, member_id: str) -> ShareMember:
        return ShareMember(member_id)

    def _put(self, member: ShareMember) -> None:
        former = self.members.get(member.member_id)
        topics = self.names.shared(member.topics)
        if topics is not member.topics:
            member = replace(member, topics=topics)
        self.names.change(frozenset() if former is None else former.topics, member.topics)
        self.members[member.member_id] = member

    def _drop(self, member_id: str) -> None:
        self.names.change(self.members.pop(member_id).topics)

    def _replay_target(self, key: Any, value: Any) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = assignment_of((part.topic_id, part.partitions) for part in value.topic_partitions)

    def _replay_state_partitions(self, key: Any, value: Any) -> None:
        self.state_partitions = NOTHING if value is None else from_value(value, self._now_ms())


_REPLAY: Final[dict[str, Callable[[ShareGroup, Any, Any], None]]] = {
    "ShareGroupMetadataKey": ShareGroup._replay_epoch,
    "ShareGroupMemberMetadataKey": ShareGroup._replay_member,
    "ShareGroupTargetAssignmentMetadataKey": ShareGroup._replay_target_epoch,
    "ShareGroupTargetAssignmentMemberKey": ShareGroup._replay_target,
    "ShareGroupCurrentMemberAssignmentKey": ShareGroup._replay_current,
    "ShareGroupStatePartitionMetadataKey": ShareGroup._replay_state_partitions,
}
