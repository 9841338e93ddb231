"""Converts a classic group into a consumer group and back while its members keep working (KIP-848; an empty group simply changes
its kind).

Upgrade: the first member of the new protocol converts the whole group. The classic members keep their partitions, as their
assignment and as their target, and the generation becomes the epoch. Downgrade: when the last member of the new protocol leaves,
the others form a classic group again, and the epoch becomes its generation.

Both are written as one batch: tombstones of the one kind and records of the other. `group.consumer.migration.policy` decides
which of them is allowed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence

from ottla.server.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from ottla.server.group.classic.members import Member
from ottla.server.group.cluster import Cluster
from ottla.server.group.consumer import records
from ottla.server.group.consumer.embedded import (
    by_topic_id,
    held_since,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.member import ClassicMetadata, ConsumerMember, member_order
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.assignor import NOTHING_ASSIGNED, Assignment
from ottla.server.group.modern.names import MOST_NAMES
from ottla.server.group.records import MetadataRecord, ProtocolRecord
from ottla.server.group.requests import Client
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import MALFORMED


class Policy(enum.Enum):
    """The values of group.consumer.migration.policy, in lower case."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def up(self) -> bool:
        return self in (Policy.UPGRADE, Policy.BIDIRECTIONAL)

    @property
    def down(self) -> bool:
        return self in (Policy.DOWNGRADE, Policy.BIDIRECTIONAL)


def check_upgrade(classic: ClassicGroup, policy: Policy, max_size: int) -> None:
    """Checks that a member of the new protocol may convert this group. Raises GroupError GROUP_ID_NOT_FOUND, with the reason, if
    it may not.
    """
    reason = None
    if not policy.up:
        reason = "group.consumer.migration.policy does not allow it"
    elif classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = "its members are not consumers"
    elif len(classic.members) > max_size:
        reason = f"it has more than {max_size} members"
    if reason is not None:
        raise _cannot_upgrade(classic, reason)


def _cannot_upgrade(classic: ClassicGroup, reason: str) -> GroupError:
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Classic group {classic.group_id} cannot become a consumer group: {reason}.")


def upgrade_records(classic: ClassicGroup, hash_of: Callable[[Iterable[str]], int], cluster: Cluster) -> list[ProtocolRecord]:
    """Returns the records of the consumer group that this classic group becomes. Raises GroupError if the metadata or assignments
    of its members cannot be parsed, or would be lost.
    """
    group_id, epoch = classic.group_id, classic.generation
    members: list[tuple[ConsumerMember, Assignment]] = []
    for member_id in member_order(classic.members):
        try:
            members.append(_upgrade_member(classic, classic.members[member_id], cluster))
        except MALFORMED as error:
            raise _cannot_upgrade(classic, "the metadata or assignments of its members cannot be parsed") from error
    names = {topic for member, _ in members for topic in member.topics}
    if len(names) > MOST_NAMES:
        raise _cannot_upgrade(classic, f"its members name more than {MOST_NAMES:,} topics")
    metadata_hash = hash_of(names)
    return [
        *(records.member(group_id, member) for member, _ in members),
        records.epoch(group_id, epoch, metadata_hash),
        *(records.target(group_id, member.member_id, assigned) for member, assigned in members),
        records.target_epoch(group_id, epoch, 0),
        *(records.current(group_id, member) for member, _ in members),
    ]


def _upgrade_member(classic: ClassicGroup, member: Member, cluster: Cluster) -> tuple[ConsumerMember, Assignment]:
    """Returns a classic member as a consumer member, with its assignment. Raises MALFORMED. A member that has just joined has no
    assignment, and no protocol may have been chosen yet.
    """
    assigned: Assignment = NOTHING_ASSIGNED
    if member.assignment:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _cannot_upgrade(classic, "a custom assignor keeps user data in the assignments, which would be lost")
        assigned = by_topic_id(((part.topic, part.partitions) for part in assignment.assigned_partitions), cluster)
    subscription = read_subscription(member.metadata(classic.protocol) if classic.protocol else member.protocols[0].metadata)
    return (
        ConsumerMember(
            member.member_id,
            epoch=classic.generation,
            previous_epoch=classic.generation,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client.client_id,
            client_host=member.client.host,
            topics=frozenset(subscription.topics),
            assigned=held_since(assigned, classic.generation),
            classic=ClassicMetadata(member.session_timeout_ms, tuple(member.protocols)),
        ),
        assigned,
    )


def may_downgrade(group: ConsumerGroup, leaving: Sequence[ConsumerMember], policy: Policy, max_size: int) -> bool:
    """Returns whether the group becomes a classic group when these members leave. It does not if the others have no protocol in
    common: no request makes such a group, but damaged records may.
    """
    left = len(group.members) - len(leaving)
    return group.all_classic_but(leaving) and 0 < left <= max_size and policy.down and _have_common_protocol(group, leaving)


def _have_common_protocol(group: ConsumerGroup, leaving: Sequence[ConsumerMember]) -> bool:
    """Returns whether there is a protocol that all classic members support who stay, of whom there is at least one."""
    gone = {member.member_id for member in leaving}
    staying = [member.classic for member_id, member in group.members.items() if member_id not in gone]
    return bool(frozenset.intersection(*(classic.protocol_names for classic in staying if classic is not None)))


def replaced_by_classic(group: ConsumerGroup, replaced: ConsumerMember, policy: Policy, max_size: int) -> bool:
    """Returns whether the group becomes a classic group because a classic member replaces this static member, the last of the new
    protocol.
    """
    others_classic = not replaced.is_classic and group.all_classic_but((replaced,))
    return others_classic and policy.down and len(group.members) <= max_size


def downgrade_record(
    group: ConsumerGroup,
    leaving: Iterable[ConsumerMember],
    joining: ConsumerMember | None,
    now_ms: int,
    cluster: Cluster,
) -> tuple[MetadataRecord, dict[str, ConsumerMember]]:
    """Returns the record of the classic group that this group becomes, and its members. `joining` replaces the static member with
    its instance id. The members must have a protocol in common.

    Raises GroupError GROUP_ID_NOT_FOUND if the metadata of its members cannot be parsed.
    """
    former_id = None if joining is None else group.static_members[joining.instance_id or ""]
    gone = {member.member_id for member in leaving} | {former_id}
    members = {member_id: member for member_id, member in group.members.items() if member_id not in gone}
    if joining is not None:
        members[joining.member_id] = joining
    classic = ClassicGroup(group.group_id, now_ms)
    classic.generation = group.epoch
    for member in members.values():
        classic.add(_classic_member(member), CONSUMER_PROTOCOL_TYPE)
    classic.protocol = classic.select_protocol()
    assignments = {}
    for member_id, member_there in classic.members.items():
        holder = former_id if joining is not None and member_id == joining.member_id else member_id
        target = group.targets.get(holder or "", NOTHING_ASSIGNED)
        try:
            version = version_of(member_there.metadata(classic.protocol))
        except MALFORMED as error:
            message = f"Consumer group {group.group_id} cannot become a classic group: {error}."
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message) from error
        assignments[member_id] = write_assignment(target, version, cluster)
    return classic.record(assignments), members


def _classic_member(member: ConsumerMember) -> Member:
    assert member.classic is not None
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client=Client(member.client_id, member.client_host),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.protocols,
    )
