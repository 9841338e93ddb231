"""ShareGroupDescribe v1 describes share groups: epochs, members and assignments (KIP-932).

- Topics that no longer exist are left out of assignments. The only assignor is `simple`.
- If the feature share.version is 0, every group is answered 35 UNSUPPORTED_VERSION.
- The authorized operations, if the client asks for them, are all that exist for groups, because there is no authorizer.
- Errors of each group, with a message: 69 GROUP_ID_NOT_FOUND, also for a group of another kind; 24 INVALID_GROUP_ID for ""; and
  the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR.
"""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, answer_once, take_steps
from ottla.server.group.errors import GroupError
from ottla.server.group.share import assignor
from ottla.server.group.share.member import ShareMember, ordered
from ottla.server.group.share.protocol import ShareProtocol
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.operations import GROUP_OPERATIONS
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.share.group_state import is_enabled
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

TRAITS = Traits(Inside(Need(Operation.DESCRIBE, Resource.GROUP), Need(Operation.DESCRIBE, Resource.TOPIC)), long_answer=True)


def handle(body: ShareGroupDescribeRequest, request: Request) -> ShareGroupDescribeResponse | Promise[ShareGroupDescribeResponse]:
    if not is_enabled(request.broker.metadata):
        code, text = ErrorCode.UNSUPPORTED_VERSION, "There are no share groups: share.version is 0."
        return ShareGroupDescribeResponse(groups=[DescribedGroup(code, text, group_id) for group_id in body.group_ids])

    def answer() -> Steps[ShareGroupDescribeResponse]:
        described = yield from answer_once(body.group_ids, lambda group_id: _describe(group_id, request))
        if body.include_authorized_operations:
            for each in described:
                if not each.error_code:
                    each.authorized_operations = GROUP_OPERATIONS
        return ShareGroupDescribeResponse(groups=request.broker.long_answers.bounded(described))

    return take_steps(answer(), request.broker.clock)


def _describe(group_id: str, request: Request) -> DescribedGroup | Promise[DescribedGroup]:
    try:
        shard = request.broker.groups.member_shard(group_id)
        group = shard.protocol(ShareProtocol).group(group_id)
    except GroupError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor.NAME,
        members=request.broker.long_answers.shared(_member(member, request) for member in group.members.values()),
    )
    return shard.answer_or(described, lambda code: DescribedGroup(group_id=group_id, error_code=code))


def _member(member: ShareMember, request: Request) -> Member:
    topics = request.broker.metadata.topics_by_id
    there = [(topic_id, partitions) for topic_id, partitions in ordered(member.assigned) if topic_id in topics]
    held = [TopicPartitions(topic_id, topics[topic_id].name, partitions) for topic_id, partitions in there]
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(held),
    )
