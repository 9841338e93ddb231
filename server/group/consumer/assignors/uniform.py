"""The assignor `uniform`: members get equally many partitions, give or take one, and keep their partitions as far as that
allows.

If all members have the same subscription, as here, that is a matter of counting: every member has a quota; if the partitions do
not divide evenly, an additional one stays with members that have it already, and the last members get those that are left.
Members with too many partitions give up the rest, and free ones go to members with room. heterogeneous.py is for the other
groups. Racks play no part in Kafka 4.4.
"""

from __future__ import annotations

from ottla.server.base.turns import Steps
from ottla.server.group.consumer.assignors import heterogeneous
from ottla.server.group.modern.assignor import Assignment, AssignorError, GroupAssignment, GroupSpec
from ottla.server.group.modern.java_order import copied_capacity, hash_order, partition_order, uuid_hash

_Partition = tuple[bytes, int]


def assign(group: GroupSpec) -> Steps[GroupAssignment]:
    """Makes steps that compute the assignment (see the module's docstring). They raise AssignorError for topics that do not
    exist.
    """
    if not group.members:
        return {}
    return (yield from _assign_alike(group) if group.homogeneous else heterogeneous.assign(group))


def _assign_alike(group: GroupSpec) -> Steps[GroupAssignment]:
    wanted = next(iter(group.members.values())).topics
    topics = hash_order(wanted, uuid_hash, copied_capacity(len(wanted)))
    if not topics:
        return {}
    counts = {topic_id: group.partitions_of(topic_id) for topic_id in topics}
    yield None
    free: list[_Partition] = []
    for topic, count in counts.items():
        free += [(topic, index) for index in range(count) if not group.is_assigned(topic, index)]
        yield None
    quota, extras = divmod(sum(counts.values()), len(group.members))
    target: GroupAssignment = {}
    room: dict[str, int] = {}
    for number, (member_id, member) in enumerate(group.members.items()):
        extra = extras > 0
        kept, left = _keep(member.assignment, counts, quota + extra, free)
        if left and extra and len(group.members) - number > extras:
            left, extra = left - 1, False  # later members may have one more already
        extras -= extra
        target[member_id] = kept
        if left:
            room[member_id] = left
        yield None
    yield from _hand_out(free, room, target)
    return target


def _keep(assignment: Assignment, wanted: dict[bytes, int], quota: int, free: list[_Partition]) -> tuple[Assignment, int]:
    """Returns the part of its assignment that a member keeps, and how many more partitions it may get. Partitions beyond its
    quota become free.
    """
    kept: dict[bytes, frozenset[int]] = {}
    for topic_id in hash_order(assignment, uuid_hash):
        partitions = assignment[topic_id]
        if topic_id not in wanted:
            continue
        if len(partitions) > quota:
            ordered = partition_order(partitions)
            free.extend((topic_id, index) for index in ordered[quota:])
            partitions = frozenset(ordered[:quota])
        quota -= len(partitions)
        if partitions:
            kept[topic_id] = partitions
    return kept, quota


def _hand_out(free: list[_Partition], room: dict[str, int], target: GroupAssignment) -> Steps[None]:
    handed_out = 0
    for member_id, left in room.items():
        added: dict[bytes, set[int]] = {}
        for topic_id, index in free[handed_out : handed_out + left]:
            added.setdefault(topic_id, set()).add(index)
        handed_out += left
        if added:
            kept = target[member_id]
            target[member_id] = {**kept, **{topic: kept.get(topic, frozenset()) | more for topic, more in added.items()}}
        yield None
    if handed_out < len(free):
        raise AssignorError("partitions were left over")  # the last target assigned a partition to two members
