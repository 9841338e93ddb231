"""Guards of the APIs about groups as such: finding, joining, listing, describing and deleting them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ottla.server.base.turns import Steps
from ottla.server.group.classic.group import with_protocol_name
from ottla.server.guards.ask import (
    CLUSTER,
    GROUP,
    OPERATIONS_A_STEP,
    TEXTS,
    TOPIC,
    TRANSACTION,
    answered,
    change_answer,
    in_turns,
    make_each,
    select,
)
from ottla.server.requests.link import Handle
from ottla.server.requests.request import Request
from ottla.server.security.authorizer import Ask
from ottla.server.security.operations import GROUP_OPERATIONS
from ottla.server.security.rights import Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import (
    consumer_group_describe as consumer_messages,
)
from ottla.wire.messages import (
    share_group_describe as share_messages,
)
from ottla.wire.messages import (
    streams_group_describe as streams_messages,
)
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_SEVERAL_SINCE: Final = 4
"""The version since which FindCoordinator has several keys."""
_OF_GROUP, _OF_TRANSACTION, _OF_SHARE_PARTITION = range(3)


@in_turns
def find_coordinator(ask: Ask, handle: Handle, body: FindCoordinatorRequest, request: Request) -> Steps[Any]:
    """Asks for DESCRIBE on each group or transactional id, and for CLUSTER_ACTION if the keys are share partitions."""
    several = request.api_version >= _SEVERAL_SINCE
    keys = body.coordinator_keys if several else [body.key]
    codes = yield from make_each(keys, lambda key: _cannot_find(key, body.key_type, ask))
    if not any(codes):
        return handle(body, request)
    if not several:
        (code,) = codes
        assert code is not None
        return FindCoordinatorResponse(error_code=code, error_message=TEXTS[code], node_id=-1, port=-1)
    body.coordinator_keys = [key for key, code in zip(keys, codes, strict=True) if code is None]

    def add(answer: FindCoordinatorResponse) -> FindCoordinatorResponse:
        found = iter(answer.coordinators)
        answer.coordinators = [
            next(found) if code is None else Coordinator(key, -1, "", -1, code, TEXTS[code] if code is CLUSTER else "")
            for key, code in zip(keys, codes, strict=True)
        ]
        return answer

    return change_answer(handle(body, request), add)


def _cannot_find(key: str, kind: int, ask: Ask) -> ErrorCode | None:
    if kind == _OF_GROUP:
        return None if ask.group(Operation.DESCRIBE, key) else GROUP
    if kind == _OF_TRANSACTION:
        return None if ask.transaction(Operation.DESCRIBE, key) else TRANSACTION
    if kind == _OF_SHARE_PARTITION:
        return None if ask.cluster(Operation.CLUSTER_ACTION) else CLUSTER
    return None


# Members of classic groups


def join_group(ask: Ask, handle: Handle, body: JoinGroupRequest, request: Request) -> Any:
    """Asks for READ on the group."""
    if ask.group(Operation.READ, body.group_id):
        return handle(body, request)
    return with_protocol_name(JoinGroupResponse(error_code=GROUP), request.api_version)


def sync_group(ask: Ask, handle: Handle, body: SyncGroupRequest, request: Request) -> Any:
    """Asks for READ on the group."""
    return handle(body, request) if ask.group(Operation.READ, body.group_id) else SyncGroupResponse(error_code=GROUP)


def heartbeat(ask: Ask, handle: Handle, body: HeartbeatRequest, request: Request) -> Any:
    """Asks for READ on the group."""
    return handle(body, request) if ask.group(Operation.READ, body.group_id) else HeartbeatResponse(error_code=GROUP)


def leave_group(ask: Ask, handle: Handle, body: LeaveGroupRequest, request: Request) -> Any:
    """Asks for READ on the group."""
    return handle(body, request) if ask.group(Operation.READ, body.group_id) else LeaveGroupResponse(error_code=GROUP)


# Listing, describing, deleting


@in_turns
def list_groups(ask: Ask, handle: Handle, body: ListGroupsRequest, request: Request) -> Steps[Any]:
    """Asks for DESCRIBE on the cluster, with which all groups are shown, or else on each group; the others are hidden."""
    if ask.cluster(Operation.DESCRIBE, quiet=True):
        return handle(body, request)
    answer: ListGroupsResponse = yield from answered(handle(body, request))
    answer.groups = yield from select(answer.groups, lambda group: ask.group(Operation.DESCRIBE, group.group_id, quiet=True))
    return answer


@in_turns
def describe_groups(ask: Ask, handle: Handle, body: DescribeGroupsRequest, request: Request) -> Steps[Any]:
    """Asks for DESCRIBE on each group."""
    names = dict.fromkeys(body.groups)
    refused = dict.fromkeys((yield from select(names, lambda name: not ask.group(Operation.DESCRIBE, name))))
    body.groups = [name for name in body.groups if name not in refused]

    refusals = yield from make_each(refused, lambda name: DescribedGroup(GROUP, group_id=name))
    answer: DescribeGroupsResponse = yield from answered(handle(body, request))
    if body.include_authorized_operations:
        yield from _set_operations(answer.groups, ask)
    answer.groups += refusals
    return answer


def _set_operations(groups: Iterable[Any], ask: Ask) -> Steps[None]:
    for at, group in enumerate(groups, 1):
        if not group.error_code:
            group.authorized_operations = ask.rights.bits(GROUP_OPERATIONS, Resource.GROUP, group.group_id)
        if at % OPERATIONS_A_STEP == 0:
            yield None


@in_turns
def consumer_group_describe(
    ask: Ask, handle: Handle, body: consumer_messages.ConsumerGroupDescribeRequest, request: Request
) -> Steps[Any]:
    """Asks for DESCRIBE on each group, and on all topics of its members."""
    return (yield from _describe(ask, handle, body, request, consumer_messages.DescribedGroup, _consumers_topics))


@in_turns
def share_group_describe(
    ask: Ask, handle: Handle, body: share_messages.ShareGroupDescribeRequest, request: Request
) -> Steps[Any]:
    """Asks for DESCRIBE on each group, and on all topics of its members."""
    return (yield from _describe(ask, handle, body, request, share_messages.DescribedGroup, _share_consumers_topics))


@in_turns
def streams_group_describe(
    ask: Ask, handle: Handle, body: streams_messages.StreamsGroupDescribeRequest, request: Request
) -> Steps[Any]:
    """Asks for DESCRIBE on each group, and on all topics of its topology."""
    return (yield from _describe(ask, handle, body, request, streams_messages.DescribedGroup, _topologys_topics))


def _describe(
    ask: Ask, handle: Handle, body: Any, request: Request, described: Callable[..., Any], topics: Callable[[Any], set[str]]
) -> Steps[Any]:
    """Guards a description that shows topics: a group with a topic that the client may not see is refused as a whole."""
    names = dict.fromkeys(body.group_ids)
    refused = dict.fromkeys((yield from select(names, lambda name: not ask.group(Operation.DESCRIBE, name))))
    body.group_ids = [name for name in body.group_ids if name not in refused]

    refusals = yield from make_each(refused, lambda name: described(GROUP, None, name))
    answer = yield from answered(handle(body, request))
    if body.include_authorized_operations:
        yield from _set_operations(answer.groups, ask)
    for at, group in enumerate(answer.groups, 1):
        if not group.error_code and not all(ask.topic(Operation.DESCRIBE, name) for name in sorted(topics(group))):
            group.error_code, group.error_message, group.members = TOPIC, "The group has topics that need a right.", []
            if hasattr(group, "topology"):
                group.topology = None
        if at % OPERATIONS_A_STEP == 0:
            yield None
    answer.groups += refusals
    return answer


def _consumers_topics(group: consumer_messages.DescribedGroup) -> set[str]:
    assignments = [each for member in group.members for each in (member.assignment, member.target_assignment)]
    subscribed = {name for member in group.members for name in member.subscribed_topic_names}
    return subscribed | {topic.topic_name for assignment in assignments for topic in assignment.topic_partitions}


def _share_consumers_topics(group: share_messages.DescribedGroup) -> set[str]:
    subscribed = {name for member in group.members for name in member.subscribed_topic_names}
    return subscribed | {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}


def _topologys_topics(group: streams_messages.DescribedGroup) -> set[str]:
    if group.topology is None or group.topology.subtopologies is None:
        return set()
    return {
        name
        for each in group.topology.subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.state_changelog_topics),
            *(topic.name for topic in each.repartition_source_topics),
        )
    }


@in_turns
def delete_groups(ask: Ask, handle: Handle, body: DeleteGroupsRequest, request: Request) -> Steps[Any]:
    """Asks for DELETE on each group."""
    names = dict.fromkeys(body.groups_names)
    refused = dict.fromkeys((yield from select(names, lambda name: not ask.group(Operation.DELETE, name))))
    body.groups_names = [name for name in body.groups_names if name not in refused]

    refusals = yield from make_each(refused, lambda name: DeletableGroupResult(name, GROUP))

    def add(answer: DeleteGroupsResponse) -> DeleteGroupsResponse:
        answer.results += refusals
        return answer

    return change_answer(handle(body, request), add)
