"""A `ConsumerGroup` is one consumer group: the content of its records, and what can be derived from them.

    epoch              counts the changes that require another assignment: of subscriptions, members and topics
    assignment epoch   the epoch that the target assignment was made for; it is lower than the first while a new one is due
    member epochs      how far each member has got towards its target

    EMPTY: there are no members.  ASSIGNING: the target is behind the group.  RECONCILING: a member is behind the target.  STABLE:
    no member is.

Only `replay` changes any of this; it also updates the counts of subscribers, assignors and regular expressions. An operation
computes with a member as it will be before that is written, so methods below take an old and a new member and answer as if the
new one had replaced the old one. The deadline for checking topics again is in no record, only in memory; for a group that was
loaded it is in the past.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, Final, NamedTuple

from ottla.server.group.consumer import records
from ottla.server.group.consumer.member import ConsumerMember, Held, member_order
from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignment
from ottla.server.group.modern.epochs import NO_EPOCH
from ottla.server.group.modern.group import LARGE, SubscribedGroup
from ottla.server.group.modern.names import Names
from ottla.server.group.records import GroupRecord, ProtocolRecord
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.internal.consumer_group_metadata_key import ConsumerGroupMetadataKey


class ConsumerState(enum.Enum):
    """The states of a group. The values are the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched, in which version of the metadata, and when that was looked up."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


def topics_of(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Returns the topics that a member subscribes to by name or by its expression. An expression that was not looked up yet
    matches nothing.
    """
    resolved = regexes.get(member.regex) if member.regex else None
    if resolved is None or not member.topics:
        return member.topics if resolved is None else resolved.topics
    return member.topics | resolved.topics


class ConsumerGroup(SubscribedGroup[ConsumerMember]):
    """A consumer group (see the module's docstring)."""

    kind: ClassVar[Kind] = Kind.CONSUMER
    metadata_key: ClassVar[type] = ConsumerGroupMetadataKey

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.protocol_type = "consumer"
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """True if there is a partition metadata record, which Kafka before 4.1 wrote; the next heartbeat removes it."""
        self._matched = Names()
        self._regex_members: Counter[str] = Counter()
        self._assignors: Counter[str] = Counter()
        self._classic_count = 0
        self._classic_protocols: Counter[str] = Counter()  # name -> classic members that support it
        self._owners: dict[bytes, dict[int, tuple[int, str]]] = {}  # partition -> epoch and id of the member that has it

    # Methods of every group

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.names.counts or topic in self._matched.counts

    def reads_any(self, topics: Set[str]) -> bool:
        """Returns whether the group is subscribed to one of these topics."""
        return not (self.names.counts.keys().isdisjoint(topics) and self._matched.counts.keys().isdisjoint(topics))

    def tombstones(self) -> Sequence[GroupRecord]:
        return self.tombstones_with({})

    def tombstones_with(self, renamed: Mapping[str, str]) -> list[GroupRecord]:
        """Returns the records that remove the group. `renamed` are members whose records were already written under another id,
        by their old one.
        """
        ids = [renamed.get(member_id, member_id) for member_id in self.members]
        return [
            *(records.current_tombstone(self.group_id, member_id) for member_id in ids),
            *(records.target_tombstone(self.group_id, member_id) for member_id in ids),
            records.target_epoch_tombstone(self.group_id),
            *(records.metadata_tombstone(self.group_id, member_id) for member_id in ids),
            *(records.regex_tombstone(self.group_id, regex) for regex in self.regexes),
            records.partition_metadata_tombstone(self.group_id),
            records.epoch_tombstone(self.group_id),
        ]

    # Members

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def present(self, member: ConsumerMember) -> ConsumerMember | None:
        return super().present(member) or self.static_member(member.instance_id)

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """Returns a member's target assignment. A static member inherits that of the former member with its instance id."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.targets.get(member_id, NOTHING_ASSIGNED)

    def epoch_of(self, topic_id: bytes, partition: int) -> int:
        """Returns the epoch of the member that has the partition, even if it has to give it up; -1 means that it is free."""
        owner = self._owners.get(topic_id, {}).get(partition)
        return NO_EPOCH if owner is None else owner[0]

    def awaits_partitions(self, member: ConsumerMember) -> bool:
        """Returns whether another member still has a partition of this member's target."""
        target = self.targets.get(member.member_id, NOTHING_ASSIGNED)
        return any(
            partition not in member.assigned.get(topic_id, ()) and self.epoch_of(topic_id, partition) != NO_EPOCH
            for topic_id, partitions in target.items()
            for partition in partitions
        )

    def all_classic_but(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Returns whether only members of the classic protocol would be left without the `leaving` ones, which are distinct."""
        return self._classic_count + sum(not member.is_classic for member in leaving) == len(self.members)

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Returns whether a classic member with these protocols could join: all classic members must support one of them."""
        if self.is_empty:
            return bool(protocol_type) and bool(list(names))
        all_of_them = self._classic_count
        return protocol_type == self.protocol_type and any(self._classic_protocols[name] == all_of_them for name in names)

    # Subscriptions

    @property
    def is_large(self) -> bool:
        return super().is_large or len(self._matched.counts) > LARGE

    @property
    def has_regexes(self) -> bool:
        return bool(self._regex_members)

    def regex_members(self, regex: str) -> int:
        return self._regex_members[regex]

    def subscribed_regexes(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> Counter[str]:
        """Returns the number of members that subscribe to each expression."""
        counts = Counter(self._regex_members)
        if old is not None and old.regex:
            counts[old.regex] -= 1
        if new is not None and new.regex:
            counts[new.regex] += 1
        return +counts

    def subscribed_topics(
        self, old: Iterable[ConsumerMember] = (), new: ConsumerMember | None = None, gone_regexes: Iterable[str] = ()
    ) -> set[str]:
        """Returns the topics that members subscribe to by name or by an expression. `gone_regexes`, which are distinct, do not
        count.
        """
        gone = [self.regexes[expression].topics for expression in gone_regexes if expression in self.regexes]
        names = self.names.changed([member.topics for member in old], frozenset() if new is None else new.topics)
        return names | self._matched.changed(gone)

    def preferred_assignor(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> str | None:
        """Returns the assignor that most members ask for, or None if no member asks for one."""
        counts = Counter(self._assignors)
        if old is not None and old.assignor is not None:
            counts[old.assignor] -= 1
        if new is not None and new.assignor is not None:
            counts[new.assignor] += 1
        counts = +counts
        return max(member_order(counts), key=counts.__getitem__) if counts else None

    # Replay

    def replay(self, record: ProtocolRecord) -> None:
        self.changes += 1
        _REPLAY[type(record.key).__name__](self, record.key, record.value)

    def _replay_epoch(self, key: Any, value: Any) -> None:
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _replay_partition_metadata(self, key: Any, value: Any) -> None:
        self.has_partition_metadata = value is not None

    def _replay_target(self, key: Any, value: Any) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = {
                bytes(part.topic_id): frozenset(part.partitions) for part in value.topic_partitions if part.partitions
            }

    def _replay_regex(self, key: Any, value: Any) -> None:
        former = self.regexes.pop(key.regular_expression, None)
        resolved = None if value is None else ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        if resolved is not None:
            self.regexes[key.regular_expression] = resolved
        self._matched.change(*(frozenset() if each is None else each.topics for each in (former, resolved)))

    def _new_member(self, member_id: str) -> ConsumerMember:
        return ConsumerMember(member_id)

    def _put(self, member: ConsumerMember) -> None:
        former = self.members.get(member.member_id)
        topics = self.names.shared(member.topics)
        if topics is not member.topics:
            member = replace(member, topics=topics)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count(former, member)
        if former is None or not former.has_same_partitions(member):
            self._disown(former)
            for held in (member.assigned, member.revoking):
                self._own(held, member)

    def _drop(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._count(member, None)
        self._disown(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _count(self, former: ConsumerMember | None, now: ConsumerMember | None) -> None:
        self.names.change(*(frozenset() if member is None else member.topics for member in (former, now)))
        for member, by in ((former, -1), (now, 1)):
            if member is not None:
                self._classic_count += by if member.is_classic else 0
                for counts, keys in (
                    (self._regex_members, (member.regex,) if member.regex else ()),
                    (self._assignors, (member.assignor,) if member.assignor is not None else ()),
                    (self._classic_protocols, () if member.classic is None else member.classic.protocol_names),
                ):
                    _add_to(counts, keys, by)

    def _own(self, held: Held, member: ConsumerMember) -> None:
        """Makes the member the owner of partitions. In a compacted log the record of a former owner may come after that of the
        next one, so the higher epoch counts.
        """
        for topic_id, partitions in held.items():
            owners = self._owners.setdefault(topic_id, {})
            for partition in partitions:
                former = owners.get(partition)
                if former is None or former[0] <= member.epoch:
                    owners[partition] = (member.epoch, member.member_id)

    def _disown(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for topic_id, partitions in chain(member.assigned.items(), member.revoking.items()):
            owners = self._owners.get(topic_id, {})
            for partition in partitions:
                if owners.get(partition, (NO_EPOCH, ""))[1] == member.member_id:
                    del owners[partition]
            if not owners:
                self._owners.pop(topic_id, None)


def _add_to(counts: Counter[str], keys: Iterable[str], by: int) -> None:
    """Adds `by` to the counts of `keys`, and removes keys whose count is then 0."""
    for key in keys:
        counts[key] += by
        if not counts[key]:
            del counts[key]


_REPLAY: Final[dict[str, Callable[[ConsumerGroup, Any, Any], None]]] = {
    "ConsumerGroupMetadataKey": ConsumerGroup._replay_epoch,
    "ConsumerGroupPartitionMetadataKey": ConsumerGroup._replay_partition_metadata,
    "ConsumerGroupMemberMetadataKey": ConsumerGroup._replay_member,
    "ConsumerGroupTargetAssignmentMetadataKey": ConsumerGroup._replay_target_epoch,
    "ConsumerGroupTargetAssignmentMemberKey": ConsumerGroup._replay_target,
    "ConsumerGroupCurrentMemberAssignmentKey": ConsumerGroup._replay_current,
    "ConsumerGroupRegularExpressionKey": ConsumerGroup._replay_regex,
}


def stale_epoch_error(member: ConsumerMember, message: str) -> GroupError:
    """Returns the error for a member that sent a wrong epoch, with the code of the protocol that it uses."""
    return GroupError(ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH, message)


def check_epoch(received: int, member: ConsumerMember) -> None:
    """Checks the epoch of a member that fetches offsets. Raises GroupError STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION for a
    classic member.
    """
    if received != member.epoch:
        raise stale_epoch_error(member, f"Epoch {received} is not the member's epoch, which is {member.epoch}.")
