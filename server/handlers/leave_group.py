"""LeaveGroup v0-5 removes members from a group: they leave, or an administrator removes them.

- From v3 on a request names several members, by member id or by group.instance.id alone, and each has its own error code. Before
  v3 it names one, and the error code is that of the answer.
- v5 adds a reason, which is logged.
- Errors: 24 INVALID_GROUP_ID, 25 UNKNOWN_MEMBER_ID, 82 FENCED_INSTANCE_ID, and the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS,
  15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.server.base.answers import map_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import answer_in_turns, in_runs
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Leaving
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

TRAITS = Traits(Inside(Need(Operation.READ, Resource.GROUP)))


MEMBERS_A_STEP = 500
"""So many members leave before others may come first. A group's members are hardly ever more."""


def handle(body: LeaveGroupRequest, request: Request) -> LeaveGroupResponse | Promise[LeaveGroupResponse]:
    if request.api_version < 3:
        return _leave([Leaving(body.member_id, None, None)], body, request)
    if len(body.members) <= MEMBERS_A_STEP:
        return _leave(_leavers(body.members), body, request)
    parts = in_runs(body.members, MEMBERS_A_STEP)
    answers = answer_in_turns(parts, lambda members: _leave(_leavers(members), body, request), request.broker.clock)
    return map_answer(answers, _join)


def _leavers(members: Sequence[MemberIdentity]) -> list[Leaving]:
    return [Leaving(member.member_id, member.group_instance_id, member.reason) for member in members]


def _join(answers: Sequence[LeaveGroupResponse]) -> LeaveGroupResponse:
    """Returns one answer for all parts of a request; if one was refused as a whole, its error is that of all."""
    refused = next((answer for answer in answers if answer.error_code), None)
    return refused or LeaveGroupResponse(members=[member for answer in answers for member in answer.members])


def _leave(
    leavers: Sequence[Leaving], body: LeaveGroupRequest, request: Request
) -> LeaveGroupResponse | Promise[LeaveGroupResponse]:
    try:
        shard = request.broker.groups.member_shard(body.group_id)
        left = shard.leave(body.group_id, leavers)
    except GroupError as error:
        if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            return LeaveGroupResponse(error_code=error.code)
        # There is no such group, so none of them is a member.
        return _answer(
            LeaveGroupResponse(
                members=[
                    MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=error.code)
                    for leaver in leavers
                ]
            ),
            request,
        )
    return shard.answer_or(_answer(left, request), lambda code: LeaveGroupResponse(error_code=code))


def _answer(response: LeaveGroupResponse, request: Request) -> LeaveGroupResponse:
    """Returns the answer in the shape of the request's version: before v3 it is that of its only member."""
    return response if request.api_version >= 3 else LeaveGroupResponse(error_code=response.members[0].error_code)
