"""OffsetForLeaderEpoch v2-4 says where a leader epoch ended in a partition's log (KIP-101, KIP-320).

- A consumer that learns of a new leader epoch, for instance because the broker was restarted, asks this before it goes on: is its
  position still in the log, or was the log truncated below it? kafka-python reads nothing more of a partition until it has an
  answer.
- The answer is the greatest epoch of the log up to the one asked for, and the offset at which the next epoch began, or the end of
  the log. If there is no such epoch, both are -1, without an error.
- Errors of each partition: 3 UNKNOWN_TOPIC_OR_PARTITION, 6 NOT_LEADER_OR_FOLLOWER, 74 FENCED_LEADER_EPOCH and 75
  UNKNOWN_LEADER_EPOCH for the epoch that the client believes to be current, 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from ottla.log.errors import LogError
from ottla.server.base.errors import code_of
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Either, Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

TRAITS = Traits(Inside(Either(Need(Operation.DESCRIBE, Resource.TOPIC), Need(Operation.CLUSTER_ACTION, Resource.CLUSTER))))


def handle(
    body: OffsetForLeaderEpochRequest, request: Request
) -> OffsetForLeaderEpochResponse | Promise[OffsetForLeaderEpochResponse]:
    return take_steps(_answer(body, request), request.broker.clock)


def _answer(body: OffsetForLeaderEpochRequest, request: Request) -> Steps[OffsetForLeaderEpochResponse]:
    topics = []
    for topic in body.topics:
        ends = []
        for partition in topic.partitions:
            ends.append(_end_of(topic.topic, partition, request))
            yield None
        topics.append(OffsetForLeaderTopicResult(topic.topic, ends))
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_of(topic: str, asked: OffsetForLeaderPartition, request: Request) -> EpochEndOffset:
    replicas = request.broker.replicas
    replica = replicas.get(topic, asked.partition)
    if replica is None:
        return _refusal(asked, replicas.why_missing(topic, asked.partition))
    if not replica.is_leader:
        return _refusal(asked, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    try:
        replica.check_epoch(asked.current_leader_epoch)
        epoch, end_offset = replica.log.end_offset_for_epoch(asked.leader_epoch)
    except (LogError, OSError) as error:
        return _refusal(asked, code_of(error))
    return EpochEndOffset(ErrorCode.NONE, asked.partition, epoch, end_offset)


def _refusal(asked: OffsetForLeaderPartition, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(code, asked.partition, -1, -1)
