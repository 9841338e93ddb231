"""JoinGroup v0-9 makes a client a member of a group, and answers when all other members have joined as well.

- The answer waits for the end of the join phase. If the connection closes meanwhile, the group goes on as before.
- v0 has no rebalance timeout, so the session timeout is used. From v4 on a new dynamic member is first given its id, with 79
  MEMBER_ID_REQUIRED (KIP-394). v5 adds static members (KIP-345), v7 the protocol type in the answer, v8 a reason, which is
  logged. In v9 a leader that returns as the same static member skips the assignment.
- Errors: 24 INVALID_GROUP_ID; 26 INVALID_SESSION_TIMEOUT; 23 INCONSISTENT_GROUP_PROTOCOL; 25 UNKNOWN_MEMBER_ID; 79
  MEMBER_ID_REQUIRED; 81 GROUP_MAX_SIZE_REACHED, also for more metadata than the members of a group may bring, which Kafka finds
  out once the leader syncs (-1); 82 FENCED_INSTANCE_ID; 42 INVALID_REQUEST for names that the group's record cannot hold, and for
  more than 100 protocols; and the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16
  NOT_COORDINATOR.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from ottla.server.base.promise import Promise
from ottla.server.group.classic.group import with_protocol_name
from ottla.server.group.classic.member_limits import MOST_PROTOCOLS, are_too_many
from ottla.server.group.classic.protocol import ClassicProtocol
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Client, Join, MemberProtocol
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.primitives import LONGEST_STRING

TRAITS = Traits(Inside(Need(Operation.READ, Resource.GROUP)))

LONGEST_NAME: Final = LONGEST_STRING - 100
"""The limit in bytes of a name, which leaves room for the uuid in a member id."""


def handle(
    body: JoinGroupRequest, request: Request
) -> JoinGroupResponse | Promise[JoinGroupResponse] | asyncio.Future[JoinGroupResponse]:
    groups = request.broker.groups
    settings = groups.settings
    try:
        if not body.group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        if len(body.protocols) > MOST_PROTOCOLS:
            raise GroupError(ErrorCode.INVALID_REQUEST)
        names = [request.client_id or "", body.group_instance_id or "", body.protocol_type]
        names += [each.name for each in body.protocols]
        if max(map(len, map(str.encode, names))) > LONGEST_NAME:
            raise GroupError(ErrorCode.INVALID_REQUEST)
        if not settings.min_session_timeout_ms <= body.session_timeout_ms <= settings.max_session_timeout_ms:
            raise GroupError(ErrorCode.INVALID_SESSION_TIMEOUT)
        shard = groups.member_shard(body.group_id)
        if are_too_many(sum(len(each.metadata) for each in body.protocols), settings, request.broker.metadata):
            shard.protocol(ClassicProtocol).turn_away(body.group_id, body.member_id)
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        answer = shard.join(body.group_id, _join(body, request))
    except GroupError as error:
        return _refusal(body, request, error.code)
    if isinstance(answer, JoinGroupResponse):
        return shard.answer_or(with_protocol_name(answer, request.api_version), partial(_refusal, body, request))
    return answer.result() if answer.done() else answer


def _refusal(body: JoinGroupRequest, request: Request, code: ErrorCode) -> JoinGroupResponse:
    return with_protocol_name(JoinGroupResponse(member_id=body.member_id, error_code=code), request.api_version)


def _join(body: JoinGroupRequest, request: Request) -> Join:
    return Join(
        version=request.api_version,
        client=Client(request.client_id or "", f"/{request.session.client_host}"),
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms if request.api_version >= 1 else body.session_timeout_ms,
        session_timeout_ms=body.session_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=tuple(MemberProtocol(protocol.name, bytes(protocol.metadata)) for protocol in body.protocols),
        reason=body.reason,
    )
