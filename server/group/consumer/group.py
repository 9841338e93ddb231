"""One consumer group: what its records say, and what follows from them.

    epoch              counts the changes that ask for another assignment: subscriptions, members, topics
    assignment epoch   the epoch that the target assignment was made for; behind the first while one is due
    member epochs      how far each member has been led to its target

    EMPTY: no members.  ASSIGNING: the target is behind the group.  RECONCILING: members are behind the target.  STABLE: none is.

All of it changes by `replay` alone; the counts of subscribers, assignors and regular expressions are kept in step there. An
operation computes with a member as it is going to be before that is written, so the questions below take an old and a new
member: "as if this one had replaced that one". The deadline for looking at topics anew is not in any record: it lives with the
process, and lies in the past for a group that was loaded.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar, Final, NamedTuple

from ottla.server.group.consumer import records
from ottla.server.group.consumer.member import ConsumerMember, Held, member_order
from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignment
from ottla.server.group.modern.epochs import DUE_NOW, FIRST_EPOCH, NO_EPOCH
from ottla.server.group.records import GroupRecord, ProtocolRecord
from ottla.server.group.seam import Group
from ottla.wire.errors import ErrorCode


class ConsumerState(enum.Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ResolvedRegex(NamedTuple):
    """What an expression matched, in which version of the metadata, and when that was looked up."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup(Group):
    kind: ClassVar[Kind] = Kind.CONSUMER

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.protocol_type = "consumer"
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.targets: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """Kafka before 4.1 wrote this group, and the next heartbeat takes that record away."""
        self.refresh_at_ms = DUE_NOW
        """When its topics are looked at anew; at once after one of them has changed."""
        self._topics: Counter[str] = Counter()  # name -> members that named it
        self._regex_topics: Counter[str] = Counter()  # name -> expressions that matched it
        self._regex_members: Counter[str] = Counter()
        self._assignors: Counter[str] = Counter()
        self._classic_count = 0
        self._classic_protocols: Counter[str] = Counter()
        self._owners: dict[bytes, dict[int, tuple[int, str]]] = {}  # partition -> epoch and id of the member that has it

    # What every group answers

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
        return topic in self._topics or topic in self._regex_topics

    def reads_any(self, topics: Set[str]) -> bool:
        """Is it subscribed to one of these?"""
        return not (self._topics.keys().isdisjoint(topics) and self._regex_topics.keys().isdisjoint(topics))

    def tombstones(self) -> Sequence[GroupRecord]:
        return self.tombstones_with({})

    def tombstones_with(self, renamed: Mapping[str, str]) -> list[GroupRecord]:
        """`renamed` are members whose records were already written under another id, by the old one."""
        ids = [renamed.get(member_id, member_id) for member_id in self.members]
        return [
            *(records.current_gone(self.group_id, member_id) for member_id in ids),
            *(records.target_gone(self.group_id, member_id) for member_id in ids),
            records.target_epoch_gone(self.group_id),
            *(records.metadata_gone(self.group_id, member_id) for member_id in ids),
            *(records.regex_gone(self.group_id, regex) for regex in self.regexes),
            records.partition_metadata_gone(self.group_id),
            records.epoch_gone(self.group_id),
        ]

    # Members

    def member(self, member_id: str) -> ConsumerMember:
        """GroupError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """A static member inherits what is meant for the former holder of its instance id."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.targets.get(member_id, NOTHING_ASSIGNED)

    def epoch_of(self, topic_id: bytes, partition: int) -> int:
        """The epoch of the member that has the partition, be it to be revoked; -1: it is free."""
        owner = self._owners.get(topic_id, {}).get(partition)
        return NO_EPOCH if owner is None else owner[0]

    def awaits_partitions(self, member: ConsumerMember) -> bool:
        """Is one of the partitions that the target gives it still another's?"""
        target = self.targets.get(member.member_id, NOTHING_ASSIGNED)
        return any(
            partition not in member.assigned.get(topic_id, ()) and self.epoch_of(topic_id, partition) != NO_EPOCH
            for topic_id, partitions in target.items()
            for partition in partitions
        )

    def all_classic_but(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Would only members of the classic protocol be left? `leaving` are members, each once."""
        return self._classic_count + sum(not member.is_classic for member in leaving) == len(self.members)

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Could a classic member with these protocols join: is one of them everybody's?"""
        if self.is_empty:
            return bool(protocol_type) and bool(list(names))
        all_of_them = self._classic_count
        return protocol_type == self.protocol_type and any(self._classic_protocols[name] == all_of_them for name in names)

    # Subscriptions

    @property
    def has_regexes(self) -> bool:
        return bool(self._regex_members)

    def regex_members(self, regex: str) -> int:
        return self._regex_members[regex]

    def subscribed_regexes(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> Counter[str]:
        """Expression -> members."""
        counts = Counter(self._regex_members)
        if old is not None and old.regex:
            counts[old.regex] -= 1
        if new is not None and new.regex:
            counts[new.regex] += 1
        return +counts

    def subscribed_topics(
        self, old: Iterable[ConsumerMember] = (), new: ConsumerMember | None = None, gone_regexes: Iterable[str] = ()
    ) -> set[str]:
        """Names that somebody subscribed to, or whose expression matched them. `gone_regexes`, each once, are not looked at."""
        names = Counter(self._topics)
        for member in old:
            names.subtract(member.topics)
        names.update(() if new is None else new.topics)
        matched = Counter(self._regex_topics)
        for expression in gone_regexes:
            if expression in self.regexes:
                matched.subtract(self.regexes[expression].topics)
        return {*+names, *+matched}

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What it reads by name or by its expression; one that was not looked up yet matches nothing."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def preferred_assignor(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> str | None:
        """The assignor that most members ask for; None: nobody asks for any."""
        counts = Counter(self._assignors)
        if old is not None and old.assignor is not None:
            counts[old.assignor] -= 1
        if new is not None and new.assignor is not None:
            counts[new.assignor] += 1
        counts = +counts
        return max(member_order(counts), key=counts.__getitem__) if counts else None

    # Replay

    def replay(self, record: ProtocolRecord) -> None:
        """Make a record true. All but the group's own tombstone, which the shard acts on."""
        _REPLAY[type(record.key).__name__](self, record.key, record.value)

    def _replay_epoch(self, key: Any, value: Any) -> None:
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _replay_partition_metadata(self, key: Any, value: Any) -> None:
        self.has_partition_metadata = value is not None

    def _replay_member(self, key: Any, value: Any) -> None:
        if value is not None:
            self._put(self.members.get(key.member_id, ConsumerMember(key.member_id)).with_metadata(value))
        elif key.member_id in self.members:
            self._drop(key.member_id)

    def _replay_current(self, key: Any, value: Any) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self._put((member or ConsumerMember(key.member_id)).with_assignment(value))
        elif member is not None:
            self._put(member.without_assignment())

    def _replay_target(self, key: Any, value: Any) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = {
                bytes(part.topic_id): frozenset(part.partitions) for part in value.topic_partitions if part.partitions
            }

    def _replay_target_epoch(self, key: Any, value: Any) -> None:
        self.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _replay_regex(self, key: Any, value: Any) -> None:
        former = self.regexes.get(key.regular_expression)
        if former is not None:
            _add_to(self._regex_topics, former.topics, -1)
        if value is None:
            self.regexes.pop(key.regular_expression, None)
        else:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self.regexes[key.regular_expression] = resolved
            _add_to(self._regex_topics, resolved.topics, 1)

    def _put(self, member: ConsumerMember) -> None:
        self._forget(self.members.get(member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count(member, 1)
        for held in (member.assigned, member.revoking):
            self._own(held, member)

    def _drop(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._forget(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _forget(self, member: ConsumerMember | None) -> None:
        if member is not None:
            self._count(member, -1)
            for held in (member.assigned, member.revoking):
                self._disown(held, member)

    def _count(self, member: ConsumerMember, by: int) -> None:
        self._classic_count += by if member.is_classic else 0
        for counts, keys in (
            (self._topics, member.topics),
            (self._regex_members, (member.regex,) if member.regex else ()),
            (self._assignors, (member.assignor,) if member.assignor is not None else ()),
            (self._classic_protocols, [] if member.classic is None else [each.name for each in member.classic.protocols]),
        ):
            _add_to(counts, keys, by)

    def _own(self, held: Held, member: ConsumerMember) -> None:
        """While a compacted log is read, a partition's former owner may come after its next one: the later epoch has it."""
        for topic_id, partitions in held.items():
            owners = self._owners.setdefault(topic_id, {})
            for partition in partitions:
                former = owners.get(partition)
                if former is None or former[0] <= member.epoch:
                    owners[partition] = (member.epoch, member.member_id)

    def _disown(self, held: Held, member: ConsumerMember) -> None:
        for topic_id, partitions in held.items():
            owners = self._owners.get(topic_id, {})
            for partition in partitions:
                if owners.get(partition, (NO_EPOCH, ""))[1] == member.member_id:
                    del owners[partition]
            if not owners:
                self._owners.pop(topic_id, None)


def _add_to(counts: Counter[str], keys: Iterable[str], by: int) -> None:
    """Keys that count nothing are not kept."""
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


def stale(member: ConsumerMember, message: str) -> GroupError:
    """A member came with an epoch that is not its own: in the words of the protocol that it speaks."""
    return GroupError(ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH, message)


def check_epoch(received: int, member: ConsumerMember) -> None:
    """Of who asks for offsets. GroupError: STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION to a classic member."""
    if received != member.epoch:
        raise stale(member, f"Epoch {received} is not the member's, which is {member.epoch}.")
