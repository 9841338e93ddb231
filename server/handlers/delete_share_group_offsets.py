"""DeleteShareGroupOffsets v0 forgets what a share group without members did in topics (KIP-932).

- 35 UNSUPPORTED_VERSION if the feature share.version is 0.
- Errors of the group, with a message: 24 INVALID_GROUP_ID for "", 69 GROUP_ID_NOT_FOUND, also for a group of another kind, 68
  NON_EMPTY_GROUP, and the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR.
- Errors of a topic, with a message: 3 UNKNOWN_TOPIC_OR_PARTITION if there is no such topic or the group has no state in it, and
  whatever the share coordinator answers.
- For a group that never started in any partition the answer names no topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from ottla.server.base.answers import chain_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, one_kept
from ottla.server.base.waiting import take_to_the_end
from ottla.server.group.errors import GroupError
from ottla.server.group.shard import GroupShard
from ottla.server.group.share.protocol import ShareProtocol
from ottla.server.group.share.state_partitions import NOTHING, StatePartitions
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.share.group_state import is_enabled
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

TRAITS = Traits(Inside(Need(Operation.DELETE, Resource.GROUP), Need(Operation.READ, Resource.TOPIC)))

NO_TOPIC: Final = "There is no such topic."
NOTHING_TO_DELETE: Final = "The group has no offsets in this topic."


Answer = DeleteShareGroupOffsetsResponse | Promise[DeleteShareGroupOffsetsResponse]


class _Chosen(NamedTuple):
    """The state to delete: partitions, and the names of the topics, by topic id; and the answers about the other topics."""

    partitions: dict[bytes, Iterable[int]]
    topics: dict[bytes, str]
    refused: list[DeleteShareGroupOffsetsResponseTopic]


def handle(body: DeleteShareGroupOffsetsRequest, request: Request) -> Answer:
    return take_to_the_end(_delete_or_refuse(body, request), request.broker.clock)


def _delete_or_refuse(body: DeleteShareGroupOffsetsRequest, request: Request) -> Steps[DeleteShareGroupOffsetsResponse]:
    try:
        if not is_enabled(request.broker.metadata):
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION, "There are no share groups: share.version is 0.")
        shard = request.broker.groups.member_shard(body.group_id)
        protocol = shard.protocol(ShareProtocol)
        group = protocol.group(body.group_id)
        protocol.admit_deletion(group)
        results = []
        if group.state_partitions is not NOTHING:
            results = yield from _delete(shard, protocol, body, request)
        answer = yield from one_kept(shard.answer_or(DeleteShareGroupOffsetsResponse(responses=results), _refusal))
    except GroupError as error:
        return _refusal(error.code, error.message)
    return answer


def _refusal(code: ErrorCode, text: str | None = None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=text or code.name)


def _delete(
    shard: GroupShard, protocol: ShareProtocol, body: DeleteShareGroupOffsetsRequest, request: Request
) -> Steps[list[DeleteShareGroupOffsetsResponseTopic]]:
    """Writes a record of what is being deleted, has the share coordinator delete it, and writes a record that it is gone. Raises
    GroupError.
    """
    group_id, state = body.group_id, request.broker.share_group_state()
    choose = partial(_choose, [topic.topic_name for topic in body.topics], request)
    chosen = yield from one_kept(protocol.begin_deletion(group_id, choose, body.topics))
    begun = chain_answer(shard.answer(None), lambda _: state.delete(group_id, chosen.partitions))
    outcome = yield from one_kept(begun)
    gone = [topic_id for topic_id, error in outcome.items() if error is None]
    if gone:
        yield from one_kept(protocol.end_deletion(group_id, gone))
    results = chosen.refused
    for topic_id, error in outcome.items():
        result = DeleteShareGroupOffsetsResponseTopic(chosen.topics[topic_id], topic_id)
        if error is not None:
            result.error_code, result.error_message = error.code, error.text
        results.append(result)
        yield None
    return results


def _choose(names: Iterable[str], request: Request, had: StatePartitions) -> Steps[tuple[dict[bytes, str], _Chosen]]:
    chosen = _Chosen({}, {}, [])
    for name in names:
        topic = request.broker.metadata.topics.get(name)
        if topic is not None and topic.topic_id in had.initialized:
            chosen.partitions[topic.topic_id] = had.initialized[topic.topic_id].partitions
        elif topic is not None and topic.topic_id in had.deleting:
            chosen.partitions[topic.topic_id] = topic.partitions
        if topic is not None and topic.topic_id in chosen.partitions:
            chosen.topics[topic.topic_id] = name
        else:
            code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_TOPIC if topic is None else NOTHING_TO_DELETE
            chosen.refused.append(DeleteShareGroupOffsetsResponseTopic(name, error_code=code, error_message=text))
        yield None
    return chosen.topics, chosen
