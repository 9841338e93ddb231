"""The assignor `simple` (KIP-932), which decides which members read which partitions, with as few changes as possible.

Partitions are shared, so every member gets some: with more members than partitions each partition goes to several members, to
each about as many. The steps are Kafka's, and so is the order of members and partitions (JavaTable), since that decides which
member ends up with what:

1. members that have more than their share give up the rest, partition by partition;
2. partitions with too many members lose some;
3. partitions with too few members go, one by one, to members that have room.

If all members have the same subscription, a member's share is counted over all topics; otherwise each topic is shared among its
own subscribers. Partitions of a topic that no member subscribes to any more then stay in a member's target, but it does not get
them (protocol.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import ceil
from typing import Final

from ottla.server.base.turns import Steps
from ottla.server.group.modern.assignor import Assignment, GroupAssignment, GroupSpec
from ottla.server.group.modern.java_order import JavaTable, capacity_of, hash_order, int_hash, partition_order, uuid_hash

NAME: Final = "simple"

Initialized = Mapping[bytes, Collection[int]]
"""The partitions that have state, by topic id: only these are assigned."""
_Partition = tuple[bytes, int]
_Target = dict[bytes, set[int]]
"""A member's target: topic id -> partitions. A topic from which everything was taken away stays in it, without partitions."""


def assign(spec: GroupSpec, initialized: Initialized) -> Steps[GroupAssignment]:
    """Makes steps that return the assignment. They raise AssignorError if members subscribe to a topic that does not exist."""
    members = list(spec.members.values())
    if not any(member.topics for member in members):
        return {}
    targets: list[_Target] = []
    for member in members:
        targets.append({topic_id: set(partitions) for topic_id, partitions in member.assignment.items()})
        yield None
    if spec.homogeneous:
        yield from _share_all(spec, initialized, targets)
    else:
        yield from _share_by_topic(spec, initialized, targets)
    assigned: GroupAssignment = {}
    for member_id, target in zip(spec.members, targets, strict=True):
        assigned[member_id] = _frozen(target)
        yield None
    return assigned


def _capacity_for(count: int) -> int:
    """Returns the capacity of a table that Kafka's assignor creates for `count` entries."""
    return capacity_of(int((count + 1) / 0.75 + 1.0))


def _frozen(target: _Target) -> Assignment:
    return {topic_id: frozenset(partitions) for topic_id, partitions in target.items()}


def _share_all(spec: GroupSpec, initialized: Initialized, targets: list[_Target]) -> Steps[None]:
    topics = dict.fromkeys(next(iter(spec.members.values())).topics)
    partitions = [partition for topic_id in topics for partition in _assignable(spec, initialized, topic_id)]
    sharing = _Sharing(targets, partitions, range(len(targets)), _hash_of_partition)
    for index, target in enumerate(targets):
        for topic_id in hash_order(target, uuid_hash):
            if topic_id in topics:
                sharing.note(index, topic_id)
            else:
                del target[topic_id]
            yield None
    yield from sharing.run()


def _share_by_topic(spec: GroupSpec, initialized: Initialized, targets: list[_Target]) -> Steps[None]:
    subscribers: dict[bytes, list[int]] = {}
    for index, member in enumerate(spec.members.values()):
        for topic_id in member.topics:
            subscribers.setdefault(topic_id, []).append(index)
        yield None
    for topic_id in hash_order(subscribers, uuid_hash):
        partitions = list(_assignable(spec, initialized, topic_id))
        sharing = _Sharing(targets, partitions, subscribers[topic_id], _hash_of_index)
        for index in range(len(targets)):
            sharing.note(index, topic_id)
        yield from sharing.run()


def _assignable(spec: GroupSpec, initialized: Initialized, topic_id: bytes) -> Iterable[_Partition]:
    wanted = initialized.get(topic_id, ())
    return ((topic_id, index) for index in range(spec.partitions_of(topic_id)) if index in wanted)


def _hash_of_partition(partition: _Partition) -> int:
    return (31 * uuid_hash(partition[0]) + partition[1]) & 0xFFFFFFFF


def _hash_of_index(partition: _Partition) -> int:
    return int_hash(partition[1])


class _Sharing:
    """The sharing of `partitions` among `members`. Members are indexes in `targets`, which are changed in place."""

    def __init__(
        self,
        targets: list[_Target],
        partitions: Sequence[_Partition],
        members: Sequence[int],
        hash_of: Callable[[_Partition], int],
    ) -> None:
        self._targets = targets
        self._partitions = partitions
        self._hash_of = hash_of
        self._per_partition = -(-len(members) // len(partitions)) if partitions else 0
        share = self._per_partition * len(partitions) / len(members)
        self._wanted = {member: ceil(share * (n + 1)) - ceil(share * n) for n, member in enumerate(members)}
        self._members_of: JavaTable[_Partition, JavaTable[int, None]] = JavaTable(hash_of, _capacity_for(len(partitions)))
        self._partitions_of: dict[int, JavaTable[_Partition, None]] = {}

    def note(self, member: int, topic_id: bytes) -> None:
        """Notes the partitions of a topic that the member had."""
        for index in partition_order(self._targets[member].get(topic_id, ())):
            partition = (topic_id, index)
            self._members_of.compute_if_absent(partition, lambda: JavaTable(int_hash)).put(member, None)
            self._partitions_of.setdefault(member, JavaTable(self._hash_of)).put(partition, None)

    def run(self) -> Steps[None]:
        for member, held in self._partitions_of.items():
            surplus = len(held) - self._wanted.get(member, 0)
            for partition in list(held)[:surplus] if surplus > 0 else ():
                self._revoke(member, partition)
            yield None
        for partition in self._members_of:
            members = self._members_of[partition]
            surplus = len(members) - self._per_partition
            for member in list(members)[:surplus] if surplus > 0 else ():
                self._revoke(member, partition)
            yield None
        for partition in self._partitions:
            self._members_of.compute_if_absent(partition, lambda: JavaTable(int_hash))
            yield None
        yield from self._fill_up()

    def _revoke(self, member: int, partition: _Partition) -> None:
        topic_id, index = partition
        self._targets[member][topic_id].discard(index)
        self._members_of[partition].discard(member)
        self._partitions_of[member].discard(partition)

    def _has_room(self, member: int) -> bool:
        return len(self._partitions_of.get(member, ())) < self._wanted[member]

    def _fill_up(self) -> Steps[None]:
        """Gives partitions that miss members to those with room, in turn and in rounds; a round in which no member took the
        partition is its last. A member that gets the same partition again in another round counts as another one; as in Kafka.
        """
        unfilled = [member for member in sorted(self._wanted) if self._has_room(member)]
        at, progress = 0, False
        for partition in self._members_of if unfilled else ():
            had = self._members_of[partition]
            missing = self._per_partition - len(had)
            while missing > 0:
                if at == len(unfilled):
                    if not progress or not unfilled:
                        break
                    at, progress = 0, False
                member = unfilled[at]
                at += 1
                if member in had:
                    continue
                topic_id, index = partition
                self._targets[member].setdefault(topic_id, set()).add(index)
                self._partitions_of.setdefault(member, JavaTable(self._hash_of)).put(partition, None)
                missing -= 1
                progress = True
                if not self._has_room(member):
                    at -= 1
                    del unfilled[at]
            if not unfilled:
                return
            yield None
