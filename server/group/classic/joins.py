"""Handles JoinGroup: whether a client may join a group, under which member id, and whether that starts a rebalance.

A client without a member id gets one: at once if it is a static member (KIP-345) or uses a version before 4, otherwise with
MEMBER_ID_REQUIRED, so that it joins again under that id (KIP-394: otherwise each client that gives up while its first request is
parked would leave an unused member behind). A static member that comes back replaces its former self, which is fenced from then
on; in a stable group that needs no rebalance unless it changes the selected protocol.
"""

from __future__ import annotations

import logging
from typing import TypeVar

from ottla.server.base.randomness import random_uuid_text
from ottla.server.group.classic.group import ClassicGroup, State
from ottla.server.group.classic.member_limits import size_of
from ottla.server.group.classic.members import Member
from ottla.server.group.classic.rebalance import Rebalance
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Join, JoinAnswer, refused_join
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse

logger = logging.getLogger("ottla.server.group")

T = TypeVar("T")

SKIP_ASSIGNMENT_FROM = 9


def _refused(member_id: str, error: ErrorCode) -> Result[JoinAnswer]:
    return Result((), refused_join(member_id, error))


def turn_away(rebalance: Rebalance, group: ClassicGroup, member_id: str, answer: T) -> Result[T]:
    """Refuses a client with `answer` and removes it, or the others would wait for it."""
    group.remove(member_id)
    rest = rebalance.maybe_complete_join(group)
    return Result(rest.records, answer, rest.on_append)


def join(rebalance: Rebalance, group: ClassicGroup, request: Join) -> Result[JoinAnswer]:
    """Lets a client join `group`. The answer is parked until the join phase ends, unless it is known at once."""
    former = group.members.get(request.member_id or group.static_members.get(request.instance_id or "", ""))
    others = group.held_bytes - (0 if former is None else former.size)
    if rebalance.exceeds_limits(others + size_of(request.protocols)):
        refused = refused_join(request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
        if former is not None or request.member_id not in group.pending_joins:
            return Result((), refused)
        return turn_away(rebalance, group, request.member_id, refused)
    if not _has_room(group, request.member_id, rebalance.settings.max_size):
        answer = JoinGroupResponse(member_id="", error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
        return turn_away(rebalance, group, request.member_id, answer)
    if not group.supports(request.protocol_type, request.protocol_names):
        return _refused(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.member_id:
        return _join_new(rebalance, group, request)
    if request.member_id in group.pending_joins and request.instance_id is None:
        return _add(rebalance, group, request, request.member_id)
    try:
        member = group.validate_member(request.member_id, request.instance_id)
    except GroupError as error:
        return _refused(request.member_id, error.code)
    return _rejoin(rebalance, group, request, member)


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Returns whether the group has room for this client. Members keep their place; but during the join phase only those count
    that have joined, so that after the limit was lowered the last ones to come are refused.
    """
    if group.state is State.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is State.PREPARING_REBALANCE:
        return group.awaited_joins < max_size or (member is not None and member.awaiting_join is not None)
    return member is not None or len(group.members) < max_size


def _join_new(rebalance: Rebalance, group: ClassicGroup, request: Join) -> Result[JoinAnswer]:
    stem = request.client.client_id if request.instance_id is None else request.instance_id
    member_id = f"{stem}-{random_uuid_text(rebalance.random)}"
    if request.instance_id is not None:
        former_id = group.static_members.get(request.instance_id)
        if former_id is not None:
            return _replace_static(rebalance, group, request, former_id, member_id)
    elif request.requires_known_member_id:
        rebalance.hold_pending(group, member_id, request.session_timeout_ms)
        return _refused(member_id, ErrorCode.MEMBER_ID_REQUIRED)
    return _add(rebalance, group, request, member_id)


def _add(rebalance: Rebalance, group: ClassicGroup, request: Join, member_id: str) -> Result[JoinAnswer]:
    member = Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client=request.client,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
        is_new=True,
    )
    if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
        group.new_member_added = True
    group.add(member, request.protocol_type)
    future = group.park_join(member, request.version)
    rebalance.reset_session(group, member, rebalance.settings.new_member_join_timeout_ms)
    step = rebalance.prepare_or_complete(group, f"{member_id} joins; reason: {request.reason or 'none given'}")
    return Result(step.records, future, step.on_append)


def _rejoin(rebalance: Rebalance, group: ClassicGroup, request: Join, member: Member) -> Result[JoinAnswer]:
    unchanged = tuple(member.protocols) == request.protocols
    if group.state is State.COMPLETING_REBALANCE and unchanged:
        return Result((), group.joined_response(member))  # the answer to its first request was lost
    if group.state is State.STABLE and unchanged and group.leader != member.member_id:
        return Result((), group.joined_response(member))  # it may sync again; only a leader's JoinGroup requests a rebalance
    if group.state is State.EMPTY:
        return _refused(member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    future = group.park_join(member, request.version)
    step = rebalance.prepare_or_complete(group, f"{member.member_id} joins again; reason: {request.reason or 'none given'}")
    return Result(step.records, future, step.on_append)


def _replace_static(
    rebalance: Rebalance, group: ClassicGroup, request: Join, former_id: str, member_id: str
) -> Result[JoinAnswer]:
    """Replaces a static member that starts anew: the new member id takes over its place, assignment and leadership."""
    logger.info("group %s: static member %s is replaced by %s", group.group_id, former_id, member_id)
    former_leader = group.leader
    member = group.members[former_id]
    rebalance.fence(group, member)
    group.rename_static(former_id, member_id)
    former = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    rebalance.reset_session(group, member)
    future = group.park_join(member, request.version)

    if group.state is not State.STABLE or group.select_protocol() != group.protocol:
        reason = f"static member {request.instance_id} joins; reason: {request.reason or 'none given'}"
        step = rebalance.prepare_or_complete(group, reason)
        return Result(step.records, future, step.on_append)

    def written(error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            response = group.joined_response(member)
            if request.version >= SKIP_ASSIGNMENT_FROM:
                response.skip_assignment = response.leader == member_id
            else:
                # As the leader it would compute a new assignment that differs from the group's, so it must believe that another
                # member leads.
                response.leader = former_leader or ""
                response.members = []
            group.answer_join(member, response)
            return
        group.update(member, *former)
        group.rename_static(member_id, former_id)
        refused = group.joined_response(member)
        refused.error_code, refused.member_id, refused.members = error, "", []
        group.answer_join(member, refused)

    assignments = {other.member_id: other.assignment for other in group.members.values()}
    return Result((group.record(assignments),), future, written)
