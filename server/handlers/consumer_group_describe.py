"""ConsumerGroupDescribe v0-1 describes consumer groups: epochs, assignor, and what each member has and is going to have
(KIP-848).

- What a member has includes the partitions that it is about to give up. Topics that no longer exist are left out.
- v1 adds the type of each member: 0 classic, 1 consumer.
- If the feature group.version is 0, every group is answered 35 UNSUPPORTED_VERSION.
- The authorized operations, if the client asks for them, are all that exist for groups, because there is no authorizer.
- Errors of each group, with a message: 69 GROUP_ID_NOT_FOUND, also for a group of another kind; 24 INVALID_GROUP_ID for ""; and
  the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, all_kept, take_steps
from ottla.server.group.consumer.member import ConsumerMember
from ottla.server.group.consumer.protocol import ConsumerProtocol
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.assignor import NOTHING_ASSIGNED
from ottla.server.group.modern.assignor import Assignment as TargetAssignment
from ottla.server.metadata.feature_levels import GROUP_VERSION
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.operations import GROUP_OPERATIONS
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

TRAITS = Traits(Inside(Need(Operation.DESCRIBE, Resource.GROUP), Need(Operation.DESCRIBE, Resource.TOPIC)), long_answer=True)

CLASSIC, CONSUMER = 0, 1
NAMES_AT_ONCE: Final = 1_000
"""An answer with more names of topics takes another turn, so that a thread encodes it, however quickly it was made."""


def handle(
    body: ConsumerGroupDescribeRequest, request: Request
) -> ConsumerGroupDescribeResponse | Promise[ConsumerGroupDescribeResponse]:
    if not request.broker.metadata.features.get(GROUP_VERSION):
        code, text = ErrorCode.UNSUPPORTED_VERSION, f"{GROUP_VERSION} is 0 in this cluster."
        return ConsumerGroupDescribeResponse(groups=[DescribedGroup(code, text, group_id) for group_id in body.group_ids])

    def answer() -> Steps[ConsumerGroupDescribeResponse]:
        each_once: dict[str, DescribedGroup | Promise[DescribedGroup]] = {}
        for group_id in body.group_ids:
            if group_id not in each_once:
                each_once[group_id] = yield from _describe(group_id, request)
            yield None
        described = yield from all_kept(each_once[group_id] for group_id in body.group_ids)
        names = sum(len(member.subscribed_topic_names) for each in described for member in each.members)
        if names > NAMES_AT_ONCE:
            yield _next_turn(request)
        if body.include_authorized_operations:
            for each in described:
                if not each.error_code:
                    each.authorized_operations = GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=request.broker.long_answers.bounded(described))

    return take_steps(answer(), request.broker.clock)


def _next_turn(request: Request) -> Promise[None]:
    promise: Promise[None] = Promise()
    clock = request.broker.clock
    clock.turns.queue(clock, lambda until: None if promise.done() else promise.set_result(None))
    return promise


def _describe(group_id: str, request: Request) -> Steps[DescribedGroup | Promise[DescribedGroup]]:
    """Makes steps that describe a group as it is at the first of them."""
    try:
        shard = request.broker.groups.member_shard(group_id)
        protocol = shard.protocol(ConsumerProtocol)
        group = protocol.existing(group_id)
    except GroupError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    targets, members = dict(group.targets), []
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or protocol.default_assignor,
    )
    for member in list(group.members.values()):
        members.append(_member(member, targets.get(member.member_id, NOTHING_ASSIGNED), request))
        yield None
    described.members = request.broker.long_answers.shared(members)
    return shard.answer_or(described, lambda code: DescribedGroup(group_id=group_id, error_code=code))


def _member(member: ConsumerMember, target: TargetAssignment, request: Request) -> Member:
    held: dict[bytes, list[int]] = {}
    for part in (member.assigned, member.revoking):
        for topic_id, partitions in part.items():
            held.setdefault(topic_id, []).extend(partitions)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(held, request),
        target_assignment=_assignment(target, request),
        member_type=CLASSIC if member.is_classic else CONSUMER,
    )


def _assignment(held: Mapping[bytes, Iterable[int]], request: Request) -> Assignment:
    topics = request.broker.metadata.topics_by_id
    return Assignment(
        [
            TopicPartitions(topic_id, topics[topic_id].name, sorted(partitions))
            for topic_id, partitions in held.items()
            if topic_id in topics
        ]
    )
