"""AlterShareGroupOffsets v0 makes a share group without members start again at given offsets (KIP-932).

- If the group does not exist, the request creates it. What it did in these partitions before is forgotten.
- 35 UNSUPPORTED_VERSION if the feature share.version is 0.
- Errors of the group, with a message: 24 INVALID_GROUP_ID for "", 68 NON_EMPTY_GROUP, 69 GROUP_ID_NOT_FOUND for a group of
  another kind, and the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR.
- Errors of a partition, with a message: 3 UNKNOWN_TOPIC_OR_PARTITION, and whatever the share coordinator answers.
- The answer waits for the share coordinator, whose topic may have to be created first.
"""

from __future__ import annotations

from functools import partial

from ottla.server.base.answers import map_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, one_kept
from ottla.server.base.waiting import take_to_the_end
from ottla.server.group.errors import GroupError
from ottla.server.group.shard import GroupShard
from ottla.server.group.share.protocol import Initialize, ShareProtocol
from ottla.server.group.share.state_partitions import ByTopic, TopicPartitions
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.share.group_state import Errors, is_enabled
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

TRAITS = Traits(Inside(Need(Operation.READ, Resource.GROUP), Need(Operation.READ, Resource.TOPIC)))

Answer = AlterShareGroupOffsetsResponse | Promise[AlterShareGroupOffsetsResponse]


def handle(body: AlterShareGroupOffsetsRequest, request: Request) -> Answer:
    return take_to_the_end(_alter_or_refuse(body, request), request.broker.clock)


def _alter_or_refuse(body: AlterShareGroupOffsetsRequest, request: Request) -> Steps[AlterShareGroupOffsetsResponse]:
    try:
        if not is_enabled(request.broker.metadata):
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION, "There are no share groups: share.version is 0.")
        shard = request.broker.groups.member_shard(body.group_id)
        protocol = shard.protocol(ShareProtocol)
        protocol.admit_deletion(protocol.group_or_new(body.group_id))
        answer, offsets, topics = yield from _read(body, request)
        if topics:
            yield from one_kept(protocol.begin_initialization(body.group_id, topics))
        if not offsets:
            return (yield from one_kept(shard.answer_or(answer, _refusal)))
        wanted = Initialize(protocol.group(body.group_id).epoch, topics, {})
    except GroupError as error:
        return _refused(error)
    return (yield from one_kept(_carry_out(shard, body.group_id, wanted, offsets, answer, request)))


def _refused(error: GroupError) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message or error.code.name)


def _read(
    body: AlterShareGroupOffsetsRequest, request: Request
) -> Steps[tuple[AlterShareGroupOffsetsResponse, dict[bytes, dict[int, int]], ByTopic]]:
    """Makes steps that return the answer if all goes well, the offsets by topic id and partition, and the existing partitions by
    topic id.
    """
    answers: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    offsets: dict[bytes, dict[int, int]] = {}
    names: dict[bytes, str] = {}
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    now_ms = request.broker.clock.now_ms()
    for asked in body.topics:
        topic = request.broker.metadata.topics.get(asked.topic_name)
        answer = answers.setdefault(asked.topic_name, AlterShareGroupOffsetsResponseTopic(asked.topic_name))
        for each in asked.partitions:
            known = topic is not None and each.partition_index in topic.partitions
            if topic is not None and known:
                offsets.setdefault(topic.topic_id, {})[each.partition_index] = each.start_offset
            code, text = (ErrorCode.NONE, None) if known else (missing, "There is no such partition.")
            answer.partitions.append(AlterShareGroupOffsetsResponsePartition(each.partition_index, code, text))
            yield None
        if topic is not None:
            answer.topic_id = topic.topic_id
            names[topic.topic_id] = topic.name
        yield None
    topics = {topic_id: TopicPartitions(name, frozenset(offsets.get(topic_id, ())), now_ms) for topic_id, name in names.items()}
    return AlterShareGroupOffsetsResponse(responses=list(answers.values())), offsets, topics


def _refusal(code: ErrorCode) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=code.name)


def _carry_out(
    shard: GroupShard,
    group_id: str,
    wanted: Initialize,
    offsets: dict[bytes, dict[int, int]],
    answer: AlterShareGroupOffsetsResponse,
    request: Request,
) -> Answer:
    """Has the share coordinator start the group at the offsets; returns the answer, or a promise of it."""
    waiting: Promise[AlterShareGroupOffsetsResponse] = Promise()

    def done(errors: Errors) -> None:
        recorded = None if errors else request.broker.share_group_state().finish(group_id, wanted, errors)
        for topic in answer.responses:
            for each in topic.partitions:
                error = errors.get((topic.topic_id, each.partition_index))
                if error is not None and not each.error_code:
                    each.error_code, each.error_message = error.code, error.text
        map_answer(recorded, lambda _: shard.when_answerable(partial(give, answer)))

    def give(response: AlterShareGroupOffsetsResponse, code: ErrorCode) -> None:
        if not waiting.done():
            waiting.set_result(_refusal(code) if code else response)

    def begin(code: ErrorCode) -> None:
        """Begins the state once the record that says so is replicated, even if the request was refused by then."""
        if code:
            give(answer, code)
        else:
            request.broker.share_group_state().initialize(group_id, wanted.state_epoch, offsets, done)

    shard.when_replicated(begin)
    shard.when_answerable(lambda code: give(answer, code) if code else None)
    return waiting.result() if waiting.done() else waiting
