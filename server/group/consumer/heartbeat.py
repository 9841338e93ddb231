"""Handles ConsumerGroupHeartbeat, by which a member joins (epoch 0), stays (its epoch), or leaves (-1, or -2 if it is a static
member that will come back)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps
from ottla.server.group.classic.group import ClassicGroup, State
from ottla.server.group.consumer import records
from ottla.server.group.consumer.departures import remove_members
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.identity import check_member_epoch, find_member, static_member
from ottla.server.group.consumer.member import ConsumerMember, Held
from ottla.server.group.consumer.migration import check_upgrade, upgrade_records
from ottla.server.group.consumer.reconcile import Owned
from ottla.server.group.consumer.services import ConsumerServices
from ottla.server.group.consumer.update import GroupUpdate, RegexChange
from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH
from ottla.server.group.requests import Client
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode

logger = logging.getLogger("ottla.server.group")


class Heartbeat(NamedTuple):
    """A heartbeat of a member. None means that a value has not changed."""

    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int | None
    topics: Sequence[str] | None
    regex: str | None
    assignor: str | None
    owned: Owned | None
    client: Client
    may_see: Callable[[str], bool] | None = None
    """Returns whether the member may see a topic, which counts for patterns; None if it may see all."""

    @property
    def is_full(self) -> bool:
        """Says whether the heartbeat has all values, as a member sends it after an error, when it cannot know what has
        arrived.
        """
        has_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms is not None and has_subscription and self.owned is not None


class HeartbeatAnswer(NamedTuple):
    """The answer to a heartbeat."""

    member_id: str
    epoch: int
    interval_ms: int
    """The time until the member's next heartbeat; 0 if there will be none."""
    assigned: Held | None
    """The member's partitions; None means that they have not changed."""


def heartbeat(services: ConsumerServices, group_id: str, request: Heartbeat) -> HeartbeatAnswer | Promise[HeartbeatAnswer]:
    """Lets a member join, stay or leave. Raises GroupError with the protocol's error codes, each with a message, or the promise
    fails with it.
    """
    if request.epoch in (LEAVING_EPOCH, LEAVING_STATIC_EPOCH):
        return services.run(_leave(services, group_id, request))
    answer = services.operations.carry_out(group_id, partial(_stay, services, group_id, request), request.topics)
    if isinstance(answer, Promise):
        _note_alive(services, group_id, request)
    return answer


def _note_alive(services: ConsumerServices, group_id: str, request: Heartbeat) -> None:
    """Begins a member's session anew while its heartbeat waits for others: it came in time, whenever it is carried out."""
    group = services.find(group_id)
    member = None if group is None else group.members.get(request.member_id)
    if member is not None and not member.is_classic and member.epoch == request.epoch:
        timeout_ms = services.values.number(group_id, "consumer.session.timeout.ms")
        services.timeouts.session(group_id, request.member_id, timeout_ms)


def _stay(services: ConsumerServices, group_id: str, request: Heartbeat) -> Steps[Result[HeartbeatAnswer]]:
    """Makes steps that return the records and the answer for a member that joins or stays. They raise GroupError."""
    joining = request.epoch == JOINING_EPOCH
    update = _begin(services, group_id, create=joining)
    update.may_see = request.may_see
    group = update.group
    services.check_room(group, request.member_id, request.instance_id)
    old = find_member(update, request.member_id, request.instance_id, joining=joining, classic=False)
    if not joining:
        check_member_epoch(old, request.epoch, request.owned)
    new = _update_member(old, request)
    group.names.check_change(old.topics, new.topics)
    renamed = update.put_member(old, new)
    yield None
    regex = update.subscribe_regex(old, new)
    assignor = group.preferred_assignor(old, new) or services.default_assignor
    voted = assignor != (group.preferred_assignor() or services.default_assignor)
    epoch = yield from update.next_epoch(old, new, changed=renamed or voted or regex is RegexChange.KNOWN)
    yield None
    changed = renamed or regex is not RegexChange.NONE
    led = yield from update.lead(new, update.target(old, new, epoch), changed=changed, owned=request.owned)
    timeout_ms = services.values.number(group_id, "consumer.session.timeout.ms")
    update.after.append(lambda: services.timeouts.session(group_id, request.member_id, timeout_ms))
    shown = led.assigned if joining or request.is_full or led.assigned != old.assigned else None
    interval_ms = services.values.number(group_id, "consumer.heartbeat.interval.ms")
    return update.result(HeartbeatAnswer(led.member_id, led.epoch, interval_ms, shown))


def _begin(services: ConsumerServices, group_id: str, *, create: bool) -> GroupUpdate:
    """Returns an update of the group or, with `create`, of one that does not exist yet or was a classic group until now. Raises
    GroupError.
    """
    group = services.shard.groups.get(group_id)
    if not create or isinstance(group, ConsumerGroup):
        existing = services.existing(group_id)
        services.look_for_changes(existing)
        return GroupUpdate(services, existing)
    update = GroupUpdate(services, ConsumerGroup(group_id))
    if isinstance(group, ClassicGroup):
        if group.state is State.EMPTY:
            update.records += group.tombstones()
        else:
            _upgrade(services, group, update)
    elif group is not None:
        services.existing(group_id)
    return update


def _upgrade(services: ConsumerServices, classic: ClassicGroup, update: GroupUpdate) -> None:
    """Converts the classic group with its members. Those that wait in a rebalance are answered REBALANCE_IN_PROGRESS."""
    max_size = services.values.broker_number("group.consumer.max.size")
    check_upgrade(classic, services.policy, max_size)
    written = upgrade_records(classic, services.topics.hash_of, services.cluster)
    classic.interrupt(ErrorCode.REBALANCE_IN_PROGRESS)
    update.records += classic.tombstones()
    update.records += written
    for record in written:
        update.group.replay(record)
    logger.info("group %s: converted from a classic to a consumer group at epoch %d", classic.group_id, update.group.epoch)
    for member in update.group.members.values():
        assert member.classic is not None
        timeout_ms = member.classic.session_timeout_ms
        update.after.append(partial(services.timeouts.session, classic.group_id, member.member_id, timeout_ms))


def _update_member(old: ConsumerMember, request: Heartbeat) -> ConsumerMember:
    return replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if request.rebalance_timeout_ms is None else request.rebalance_timeout_ms,
        assignor=old.assignor if request.assignor is None else request.assignor,
        topics=old.topics if request.topics is None else frozenset(request.topics),
        regex=old.regex if request.regex is None else request.regex,
        client_id=request.client.client_id,
        client_host=request.client.host,
        classic=None,
    )


def _leave(services: ConsumerServices, group_id: str, request: Heartbeat) -> Result[HeartbeatAnswer]:
    group = services.existing(group_id)
    answer = HeartbeatAnswer(request.member_id, request.epoch, 0, None)
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        member = static_member(group, request.member_id, request.instance_id)
        if request.epoch == LEAVING_STATIC_EPOCH:
            logger.info("group %s: static member %s leaves temporarily", group_id, member.member_id)
            return Result((records.current(group_id, member.away()),), answer)
    logger.info("group %s: %s leaves", group_id, member.member_id)
    return remove_members(services, group, [member], answer)
