"""Serves members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of clients that
have not been upgraded yet.

To such a member each rebalance of the group looks as if it concerned no other member. JoinGroup is like a heartbeat with all
values: it is answered at once, with the member's epoch as the generation and without a leader, since the broker assigns.
SyncGroup answers with the partitions that the member may have by now. Heartbeat makes it join again while it has to give up
partitions or can get new ones. Its embedded consumer protocol must be readable, and all classic members must support one common
protocol, because the group may become a classic group again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from ottla.server.base.randomness import random_uuid
from ottla.server.base.turns import at_once
from ottla.server.group.classic.group import CONSUMER_PROTOCOL_TYPE, topic_count
from ottla.server.group.classic.member_limits import MOST_NAMES
from ottla.server.group.consumer.departures import become_classic, remove_members
from ottla.server.group.consumer.embedded import by_topic_id, read_subscription, version_of, write_assignment
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.identity import find_member, static_member
from ottla.server.group.consumer.member import ClassicMetadata, ConsumerMember, MemberState
from ottla.server.group.consumer.migration import Policy, downgrade_record, replaced_by_classic
from ottla.server.group.consumer.services import ConsumerServices
from ottla.server.group.consumer.update import GroupUpdate, RegexChange, Target
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Join, Leaving, Sync
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import MALFORMED
from ottla.wire.messages.internal.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupResponse, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupResponse
from ottla.wire.primitives import uuid_to_text

logger = logging.getLogger("ottla.server.group")


def new_member_id(random: Random) -> str:
    """Returns a random id as Kafka writes it: 22 characters of URL-safe base64 that do not begin with a dash."""
    return uuid_to_text(random_uuid(random))


def join(services: ConsumerServices, group: ConsumerGroup, request: Join) -> JoinGroupResponse:
    """Answers a JoinGroup. Raises GroupError: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID or
    FENCED_INSTANCE_ID.
    """
    if services.policy is Policy.DISABLED:
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "Members of the classic protocol are not allowed.")
    member_id = request.member_id or new_member_id(services.shard.random)
    services.check_room(group, member_id, request.instance_id)
    if not group.supports_classic(request.protocol_type, request.protocol_names):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.requires_known_member_id:
        return JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED)
    update = GroupUpdate(services, group)
    joining = request.instance_id is None or not request.member_id
    old = find_member(update, member_id, request.instance_id, joining=joining, classic=True)
    subscription = _subscription(request)
    new = _update_member(old, request, subscription)
    group.names.check_change(old.topics, new.topics)
    renamed = update.put_member(old, new)
    changed = update.subscribe_regex(old, new) is not RegexChange.NONE or renamed
    epoch = at_once(update.next_epoch(old, new, changed=changed))
    owned = by_topic_id(((part.topic, part.partitions) for part in subscription.owned_partitions), services.cluster)
    there = group.static_member(request.instance_id)
    if there is not None and replaced_by_classic(group, there, services.policy, services.shard.settings.max_size):
        return _join_as_last(update, there, new, epoch, changed, owned)
    led = at_once(update.lead(new, update.target(old, new, epoch), changed=changed, owned=owned))
    group_id, session_ms, sync_ms = group.group_id, request.session_timeout_ms, request.rebalance_timeout_ms
    update.after.append(lambda: services.timeouts.session(group_id, member_id, session_ms))
    update.after.append(lambda: services.timeouts.sync(group_id, member_id, sync_ms))
    return services.run(update.result(_answer(led)))


def _join_as_last(
    update: GroupUpdate, there: ConsumerMember, new: ConsumerMember, epoch: int, changed: bool, owned: dict[bytes, frozenset[int]]
) -> JoinGroupResponse:
    """Converts the group into a classic group, because a static member that came back with the classic protocol was the last of
    the new protocol.
    """
    services, group = update.services, update.group
    rebalance = group.assignment_epoch < epoch
    if not rebalance:
        target = Target(group.assignment_epoch, group.target_of(new.member_id, new.instance_id))
        new = at_once(update.lead(new, target, changed=changed, owned=owned))
    update.records += group.tombstones_with({there.member_id: new.member_id})
    record, members = downgrade_record(group, (), new, update.now_ms, services.cluster)
    update.records.append(record)
    former = tuple(group.members)  # `after` runs once the tombstones are replayed, and then the group has none
    update.after = [lambda: services.forget_members(group.group_id, former)]
    reason = "its assignment is out of date after a downgrade" if rebalance else None
    return services.run(update.result(_answer(new), lambda: become_classic(services, group.group_id, members, reason)))


def _update_member(old: ConsumerMember, request: Join, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    return replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=request.client.client_id,
        client_host=request.client.host,
        classic=ClassicMetadata(request.session_timeout_ms, request.protocols),
    )


def _subscription(request: Join) -> ConsumerProtocolSubscription:
    """Returns the subscription of a JoinGroup, which is the same in all its protocols."""
    metadata = request.protocols[0].metadata
    try:
        if topic_count(metadata) <= MOST_NAMES:
            return read_subscription(metadata)
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The subscription has more than {MOST_NAMES:,} topics.")
    except MALFORMED as error:
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The subscription cannot be read.") from error


def _answer(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0].name,
    )


def sync(services: ConsumerServices, group: ConsumerGroup, request: Sync) -> SyncGroupResponse:
    """Answers a SyncGroup. Raises GroupError with the same codes as in a classic group."""
    member, classic = _classic_member(group, request.member_id, request.instance_id, request.generation)
    type_differs = request.protocol_type is not None and request.protocol_type != CONSUMER_PROTOCOL_TYPE
    if type_differs or (request.protocol is not None and request.protocol != classic.protocols[0].name):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if _epoch_due(group) > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        services.timeouts.join(group.group_id, member)
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
    services.timeouts.synced(group.group_id, member.member_id)
    services.timeouts.session(group.group_id, member.member_id, classic.session_timeout_ms)
    assignment = write_assignment(member.assigned, version_of(classic.protocols[0].metadata), services.cluster)
    return SyncGroupResponse(protocol_type=request.protocol_type, protocol_name=request.protocol, assignment=assignment)


def heartbeat(
    services: ConsumerServices, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    """Answers a Heartbeat. Returns REBALANCE_IN_PROGRESS to make the member join again if there is a new target, if it has
    partitions to give up, or if the partitions that it waits for are free.
    """
    member, classic = _classic_member(group, member_id, instance_id, generation)
    services.timeouts.session(group.group_id, member_id, classic.session_timeout_ms)
    released = member.state is MemberState.UNRELEASED_PARTITIONS and not group.awaits_partitions(member)
    if member.epoch < _epoch_due(group) or member.state is MemberState.UNREVOKED_PARTITIONS or released:
        services.timeouts.join(group.group_id, member)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _epoch_due(group: ConsumerGroup) -> int:
    """Returns the epoch that a classic member has to reach. Targets are made by heartbeats of the new protocol or, if no member
    uses it any more, by JoinGroups; then the group's epoch is returned, so that a member sends one.
    """
    return group.epoch if group.all_classic_but(()) else group.assignment_epoch


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMetadata]:
    member = group.member(member_id) if instance_id is None else static_member(group, member_id, instance_id)
    if member.classic is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.epoch != generation:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def leave(services: ConsumerServices, group: ConsumerGroup, leavers: Sequence[Leaving]) -> Result[LeaveGroupResponse]:
    """Removes the members that a LeaveGroup names. Administrators use it too, so they may be of either protocol."""
    answers, gone = [], {}
    for leaver in leavers:
        code = ErrorCode.NONE
        try:
            member = _leaver(group, leaver)
            gone[member.member_id] = member
            logger.info("group %s: %s leaves; reason: %s", group.group_id, member.member_id, leaver.reason or "none given")
        except GroupError as error:
            code = error.code
        answers.append(MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=code))
    return remove_members(services, group, list(gone.values()), LeaveGroupResponse(members=answers))


def _leaver(group: ConsumerGroup, leaver: Leaving) -> ConsumerMember:
    if leaver.instance_id is None:
        return group.member(leaver.member_id)
    member_id = leaver.member_id or group.static_members.get(leaver.instance_id, "")
    return static_member(group, member_id, leaver.instance_id)
