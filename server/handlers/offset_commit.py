"""OffsetCommit v2-10 stores how far a member of a group, or a client that manages its own partitions, has read.

- Generation -1 without a member id is allowed as long as the group has no members. Such a commit creates the group if there is
  none.
- A commit is accepted while members join, and is answered 27 REBALANCE_IN_PROGRESS between join and sync. Offsets are not checked
  against the log.
- A retention time (v2-4) is honoured as in Kafka. v6 adds the leader epoch and v7 static members. v9 answers 69
  GROUP_ID_NOT_FOUND where older versions get 22 ILLEGAL_GENERATION. v10 names topics by id.
- Partitions that do not exist come first in the answer. If there are any, a topic that is named twice has one entry. A topic
  without partitions is answered only if it does not exist.
- A member of a consumer group (v9) may commit with an earlier epoch for partitions that it has owned since then (KIP-1251).
- Errors of each partition: 3 UNKNOWN_TOPIC_OR_PARTITION, 100 UNKNOWN_TOPIC_ID, 12 OFFSET_METADATA_TOO_LARGE. Errors of all of
  them: 22 ILLEGAL_GENERATION, 25 UNKNOWN_MEMBER_ID, 27 REBALANCE_IN_PROGRESS, 28 INVALID_COMMIT_OFFSET_SIZE (they do not fit into
  a batch of `__consumer_offsets`), 35 UNSUPPORTED_VERSION, 69 GROUP_ID_NOT_FOUND, 82 FENCED_INSTANCE_ID, 113 STALE_MEMBER_EPOCH,
  and the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ottla.server.base.answers import chain_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, call_in_thread, take_steps
from ottla.server.group.commits import AT_ONCE, PARTITIONS_A_STEP, PreparedCommit
from ottla.server.group.errors import GroupError
from ottla.server.group.requests import Commit, Committer
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TRAITS = Traits(Inside(Need(Operation.READ, Resource.GROUP), Need(Operation.READ, Resource.TOPIC)))


def handle(body: OffsetCommitRequest, request: Request) -> OffsetCommitResponse | Promise[OffsetCommitResponse]:
    return chain_answer(take_steps(_prepare(body, request), request.broker.clock), lambda commit: _store(commit, body, request))


class _Commit(NamedTuple):
    """The offsets that a request wants to store. `response` is the answer if that succeeds; it has an entry for each of the
    `accepted` partitions, whose fate the group decides. `commits` are those that can be stored."""

    response: OffsetCommitResponse
    accepted: list[OffsetCommitResponsePartition]
    commits: list[Commit]
    prepared: PreparedCommit | None = None


def _prepare(body: OffsetCommitRequest, request: Request) -> Steps[_Commit]:
    commits: list[Commit] = []
    refused: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}
    topics = []
    for topic in body.topics:
        answer = yield from _read_topic(topic, request, commits, refused)
        if answer.partitions:
            topics.append(answer)
    accepted = [partition for topic in topics for partition in topic.partitions]
    response = OffsetCommitResponse(topics=_merge(refused, topics) if refused else topics)
    if len(commits) <= AT_ONCE:
        return _Commit(response, accepted, commits)
    broker = request.broker
    try:
        encode = partial(broker.groups.shard(body.group_id).prepare_commit, body.group_id, commits, body.retention_time_ms)
    except GroupError:
        return _Commit(response, accepted, commits)  # `_store` is refused as well
    return _Commit(response, accepted, commits, (yield from call_in_thread(encode, broker.workers)))


def _store(commit: _Commit, body: OffsetCommitRequest, request: Request) -> OffsetCommitResponse | Promise[OffsetCommitResponse]:
    response, accepted, commits, prepared = commit
    group_id = body.group_id
    if not accepted:
        return response  # there is nothing to store, so as in Kafka the group is not even looked at
    try:
        shard = request.broker.groups.shard(group_id)
        shard.commit(
            group_id,
            Committer(body.member_id, body.group_instance_id, body.generation_id_or_member_epoch, request.api_version),
            commits,
            retention_ms=body.retention_time_ms,
            missing_group=ErrorCode.GROUP_ID_NOT_FOUND if request.api_version >= 9 else ErrorCode.ILLEGAL_GENERATION,
            prepared=prepared,
        )
    except GroupError as error:
        return _refuse(response, accepted, error.code)
    if shard.unreplicated is None:
        return response
    return shard.answer_or(response, partial(_refuse, response, accepted))  # a lambda would cost every commit a closure


def _refuse(
    response: OffsetCommitResponse, accepted: list[OffsetCommitResponsePartition], code: ErrorCode
) -> OffsetCommitResponse:
    for partition in accepted:
        partition.error_code = code
    return response


def _read_topic(
    topic: OffsetCommitRequestTopic,
    request: Request,
    commits: list[Commit],
    refused: dict[tuple[str, bytes], OffsetCommitResponseTopic],
) -> Steps[OffsetCommitResponseTopic]:
    """Makes steps that return the answer for the partitions that exist, which the group decides on later.

    Offsets that can be stored are added to `commits`; topics and partitions that do not exist to `refused`.
    """
    by_id = request.api_version >= 10
    metadata = request.broker.metadata
    image = metadata.topics_by_id.get(topic.topic_id) if by_id else metadata.topics.get(topic.name)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if image is None and by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    max_bytes = request.broker.groups.settings.offset_metadata_max_bytes
    answers, absent = [], []
    for at, partition in enumerate(topic.partitions):
        if at % PARTITIONS_A_STEP == 0:
            yield None
        index = partition.partition_index
        if image is None or index not in image.partitions:
            absent.append(OffsetCommitResponsePartition(index, missing))
            continue
        text = partition.committed_metadata or ""
        if len(text) > max_bytes:
            answers.append(OffsetCommitResponsePartition(index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
            continue
        answers.append(OffsetCommitResponsePartition(index))
        commits.append(
            Commit(image.name, image.topic_id, index, partition.committed_offset, partition.committed_leader_epoch, text)
        )
    if absent or image is None:
        _entry(refused, topic.name, topic.topic_id).partitions += absent
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, answers)


def _merge(
    refused: dict[tuple[str, bytes], OffsetCommitResponseTopic], topics: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    for topic in topics:
        _entry(refused, topic.name, topic.topic_id).partitions += topic.partitions
    return list(refused.values())


def _entry(topics: dict[tuple[str, bytes], OffsetCommitResponseTopic], name: str, topic_id: bytes) -> OffsetCommitResponseTopic:
    if (name, topic_id) not in topics:
        topics[name, topic_id] = OffsetCommitResponseTopic(name, topic_id)
    return topics[name, topic_id]
