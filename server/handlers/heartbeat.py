"""Heartbeat v0-4 keeps a member of a group alive, and tells it when it has to join again.

- 27 REBALANCE_IN_PROGRESS is answered only while members are joining; after that a member learns from its SyncGroup.
- A group that is still being loaded answers 0, so that no member gives up its place because the broker has just started.
- v3 adds static members: 82 FENCED_INSTANCE_ID once another member has taken the place.
- Errors: 24 INVALID_GROUP_ID, 22 ILLEGAL_GENERATION, 25 UNKNOWN_MEMBER_ID, and the coordinator's 15 COORDINATOR_NOT_AVAILABLE and
  16 NOT_COORDINATOR.
"""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.group.errors import GroupError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

TRAITS = Traits(Inside(Need(Operation.READ, Resource.GROUP)))


def handle(body: HeartbeatRequest, request: Request) -> HeartbeatResponse | Promise[HeartbeatResponse]:
    group_id = body.group_id
    try:
        shard = request.broker.groups.member_shard(group_id)
        code = shard.heartbeat(group_id, body.member_id, body.group_instance_id, body.generation_id)
    except GroupError as error:
        code = ErrorCode.NONE if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error.code
        return HeartbeatResponse(error_code=code)
    return shard.answer_or(HeartbeatResponse(error_code=code), lambda code: HeartbeatResponse(error_code=code))
