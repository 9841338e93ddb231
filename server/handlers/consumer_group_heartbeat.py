"""ConsumerGroupHeartbeat v0-1 is the only request of a consumer group's member: with it a member joins, stays and leaves
(KIP-848).

- Epoch 0 joins, -1 leaves, -2 means that a static member leaves and will return, and any higher epoch stays. A null field, or -1
  for the rebalance timeout, means that nothing has changed.
- With an authorizer, a pattern matches only topics that the member may DESCRIBE.
- In v0 a member may come without an id and is given one. In v1 it chooses its own, and may subscribe to a regular expression.
- The answer has an assignment if it holds news for the member: if the member joins, sends all its fields, or has gained or lost a
  partition.
- If the feature group.version is 0, everything is answered 35 UNSUPPORTED_VERSION.
- Errors, with a message: 42 INVALID_REQUEST; 24 INVALID_GROUP_ID for a name that no record can hold; 69 GROUP_ID_NOT_FOUND; 25
  UNKNOWN_MEMBER_ID; 110 FENCED_MEMBER_EPOCH; 111 UNRELEASED_INSTANCE_ID; 82 FENCED_INSTANCE_ID; 112 UNSUPPORTED_ASSIGNOR; 81
  GROUP_MAX_SIZE_REACHED; 128 INVALID_REGULAR_EXPRESSION; and the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15
  COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, one_kept, take_steps
from ottla.server.group.consumer.heartbeat import Heartbeat, HeartbeatAnswer
from ottla.server.group.consumer.member import Held
from ottla.server.group.consumer.protocol import ConsumerProtocol
from ottla.server.group.consumer.reconcile import collect_owned
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH
from ottla.server.group.modern.java_order import hash_order, uuid_hash
from ottla.server.group.requests import Client
from ottla.server.group.shard import GroupShard
from ottla.server.metadata.feature_levels import GROUP_VERSION
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from ottla.wire.primitives import LONGEST_STRING

TRAITS = Traits(Inside(Need(Operation.READ, Resource.GROUP), Need(Operation.DESCRIBE, Resource.TOPIC)))

Answer = ConsumerGroupHeartbeatResponse | Promise[ConsumerGroupHeartbeatResponse]

OWN_ID_SINCE: Final = 1


def handle(body: ConsumerGroupHeartbeatRequest, request: Request) -> Answer:
    try:
        if not request.broker.metadata.features.get(GROUP_VERSION):
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION, f"{GROUP_VERSION} is 0 in this cluster.")
        _check(body, request.api_version)
        shard = request.broker.groups.member_shard(body.group_id)
        protocol = shard.protocol(ConsumerProtocol)
        if body.server_assignor is not None and body.server_assignor not in protocol.assignors:
            text = f"There is no assignor '{body.server_assignor}'; choose one of {', '.join(protocol.assignors)}."
            raise GroupError(ErrorCode.UNSUPPORTED_ASSIGNOR, text)
        answer = protocol.group_heartbeat(body.group_id, _heartbeat(body, request, protocol))
    except GroupError as error:
        return _refusal(error)
    if isinstance(answer, Promise):
        return take_steps(_answer_later(answer, shard), request.broker.clock)
    return _answer(answer, shard)


def _answer_later(answer: Promise[HeartbeatAnswer], shard: GroupShard) -> Steps[ConsumerGroupHeartbeatResponse]:
    yield answer
    try:
        made = _answer(answer.result(), shard)
    except GroupError as error:
        return _refusal(error)
    return (yield from one_kept(made))


def _answer(
    answer: HeartbeatAnswer, shard: GroupShard
) -> ConsumerGroupHeartbeatResponse | Promise[ConsumerGroupHeartbeatResponse]:
    response = ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=None if answer.assigned is None else _assignment(answer.assigned),
    )
    return shard.answer_or(response, lambda code: ConsumerGroupHeartbeatResponse(error_code=code, error_message=code.name))


def _refusal(error: GroupError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message or error.code.name)


def _check(body: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Raises GroupError if the request is wrong whatever the group is."""
    epoch = body.member_epoch
    named = version >= OWN_ID_SINCE or epoch > 0 or epoch == LEAVING_EPOCH
    if named and not body.member_id:
        raise _invalid("A member needs an id.")
    for text, what in ((body.group_id, "group id"), (body.instance_id, "instance id"), (body.rack_id, "rack")):
        if text == "":
            raise _invalid(f"The {what} is empty.")
    if epoch == JOINING_EPOCH:
        if body.rebalance_timeout_ms == -1:
            raise _invalid("A joining member has to give its rebalance timeout.")
        if body.topic_partitions is None or body.topic_partitions:
            raise _invalid("A joining member has no partitions yet.")
        if body.subscribed_topic_names is None and body.subscribed_topic_regex is None:
            raise _invalid("A joining member has to give its subscription, even if that is empty.")
    elif epoch == LEAVING_STATIC_EPOCH and body.instance_id is None:
        raise _invalid("Only a static member can leave and return.")
    elif epoch < LEAVING_STATIC_EPOCH:
        raise _invalid(f"{epoch} is not a valid epoch.")
    texts = (body.member_id, body.instance_id, body.rack_id, body.subscribed_topic_regex)
    if any(text is not None and len(text.encode()) > LONGEST_STRING for text in texts):
        raise _invalid("An id, rack or expression is longer than a record can hold.")


def _invalid(text: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_REQUEST, text)


def _heartbeat(body: ConsumerGroupHeartbeatRequest, request: Request, protocol: ConsumerProtocol) -> Heartbeat:
    owned = body.topic_partitions
    return Heartbeat(
        member_id=body.member_id or protocol.new_member_id(),
        epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=None if body.rebalance_timeout_ms == -1 else body.rebalance_timeout_ms,
        topics=body.subscribed_topic_names,
        regex=body.subscribed_topic_regex,
        assignor=body.server_assignor,
        owned=None if owned is None else collect_owned((bytes(part.topic_id), part.partitions) for part in owned),
        client=Client(request.client_id or "", f"/{request.session.client_host}"),
        may_see=_sight(request),
    )


def _sight(request: Request) -> Callable[[str], bool] | None:
    """Returns what says which topics a pattern of the member may match; None without an authorizer."""
    ask = request.ask()
    return None if ask is None else lambda name: ask.topic(Operation.DESCRIBE, name, quiet=True)


def _assignment(assigned: Held) -> Assignment:
    return Assignment(
        [ResponseTopicPartitions(topic_id, sorted(assigned[topic_id])) for topic_id in hash_order(assigned, uuid_hash)]
    )
