"""ListGroups v0-5 lists the groups that this broker coordinates.

- v4 adds a filter by state and v5 one by type. The names in filters are compared without regard to case, and an unknown name
  matches nothing.
- Error: 14 COORDINATOR_LOAD_IN_PROGRESS while a partition of `__consumer_offsets` is still being read.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.server.base.promise import Promise
from ottla.server.group.errors import GroupError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Either, Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

TRAITS = Traits(Inside(Either(Need(Operation.DESCRIBE, Resource.CLUSTER), Need(Operation.DESCRIBE, Resource.GROUP))))


def handle(body: ListGroupsRequest, request: Request) -> ListGroupsResponse | Promise[ListGroupsResponse]:
    states = _names(body.states_filter)
    types = _names(body.types_filter)
    try:
        listed = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state_name,
                group_type=group.kind.value,
            )
            for group in request.broker.groups.all_groups()
            if (not states or group.state_name.lower() in states) and (not types or group.kind.value in types)
        ]
    except GroupError as error:
        return ListGroupsResponse(error_code=error.code)
    return request.broker.groups.answer_about_all(
        ListGroupsResponse(groups=listed), lambda _: ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    )


def _names(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(text.strip().lower() for text in texts)
