"""LeaveGroup v0-5: members say goodbye, or an administrator removes them.

- v3 on, several at once, each with its own code: by member id, or by group.instance.id alone. Before, one, with the code on top.
- v5 a reason, for the log.
- Errors: 24 INVALID_GROUP_ID, 25 UNKNOWN_MEMBER_ID, 82 FENCED_INSTANCE_ID, and 14/15/16 of the coordinator.
"""

from __future__ import annotations

from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Leaving
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

TRAITS = Traits(Inside(Need(Operation.READ, Resource.GROUP)))


def handle(body: LeaveGroupRequest, request: Request) -> LeaveGroupResponse:
    if request.api_version >= 3:
        leavers = [Leaving(member.member_id, member.group_instance_id, member.reason) for member in body.members]
    else:
        leavers = [Leaving(body.member_id, None, None)]
    try:
        response = request.broker.groups.member_shard(body.group_id).leave(body.group_id, leavers)
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
    if request.api_version >= 3:
        return response
    return LeaveGroupResponse(error_code=response.members[0].error_code)
