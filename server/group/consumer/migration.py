"""From a classic group to a consumer group and back, while its members go on (KIP-848; an empty group just changes its kind).

Up: the first member that speaks the new protocol takes the whole group along. The classic members stay as they are, with what
they have as their assignment and as their target; their generation becomes the epoch. Down: when the last member of the new
protocol goes, what is left is a classic group again, of the same members, whose generation is the epoch.

Both are records first: tombstones of the one kind and the other kind's records, in one batch. Which way is open is up to
`group.consumer.migration.policy`.
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
    """May a member of the new protocol take this group along? GroupError GROUP_ID_NOT_FOUND: no, and why."""
    reason = None
    if not policy.up:
        reason = "group.consumer.migration.policy keeps it from that"
    elif classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = "its members are no consumers"
    elif len(classic.members) > max_size:
        reason = f"it has more than {max_size} members"
    if reason is not None:
        raise _cannot_upgrade(classic, reason)


def _cannot_upgrade(classic: ClassicGroup, reason: str) -> GroupError:
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Classic group {classic.group_id} cannot become a consumer group: {reason}.")


def upgraded(classic: ClassicGroup, hash_of: Callable[[Iterable[str]], int], cluster: Cluster) -> list[ProtocolRecord]:
    """The records of a consumer group that is this classic one. GroupError: its members' bytes cannot be read, or kept."""
    group_id, epoch = classic.group_id, classic.generation
    members: list[tuple[ConsumerMember, Assignment]] = []
    for member_id in member_order(classic.members):
        try:
            members.append(_upgraded_member(classic, classic.members[member_id], cluster))
        except MALFORMED as error:
            raise _cannot_upgrade(classic, "what its members told each other cannot be read") from error
    metadata_hash = hash_of({topic for member, _ in members for topic in member.topics})
    return [
        *(records.member(group_id, member) for member, _ in members),
        records.epoch(group_id, epoch, metadata_hash),
        *(records.target(group_id, member.member_id, assigned) for member, assigned in members),
        records.target_epoch(group_id, epoch, 0),
        *(records.current(group_id, member) for member, _ in members),
    ]


def _upgraded_member(classic: ClassicGroup, member: Member, cluster: Cluster) -> tuple[ConsumerMember, Assignment]:
    """Raises MALFORMED. A member that has just joined has no assignment, and no protocol may have been chosen yet."""
    assigned: Assignment = NOTHING_ASSIGNED
    if member.assignment:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _cannot_upgrade(classic, "an assignor of the members' own keeps data in their assignments, which would be lost")
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
    """Does the group become a classic one when these go?"""
    left = len(group.members) - len(leaving)
    return group.all_classic_but(leaving) and 0 < left <= max_size and policy.down


def replaced_by_classic(group: ConsumerGroup, replaced: ConsumerMember, policy: Policy, max_size: int) -> bool:
    """Was this static member, whose place a classic one takes, the last of the new protocol?"""
    others_classic = not replaced.is_classic and group.all_classic_but((replaced,))
    return others_classic and policy.down and len(group.members) <= max_size


def downgraded(
    group: ConsumerGroup,
    leaving: Iterable[ConsumerMember],
    joining: ConsumerMember | None,
    now_ms: int,
    cluster: Cluster,
) -> tuple[MetadataRecord, dict[str, ConsumerMember]]:
    """The classic group's record, and its members. `joining` takes the place of the static member with its instance id.

    GroupError GROUP_ID_NOT_FOUND: its members' bytes cannot be read.
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
