"""One share group: what its records say, and what follows from them.

    epoch              counts the changes that ask for another assignment: subscriptions, members, topics, initialized partitions
    assignment epoch   the epoch that the target assignment was made for; behind the first while one is due
    member epochs      what each member has been told

EMPTY: no members. STABLE: some. All of it changes by `replay` alone. The deadline for looking at topics anew is not in any
record: it lives with the process, and lies in the past for a group that was loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, ClassVar, Final

from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignment
from ottla.server.group.modern.epochs import DUE_NOW, FIRST_EPOCH, NO_EPOCH
from ottla.server.group.records import GroupRecord, ProtocolRecord
from ottla.server.group.seam import Group
from ottla.server.group.share import records
from ottla.server.group.share.member import ShareMember, assignment_of
from ottla.server.group.share.state_partitions import NOTHING, StatePartitions, from_value
from ottla.wire.errors import ErrorCode

EMPTY: Final = "Empty"
STABLE: Final = "Stable"


class ShareGroup(Group):
    kind: ClassVar[Kind] = Kind.SHARE

    def __init__(self, group_id: str, now_ms: Callable[[], int]) -> None:
        self.group_id = group_id
        self.protocol_type = "share"
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.state_partitions: StatePartitions = NOTHING
        self.refresh_at_ms = DUE_NOW
        """When its topics are looked at anew; at once after one of them has changed."""
        self.refresh_epoch = 0
        """The epoch that the deadline was set for: if the group has not got there, writing it failed."""
        self._now_ms = now_ms
        self._topics: Counter[str] = Counter()  # name -> members that named it
        self._awaits: bool | None = None  # the answer to awaits_partitions since the last record; None: nobody asked

    # What every group answers

    @property
    def state_name(self) -> str:
        return STABLE if self.members else EMPTY

    @property
    def is_expendable(self) -> bool:
        """It has no committed offsets, and lives until it is deleted."""
        return False

    def is_subscribed(self, topic: str) -> bool:
        return topic in self._topics

    def reads_any(self, topics: Set[str]) -> bool:
        """Is it subscribed to one of these?"""
        return not self._topics.keys().isdisjoint(topics)

    @property
    def may_expire_offsets(self) -> bool:
        return False

    def tombstones(self) -> Sequence[GroupRecord]:
        return records.group_tombstones(self.group_id, self.members)

    # Members

    def member(self, member_id: str) -> ShareMember:
        """GroupError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of group {self.group_id}.")
        return member

    def target_of(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING_ASSIGNED)

    @property
    def subscribers(self) -> Mapping[str, int]:
        """Name of a topic -> how many members subscribed to it, as it is now."""
        return self._topics

    def subscribed_topics(self, old: ShareMember | None = None, new: ShareMember | None = None) -> Counter[str]:
        """Name -> subscribers, as if `new` had replaced `old`."""
        names = Counter(self._topics)
        names.subtract(() if old is None else old.topics)
        names.update(() if new is None else new.topics)
        return +names

    @property
    def awaits_partitions(self) -> bool:
        """Are there initialized partitions of subscribed topics that the target gives to nobody? Every heartbeat asks, and the
        answer is another only after a record.
        """
        if self._awaits is None:
            self._awaits = bool(self._topics) and self._has_unassigned_partitions()
        return self._awaits

    def _has_unassigned_partitions(self) -> bool:
        given: dict[bytes, set[int]] = {}
        for assignment in self.targets.values():
            for topic_id, partitions in assignment.items():
                given.setdefault(topic_id, set()).update(partitions)
        return any(
            topic.name in self._topics and given.get(topic_id) != set(topic.partitions)
            for topic_id, topic in self.state_partitions.initialized.items()
        )

    # Looking at topics

    def refresh_due(self, now_ms: int) -> bool:
        return now_ms >= self.refresh_at_ms or self.epoch < self.refresh_epoch

    def refresh_again(self, at_ms: int, epoch: int) -> None:
        self.refresh_at_ms, self.refresh_epoch = at_ms, epoch

    # Replay

    def replay(self, record: ProtocolRecord) -> None:
        """Make a record true. All but the group's own tombstone, which the protocol acts on."""
        self._awaits = None
        _REPLAY[type(record.key).__name__](self, record.key, record.value)

    def _replay_epoch(self, key: Any, value: Any) -> None:
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _replay_member(self, key: Any, value: Any) -> None:
        if value is not None:
            self._put(self.members.get(key.member_id, ShareMember(key.member_id)).with_metadata(value))
        elif key.member_id in self.members:
            self._forget_topics(self.members.pop(key.member_id))

    def _replay_current(self, key: Any, value: Any) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self._put((member or ShareMember(key.member_id)).with_assignment(value))
        elif member is not None:
            self._put(member.without_assignment())

    def _put(self, member: ShareMember) -> None:
        former = self.members.get(member.member_id)
        if former is not None:
            self._forget_topics(former)
        self._topics.update(member.topics)
        self.members[member.member_id] = member

    def _forget_topics(self, member: ShareMember) -> None:
        for name in member.topics:
            self._topics[name] -= 1
            if not self._topics[name]:
                del self._topics[name]

    def _replay_target(self, key: Any, value: Any) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = assignment_of((part.topic_id, part.partitions) for part in value.topic_partitions)

    def _replay_target_epoch(self, key: Any, value: Any) -> None:
        self.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

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
