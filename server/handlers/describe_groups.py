"""DescribeGroups v0-6 describes classic groups: their state, protocol, members and assignments.

- The protocol, and the metadata that members gave their leader, are shown only while the group is stable; assignments are always
  shown, as far as they are known.
- An unknown group, or one of a newer protocol, is answered with the state Dead; v6 (KIP-1043) adds 69 GROUP_ID_NOT_FOUND.
- v3 adds authorized operations on request: all that exist for groups, because there is no authorizer. v4 adds static members.
- Errors of each group: the above, and the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16
  NOT_COORDINATOR.
"""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, answer_once, take_steps
from ottla.server.group.classic.group import ClassicGroup, State
from ottla.server.group.classic.members import Member
from ottla.server.group.errors import GroupError
from ottla.server.group.group import Group
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.operations import GROUP_OPERATIONS
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

TRAITS = Traits(Inside(Need(Operation.DESCRIBE, Resource.GROUP)), long_answer=True)


def handle(body: DescribeGroupsRequest, request: Request) -> DescribeGroupsResponse | Promise[DescribeGroupsResponse]:
    def answer() -> Steps[DescribeGroupsResponse]:
        described = yield from answer_once(body.groups, lambda group_id: _describe(group_id, request))
        if body.include_authorized_operations:
            for each in described:
                if each.error_code == ErrorCode.NONE:
                    each.authorized_operations = GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=request.broker.long_answers.bounded(described))

    return take_steps(answer(), request.broker.clock)


def _describe(group_id: str, request: Request) -> DescribedGroup | Promise[DescribedGroup]:
    try:
        shard = request.broker.groups.shard(group_id)
    except GroupError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    described = _state(group_id, shard.groups.get(group_id), request)
    return shard.answer_or(described, lambda code: DescribedGroup(group_id=group_id, error_code=code))


def _state(group_id: str, group: Group | None, request: Request) -> DescribedGroup:
    if not isinstance(group, ClassicGroup):
        unknown = DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
        if request.api_version >= 6:
            unknown.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            kind = "" if group is None else group.kind.value
            unknown.error_message = f"'{group_id}' is a {kind} group." if kind else f"There is no group '{group_id}'."
        return unknown
    stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=request.broker.long_answers.shared(_member(group, member) for member in group.members.values()),
    )


def _member(group: ClassicGroup, member: Member) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client.client_id,
        client_host=member.client.host,
        member_metadata=member.metadata(group.protocol) if group.state is State.STABLE else b"",
        member_assignment=member.assignment,
    )
