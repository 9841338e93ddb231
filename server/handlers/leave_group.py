"""LeaveGroup v0-5: members say goodbye, or an administrator removes them.

- v3 on, several at once, each with its own code: by member id, or by group.instance.id alone. Before, one, with the code on top.
- v5 a reason, for the log.
- Errors: 24 INVALID_GROUP_ID, 25 UNKNOWN_MEMBER_ID, 82 FENCED_INSTANCE_ID, and 14/15/16 of the coordinator.
"""

from __future__ import annotations

from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Leaving
from ottla.server.requests.context import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse


def handle(request: LeaveGroupRequest, ctx: RequestContext) -> LeaveGroupResponse:
    if ctx.api_version >= 3:
        leavers = [Leaving(member.member_id, member.group_instance_id, member.reason) for member in request.members]
    else:
        leavers = [Leaving(request.member_id, None, None)]
    try:
        response = ctx.broker.groups.member_shard(request.group_id).leave(request.group_id, leavers)
    except GroupError as error:
        if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            return LeaveGroupResponse(error_code=error.code)
        # There is no such group: then none of them is a member.
        response = LeaveGroupResponse(
            members=[
                MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=error.code)
                for leaver in leavers
            ]
        )
    if ctx.api_version >= 3:
        return response
    return LeaveGroupResponse(error_code=response.members[0].error_code)
