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
from typing import Final

from ottla.server.base.answers import chain_answer, recover_answer
from ottla.server.base.promise import Promise
from ottla.server.group.errors import GroupError
from ottla.server.group.shard import GroupShard
from ottla.server.group.share.group import ShareGroup
from ottla.server.group.share.protocol import ShareProtocol
from ottla.server.group.share.state_partitions import NOTHING
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.share.group_state import Deleted, is_enabled
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


def handle(body: DeleteShareGroupOffsetsRequest, request: Request) -> Answer:
    try:
        if not is_enabled(request.broker.metadata):
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION, "There are no share groups: share.version is 0.")
        shard = request.broker.groups.member_shard(body.group_id)
        protocol = shard.protocol(ShareProtocol)
        group = protocol.group(body.group_id)
        protocol.admit_deletion(group)
        if group.state_partitions is NOTHING:
            return shard.answer_or(DeleteShareGroupOffsetsResponse(), _refusal)
        names = [topic.topic_name for topic in body.topics]
        answer = _delete(shard, protocol, group, names, request)
    except GroupError as error:
        return _refused(error)
    return recover_answer(answer, GroupError, _refused)


def _refusal(code: ErrorCode, text: str | None = None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=text or code.name)


def _refused(error: GroupError) -> DeleteShareGroupOffsetsResponse:
    return _refusal(error.code, error.message)


def _delete(shard: GroupShard, protocol: ShareProtocol, group: ShareGroup, names: Iterable[str], request: Request) -> Answer:
    """Writes a record of what is being deleted, has the share coordinator delete it, and writes a record that it is gone. Raises
    GroupError.
    """
    before = group.state_partitions
    refused: list[DeleteShareGroupOffsetsResponseTopic] = []
    partitions: dict[bytes, Iterable[int]] = {}
    topics: dict[bytes, str] = {}
    for name in names:
        topic = request.broker.metadata.topics.get(name)
        if topic is not None and topic.topic_id in before.initialized:
            partitions[topic.topic_id] = before.initialized[topic.topic_id].partitions
        elif topic is not None and topic.topic_id in before.deleting:
            partitions[topic.topic_id] = topic.partitions
        if topic is not None and topic.topic_id in partitions:
            topics[topic.topic_id] = name
        else:
            code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_TOPIC if topic is None else NOTHING_TO_DELETE
            refused.append(DeleteShareGroupOffsetsResponseTopic(name, error_code=code, error_message=text))
    protocol.change_state_partitions(group, before.deleting_topics(topics))

    def deleted(outcome: Deleted) -> Answer:
        gone = [topic_id for topic_id, error in outcome.items() if error is None]
        if gone:
            protocol.change_state_partitions(group, group.state_partitions.deleted(gone))
        for topic_id, error in outcome.items():
            result = DeleteShareGroupOffsetsResponseTopic(topics[topic_id], topic_id)
            if error is not None:
                result.error_code, result.error_message = error.code, error.text
            refused.append(result)
        return shard.answer_or(DeleteShareGroupOffsetsResponse(responses=refused), _refusal)

    state = request.broker.share_group_state()
    begun = chain_answer(shard.answer(None), lambda _: state.delete(group.group_id, partitions))
    return chain_answer(begun, deleted)
