"""Members leave a consumer group: by their own wish, by an administrator's, or because a deadline of theirs has passed.

Their partitions are shared out again by the next heartbeats of the others. Where the last member of the consumer protocol goes
and classic ones stay, the group becomes a classic one (migration.py).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TypeVar

from ottla.server.group.classic.group import ClassicGroup
from ottla.server.group.classic.protocol import ClassicProtocol
from ottla.server.group.consumer import records
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.member import ConsumerMember
from ottla.server.group.consumer.migration import downgraded, may_downgrade
from ottla.server.group.consumer.services import ConsumerServices
from ottla.server.group.consumer.update import GroupUpdate
from ottla.server.group.result import Result

logger = logging.getLogger("ottla.server.group")

T = TypeVar("T")


def without(services: ConsumerServices, group: ConsumerGroup, leaving: Sequence[ConsumerMember], response: T) -> Result[T]:
    """Returns the records that take members out. The group goes on without them, or as a classic group if only classic members
    stay.
    """
    update = GroupUpdate(services, group)
    if not leaving:
        return update.result(response)
    if may_downgrade(group, leaving, services.policy, services.shard.settings.max_size):
        update.records += group.tombstones()
        record, members = downgraded(group, leaving, None, update.now_ms, services.cluster)
        update.records.append(record)
        update.after.append(lambda: services.forget_members(group))
        reason = "the last member of the consumer protocol went"
        return update.result(response, lambda: become_classic(services, group.group_id, members, reason))
    for member in leaving:
        update.records += records.member_gone(group.group_id, member.member_id)
        update.after.append(lambda gone=member.member_id: services.timeouts.forget(group.group_id, gone))  # type: ignore[misc]
    counts = group.subscribed_regexes()
    counts.subtract(member.regex for member in leaving if member.regex)
    unwanted = [expression for expression, count in counts.items() if not count]
    update.records += [records.regex_gone(group.group_id, expression) for expression in unwanted]
    metadata_hash = services.topics.hash_of(group.subscribed_topics(leaving, None, unwanted))
    update.records.append(records.epoch(group.group_id, group.epoch + 1, metadata_hash))
    if len(leaving) == len(group.members):  # so that the next member to join need not wait for an assignment
        update.records.append(records.target_epoch(group.group_id, group.epoch + 1, 0))
    return update.result(response)


def become_classic(
    services: ConsumerServices, group_id: str, members: Mapping[str, ConsumerMember], reason: str | None
) -> Result[None] | None:
    """Lets the sessions of the members go on once the group was replayed as a classic one. It rebalances if there is a
    `reason`.
    """
    group = services.shard.groups[group_id]
    assert isinstance(group, ClassicGroup)
    logger.info("group %s: from a consumer to a classic group, at generation %d", group_id, group.generation)
    protocols = {member_id: member.classic.protocols for member_id, member in members.items() if member.classic}
    return services.shard.protocol(ClassicProtocol).adopt(group, protocols, reason)


def fence(services: ConsumerServices, group_id: str, member_id: str, reason: str, in_epoch: int | None) -> None:
    """Takes a member out if it is still there, and, where `in_epoch` is given, still in that epoch. GroupError: it stays."""
    group = services.find(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None or in_epoch not in (None, member.epoch):
        return
    services.run(without(services, group, [member], None))
    logger.info("group %s: %s is out of the group: %s", group_id, member_id, reason)
