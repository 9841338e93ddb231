"""ListGroups v0-5 lists the groups that this broker coordinates.

- v4 adds a filter by state and v5 one by type. The names in filters are compared without regard to case, and an unknown name
  matches nothing.
- Error: 14 COORDINATOR_LOAD_IN_PROGRESS while a partition of `__consumer_offsets` is still being read.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.group.errors import GroupError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Either, Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

GROUPS_A_STEP = 100
"""So many groups are looked at before others may come first."""

TRAITS = Traits(Inside(Either(Need(Operation.DESCRIBE, Resource.CLUSTER), Need(Operation.DESCRIBE, Resource.GROUP))))


def handle(body: ListGroupsRequest, request: Request) -> ListGroupsResponse | Promise[ListGroupsResponse]:
    return take_steps(_list(body, request), request.broker.clock)


def _list(body: ListGroupsRequest, request: Request) -> Steps[ListGroupsResponse]:
    """Makes steps that list the groups that there are when the first is taken, each in the state that it has when its turn
    comes."""
    states = _names(body.states_filter)
    types = _names(body.types_filter)
    try:
        groups = list(request.broker.groups.all_groups())
    except GroupError as error:
        return ListGroupsResponse(error_code=error.code)
    listed = []
    for at, group in enumerate(groups):
        if at and at % GROUPS_A_STEP == 0:
            yield None
        if (not states or group.state_name.lower() in states) and (not types or group.kind.value in types):
            listed.append(ListedGroup(group.group_id, group.protocol_type or "", group.state_name, group.kind.value))
    answer = request.broker.groups.answer_about_all(
        ListGroupsResponse(groups=listed), lambda _: ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    )
    if isinstance(answer, Promise):
        yield answer
        return answer.result()
    return answer


def _names(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(text.strip().lower() for text in texts)
