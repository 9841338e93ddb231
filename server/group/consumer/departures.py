"""Removes members from a consumer group: because they leave, because an administrator removes them, or because they missed a
deadline.

Their partitions are reassigned by the next heartbeats of the others. When the last member of the consumer protocol leaves and
only classic members stay, the group becomes a classic group (migration.py).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar

from ottla.server.group.classic.group import ClassicGroup
from ottla.server.group.classic.protocol import ClassicProtocol
from ottla.server.group.consumer import records
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.member import ConsumerMember
from ottla.server.group.consumer.migration import downgrade_record, may_downgrade
from ottla.server.group.consumer.services import ConsumerServices
from ottla.server.group.consumer.update import GroupUpdate
from ottla.server.group.result import Result

logger = logging.getLogger("ottla.server.group")

T = TypeVar("T")


def remove_members(services: ConsumerServices, group: ConsumerGroup, leaving: Sequence[ConsumerMember], response: T) -> Result[T]:
    """Returns the records that remove members. The group becomes a classic group if only classic members stay."""
    update = GroupUpdate(services, group)
    if not leaving:
        return update.result(response)
    if may_downgrade(group, leaving, services.policy, services.shard.settings.max_size):
        update.records += group.tombstones()
        record, members = downgrade_record(group, leaving, None, update.now_ms, services.cluster)
        update.records.append(record)
        former = tuple(group.members)  # `after` runs once the tombstones are replayed, and then the group has none
        update.after.append(lambda: services.forget_members(group.group_id, former))
        reason = "the last member of the consumer protocol left"
        return update.result(response, lambda: become_classic(services, group.group_id, members, reason))
    for member in leaving:
        update.records += records.member_tombstones(group.group_id, member.member_id)
        update.after.append(partial(services.timeouts.forget, group.group_id, member.member_id))
    counts = group.subscribed_regexes()
    counts.subtract(member.regex for member in leaving if member.regex)
    unwanted = [expression for expression, count in counts.items() if not count]
    update.records += [records.regex_tombstone(group.group_id, expression) for expression in unwanted]
    metadata_hash = services.topics.hash_of(group.subscribed_topics(leaving, None, unwanted))
    update.records.append(records.epoch(group.group_id, group.epoch + 1, metadata_hash))
    if len(leaving) == len(group.members):  # so that the next member to join need not wait for an assignment
        update.records.append(records.target_epoch(group.group_id, group.epoch + 1, 0))
    return update.result(response)


def become_classic(
    services: ConsumerServices, group_id: str, members: Mapping[str, ConsumerMember], reason: str | None
) -> Result[None] | None:
    """Begins the sessions of the members once the group was replayed as a classic group. It rebalances if there is a `reason`."""
    group = services.shard.groups[group_id]
    assert isinstance(group, ClassicGroup)
    logger.info("group %s: converted from a consumer to a classic group at generation %d", group_id, group.generation)
    protocols = {member_id: member.classic.protocols for member_id, member in members.items() if member.classic}
    return services.shard.protocol(ClassicProtocol).adopt(group, protocols, reason)


def fence(services: ConsumerServices, group_id: str, member_id: str, reason: str, in_epoch: int | None) -> None:
    """Removes a member if it is still there and, if `in_epoch` is given, still in that epoch. Raises GroupError if that cannot be
    written; the member then stays.
    """
    group = services.find(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None or in_epoch not in (None, member.epoch):
        return
    services.run(remove_members(services, group, [member], None))
    logger.info("group %s: removed %s: %s", group_id, member_id, reason)
