"""SyncGroup v0-5 brings the leader's assignments for its generation, and gives every member its own.

- The answer waits until the leader's request has come; in a stable group it comes at once.
- v3 adds static members. In v5 (KIP-559) protocol type and name are mandatory and must be the group's: 23
  INCONSISTENT_GROUP_PROTOCOL.
- Errors: 24 INVALID_GROUP_ID, 22 ILLEGAL_GENERATION, 25 UNKNOWN_MEMBER_ID, 27 REBALANCE_IN_PROGRESS, 82 FENCED_INSTANCE_ID, and
  the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR.
"""

from __future__ import annotations

import asyncio

from ottla.server.base.promise import Promise
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Sync
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

TRAITS = Traits(Inside(Need(Operation.READ, Resource.GROUP)))


def handle(
    body: SyncGroupRequest, request: Request
) -> SyncGroupResponse | Promise[SyncGroupResponse] | asyncio.Future[SyncGroupResponse]:
    try:
        if request.api_version >= 5 and (body.protocol_type is None or body.protocol_name is None):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        shard = request.broker.groups.member_shard(body.group_id)
        answer = shard.sync(
            body.group_id,
            Sync(
                member_id=body.member_id,
                instance_id=body.group_instance_id,
                generation=body.generation_id,
                protocol_type=body.protocol_type,
                protocol=body.protocol_name,
                assignments={each.member_id: bytes(each.assignment) for each in body.assignments},
            ),
        )
    except GroupError as error:
        return SyncGroupResponse(error_code=error.code)
    if isinstance(answer, SyncGroupResponse):
        return shard.answer_or(answer, lambda code: SyncGroupResponse(error_code=code))
    return answer.result() if answer.done() else answer
