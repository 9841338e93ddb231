"""Finds the member of a consumer group that a request comes from, and checks the epoch in the request.

A member sends the epoch that it is in. It may send the one before if it has only partitions of its present assignment: then the
answer with the new epoch was lost. Epoch 0 is always valid: a member that was fenced begins anew. A static member replaces its
former self if that one has left temporarily, or if either of them uses the classic protocol.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from ottla.server.group.consumer import records
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.member import ConsumerMember, Held
from ottla.server.group.consumer.reconcile import Owned
from ottla.server.group.consumer.update import GroupUpdate
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_STATIC_EPOCH
from ottla.wire.errors import ErrorCode

logger = logging.getLogger("ottla.server.group")


def find_member(update: GroupUpdate, member_id: str, instance_id: str | None, *, joining: bool, classic: bool) -> ConsumerMember:
    """Returns the member as it was before this request, or a new one that joins. `classic` means that it uses the classic
    protocol.

    A static member that replaces another takes over its subscription and assignment; the records for that are added to `update`.
    Raises GroupError: UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID or FENCED_INSTANCE_ID.
    """
    group = update.group
    if instance_id is None:
        return group.members.get(member_id, ConsumerMember(member_id)) if joining else group.member(member_id)
    there = group.static_member(instance_id)
    if not joining:
        return static_member(group, member_id, instance_id)
    if there is None:
        return group.members.get(member_id, ConsumerMember(member_id))
    if not classic and not there.is_classic and there.epoch != LEAVING_STATIC_EPOCH:
        message = f"Instance id {instance_id} is in use by member {there.member_id}, so {member_id} cannot use it."
        raise GroupError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    logger.info("group %s: static member %s is replaced by %s", group.group_id, there.member_id, member_id)
    here = replace(there, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    update.records += records.member_tombstones(group.group_id, there.member_id)
    update.records.append(records.member(group.group_id, here))
    update.records.append(records.target(group.group_id, member_id, group.targets.get(there.member_id, {})))
    update.records.append(records.current(group.group_id, here))
    if there.member_id != member_id:
        update.after.append(lambda: update.services.timeouts.forget(group.group_id, there.member_id))
    return here


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Returns the member with these two ids. Raises GroupError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    there = group.static_member(instance_id)
    if there is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"No member of group {group.group_id} has the instance id {instance_id}.")
    if there.member_id != member_id:
        message = f"Instance id {instance_id} is now in use by member {there.member_id}, not by {member_id}."
        raise GroupError(ErrorCode.FENCED_INSTANCE_ID, message)
    return there


def check_member_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Checks that the epoch is the member's or, with only partitions of its assignment, the one before.

    Raises GroupError FENCED_MEMBER_EPOCH.
    """
    if epoch == member.epoch:
        return
    repeated = epoch == member.previous_epoch and owned is not None and _is_part_of(owned, member.assigned)
    if epoch > member.epoch or not repeated:
        message = f"The member is in epoch {member.epoch}, not in {epoch}; it has to give up its partitions and join again."
        raise GroupError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _is_part_of(owned: Owned, assigned: Held) -> bool:
    return all(topic_id in assigned and all(i in assigned[topic_id] for i in indexes) for topic_id, indexes in owned.items())
