"""OffsetCommit v2-10: a member, or a client that manages its partitions itself, stores how far it has read.

- Generation -1 without member: allowed as long as the group has no members; such a commit founds a group where there is none.
- Fine while members join, 27 REBALANCE_IN_PROGRESS between join and sync. Offsets themselves are not checked against the log.
- Retention time (v2-4) is honoured as Kafka does. v6 leader epoch, v7 static members, v9 says 69 GROUP_ID_NOT_FOUND where older
  versions hear 22 ILLEGAL_GENERATION. v10 names topics by id.
- Errors, each partition its own: 3 UNKNOWN_TOPIC_OR_PARTITION, 100 UNKNOWN_TOPIC_ID, 12 OFFSET_METADATA_TOO_LARGE; for all
  partitions: 22, 25 UNKNOWN_MEMBER_ID, 27, 69, 82 FENCED_INSTANCE_ID, and 14/15/16 of the coordinator.
"""

from __future__ import annotations

from ottla.server.context import RequestContext
from ottla.server.group.errors import GroupError
from ottla.server.group.offsets import Commit
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def handle(request: OffsetCommitRequest, ctx: RequestContext) -> OffsetCommitResponse:
    group_id = request.group_id
    commits: list[Commit] = []
    accepted: list[OffsetCommitResponsePartition] = []
    topics = [_read_topic(topic, ctx, commits, accepted) for topic in request.topics]
    response = OffsetCommitResponse(topics=topics)
    if not accepted:
        return response  # nothing that could be stored: as in Kafka, the group is not even asked
    try:
        ctx.broker.groups.shard(group_id).commit(
            group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            commits,
            retention_ms=request.retention_time_ms,
            missing_group=ErrorCode.GROUP_ID_NOT_FOUND if ctx.api_version >= 9 else ErrorCode.ILLEGAL_GENERATION,
        )
    except GroupError as error:
        for partition in accepted:
            partition.error_code = error.code
    return response


def _read_topic(
    topic: OffsetCommitRequestTopic,
    ctx: RequestContext,
    commits: list[Commit],
    accepted: list[OffsetCommitResponsePartition],
) -> OffsetCommitResponseTopic:
    """One topic's answer. What can be stored goes to `commits`; partitions that exist to `accepted`, for the group's verdict."""
    by_id = ctx.api_version >= 10
    metadata = ctx.broker.metadata
    image = metadata.topics_by_id.get(topic.topic_id) if by_id else metadata.topics.get(topic.name)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if image is None and by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    max_bytes = ctx.broker.groups.settings.offset_metadata_max_bytes
    answers = []
    for partition in topic.partitions:
        index = partition.partition_index
        answer = OffsetCommitResponsePartition(index)
        answers.append(answer)
        if image is None or index not in image.partitions:
            answer.error_code = missing
            continue
        accepted.append(answer)
        text = partition.committed_metadata or ""
        if len(text) > max_bytes:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        commits.append(
            Commit(image.name, image.topic_id, index, partition.committed_offset, partition.committed_leader_epoch, text)
        )
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
