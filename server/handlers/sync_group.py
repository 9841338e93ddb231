"""SyncGroup v0-5: the leader brings the assignments of its generation, the others fetch theirs.

- Waits until the leader has come; at once in a stable group.
- v3 static members. v5 (KIP-559) protocol type and name are mandatory and must be the group's: 23 INCONSISTENT_GROUP_PROTOCOL.
- Errors: 24 INVALID_GROUP_ID, 22 ILLEGAL_GENERATION, 25 UNKNOWN_MEMBER_ID, 27 REBALANCE_IN_PROGRESS, 82 FENCED_INSTANCE_ID,
  and 14/15/16 of the coordinator.
"""

from __future__ import annotations

import asyncio

from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Sync
from ottla.server.requests.context import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(request: SyncGroupRequest, ctx: RequestContext) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
    try:
        if ctx.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        shard = ctx.broker.groups.member_shard(request.group_id)
        answer = shard.sync(
            request.group_id,
            Sync(
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                generation=request.generation_id,
                protocol_type=request.protocol_type,
                protocol=request.protocol_name,
                assignments={each.member_id: bytes(each.assignment) for each in request.assignments},
            ),
        )
    except GroupError as error:
        return SyncGroupResponse(error_code=error.code)
    if isinstance(answer, SyncGroupResponse):
        return answer
    return answer.result() if answer.done() else answer
