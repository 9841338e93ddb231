"""Handles the requests of a member after it has joined: SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ottla.server.group.classic.group import ClassicGroup, State
from ottla.server.group.classic.members import Member
from ottla.server.group.classic.rebalance import Rebalance
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Leaving, Sync, SyncAnswer
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupResponse, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

logger = logging.getLogger("ottla.server.group")


def sync(rebalance: Rebalance, group: ClassicGroup, request: Sync) -> Result[SyncAnswer]:
    """Answers the member with its assignment. The answer is parked until the leader has sent the assignments. Raises
    GroupError.
    """
    member = group.validate_member(request.member_id, request.instance_id)
    if request.generation != group.generation:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol, group.protocol):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is State.PREPARING_REBALANCE:
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
    rebalance.synced(group, member)
    if group.state is State.STABLE:
        return Result(
            (),
            SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment),
        )
    assert group.state is State.COMPLETING_REBALANCE, group.state
    future = group.park_sync(member)
    if group.leader != member.member_id:
        return Result((), future)
    return _stabilize(rebalance, group, request, future)


def _stabilize(
    rebalance: Rebalance, group: ClassicGroup, request: Sync, future: asyncio.Future[SyncGroupResponse]
) -> Result[SyncAnswer]:
    """Writes the leader's assignments; a member that it left out gets an empty one."""

    def written(error: ErrorCode) -> Result[None] | None:
        if error is ErrorCode.NONE:
            rebalance.hand_out(group)
            return None
        rebalance.refuse_syncs(group, error)
        return rebalance.prepare(group, f"the assignments could not be written: {error.name}")

    assignments = {member_id: request.assignments.get(member_id, b"") for member_id in group.members}
    if rebalance.exceeds_limits(sum(map(len, assignments.values()))):  # would take long to encode only to be refused by the log
        refused = written(ErrorCode.MESSAGE_TOO_LARGE)
        assert refused is not None
        return Result(refused.records, future, refused.on_append)
    return Result((group.record(assignments),), future, written)


def _differ(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


def heartbeat(rebalance: Rebalance, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """Keeps the member's session alive. Returns REBALANCE_IN_PROGRESS to make it join again. Raises GroupError."""
    member = group.validate_member(member_id, instance_id)
    if generation != group.generation:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    rebalance.reset_session(group, member)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE


def leave(rebalance: Rebalance, group: ClassicGroup, leavers: Sequence[Leaving]) -> Result[LeaveGroupResponse]:
    """Removes members, each with its own error code, and starts one rebalance for all of them."""
    answers = []
    left = 0
    for leaver in leavers:
        error = _leave_one(rebalance, group, leaver)
        left += error is ErrorCode.NONE
        answers.append(MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=error))
    response = LeaveGroupResponse(members=answers)
    if not left or group.state is State.EMPTY:
        return Result((), response)
    step = rebalance.prepare_or_complete(group, f"{left} of its members have left" if left > 1 else "a member has left")
    return Result(step.records, response, step.on_append)


def _leave_one(rebalance: Rebalance, group: ClassicGroup, leaver: Leaving) -> ErrorCode:
    member: Member
    if leaver.member_id in group.pending_joins:
        group.remove(leaver.member_id)
        return ErrorCode.NONE
    try:
        member_id = leaver.member_id
        if not member_id and leaver.instance_id is not None:
            member_id = group.static_members.get(leaver.instance_id, "")
        member = group.validate_member(member_id, leaver.instance_id)
    except GroupError as error:
        # Without a member id, as with one, an instance id that no member has is unknown.
        return error.code if leaver.member_id else ErrorCode.UNKNOWN_MEMBER_ID
    logger.info("group %s: %s leaves; reason: %s", group.group_id, member.member_id, leaver.reason or "none given")
    rebalance.drop(group, member)
    return ErrorCode.NONE
