"""JoinGroup v0-9: become a member of a group, and wait until all others have come too.

- The answer waits for the end of the join phase; the connection may close meanwhile, the group does not mind.
- v0 has no rebalance timeout: the session timeout stands in. v4 on, a new dynamic member is first told its id with
  MEMBER_ID_REQUIRED (KIP-394). v5 static members (KIP-345). v7 protocol type in the answer. v8 a reason, for the log. v9 a
  leader that came back as the same static member skips the assignment.
- Errors: 24 INVALID_GROUP_ID, 26 INVALID_SESSION_TIMEOUT, 23 INCONSISTENT_GROUP_PROTOCOL, 25 UNKNOWN_MEMBER_ID,
  79 MEMBER_ID_REQUIRED, 81 GROUP_MAX_SIZE_REACHED, 82 FENCED_INSTANCE_ID, 42 INVALID_REQUEST for names that the group's record
  cannot hold, and 14/15/16 of the coordinator.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.server.group.classic.group import with_protocol_name
from ottla.server.group.coordinator import LONGEST_STRING
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Client, Join, MemberProtocol
from ottla.server.requests.context import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

LONGEST_NAME: Final = LONGEST_STRING - 100
"""In bytes: a member id is made of a name and a uuid."""


def handle(request: JoinGroupRequest, ctx: RequestContext) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
    groups = ctx.broker.groups
    settings = groups.settings
    try:
        if not request.group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        names = [ctx.client_id, request.group_instance_id, request.protocol_type, *(each.name for each in request.protocols)]
        if any(len(name.encode()) > LONGEST_NAME for name in names if name):
            raise GroupError(ErrorCode.INVALID_REQUEST)
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            raise GroupError(ErrorCode.INVALID_SESSION_TIMEOUT)
        answer = groups.member_shard(request.group_id).join(request.group_id, _join(request, ctx))
    except GroupError as error:
        answer = JoinGroupResponse(member_id=request.member_id, error_code=error.code)
    if isinstance(answer, JoinGroupResponse):
        return with_protocol_name(answer, ctx.api_version)
    return answer.result() if answer.done() else answer


def _join(request: JoinGroupRequest, ctx: RequestContext) -> Join:
    return Join(
        version=ctx.api_version,
        client=Client(ctx.client_id or "", f"/{ctx.client_host}"),
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms if ctx.api_version >= 1 else request.session_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(MemberProtocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        reason=request.reason,
    )
