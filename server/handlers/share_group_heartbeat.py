"""ShareGroupHeartbeat v1 is how a member of a share group joins (epoch 0), stays (its own epoch) and leaves (-1) (KIP-932).

- Clients choose their own member ids, of at most 36 characters. A first heartbeat names the subscribed topics.
- The answer has the assignment if it is new to the member, or if the request names topics.
- Partitions without state are initialized with the share coordinator after the answer (server/share/group_state.py), so members
  get them with a later heartbeat.
- Errors: 42 INVALID_REQUEST, 35 UNSUPPORTED_VERSION if share.version is 0, 69 GROUP_ID_NOT_FOUND, also for a group of another
  kind, 25 UNKNOWN_MEMBER_ID, 110 FENCED_MEMBER_EPOCH, 81 GROUP_MAX_SIZE_REACHED, and the coordinator's 14
  COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR. All but the coordinator's have a message,
  except for a member id of the wrong length.
"""

from __future__ import annotations

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, one_kept, take_steps
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.epochs import JOINING_EPOCH, LEAVING_EPOCH
from ottla.server.group.requests import Client
from ottla.server.group.shard import GroupShard
from ottla.server.group.share.member import LONGEST_MEMBER_ID, ordered
from ottla.server.group.share.protocol import Heartbeat, HeartbeatAnswer, ShareProtocol
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.share.group_state import is_enabled
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

TRAITS = Traits(Inside(Need(Operation.READ, Resource.GROUP), Need(Operation.DESCRIBE, Resource.TOPIC)))


Answer = ShareGroupHeartbeatResponse | Promise[ShareGroupHeartbeatResponse]


def handle(body: ShareGroupHeartbeatRequest, request: Request) -> Answer:
    try:
        if not is_enabled(request.broker.metadata):
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION, "There are no share groups: share.version is 0.")
        _check(body)
        client = Client(request.client_id or "", f"/{request.session.client_host}")
        heartbeat = Heartbeat(body.member_id, body.member_epoch, body.rack_id, body.subscribed_topic_names, client)
        shard = request.broker.groups.member_shard(body.group_id)
        answer = shard.protocol(ShareProtocol).group_heartbeat(body.group_id, heartbeat)
    except GroupError as error:
        return _refusal(error)
    if isinstance(answer, Promise):
        return take_steps(_answer_later(answer, body.group_id, shard, request), request.broker.clock)
    return _answer(answer, body.group_id, shard, request)


def _answer_later(
    answer: Promise[HeartbeatAnswer], group_id: str, shard: GroupShard, request: Request
) -> Steps[ShareGroupHeartbeatResponse]:
    yield answer
    try:
        made = _answer(answer.result(), group_id, shard, request)
    except GroupError as error:
        return _refusal(error)
    return (yield from one_kept(made))


def _answer(answer: HeartbeatAnswer, group_id: str, shard: GroupShard, request: Request) -> Answer:
    wanted = answer.initialize
    if wanted is not None:
        state = request.broker.share_group_state()
        shard.when_replicated(lambda code: None if code else state.initialize_after_heartbeat(group_id, wanted))
    response = ShareGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=_assignment(answer),
    )
    return shard.answer_or(response, lambda code: ShareGroupHeartbeatResponse(error_code=code))


def _refusal(error: GroupError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def _assignment(answer: HeartbeatAnswer) -> Assignment | None:
    if answer.assigned is None:
        return None
    return Assignment([TopicPartitions(*each) for each in ordered(answer.assigned)])


def _check(body: ShareGroupHeartbeatRequest) -> None:
    """Raises GroupError if the request is wrong whatever the group is."""
    if not 0 < len(body.member_id) <= LONGEST_MEMBER_ID:
        raise GroupError(ErrorCode.INVALID_REQUEST)
    wrong = None
    if not body.member_id.strip():
        wrong = "The member id is empty."
    elif not body.group_id.strip():
        wrong = "The group id is empty."
    elif body.rack_id is not None and not body.rack_id.strip():
        wrong = "The rack id is empty."
    elif body.member_epoch == JOINING_EPOCH and not body.subscribed_topic_names:
        wrong = "A joining member has to name its topics."
    elif body.member_epoch < LEAVING_EPOCH:
        wrong = f"{body.member_epoch} is not a valid member epoch."
    if wrong is not None:
        raise GroupError(ErrorCode.INVALID_REQUEST, wrong)
