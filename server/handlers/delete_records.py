"""DeleteRecords v0-2 moves the log start offset of partitions up (KIP-107).

- Offset -1 stands for the high watermark. An offset at or below the log start offset changes nothing, and the answer is the
  current one.
- A partition that is named twice is answered once, and the later offset counts. A topic without partitions is not answered.
- Records below the new start are out of range at once; the files are deleted with the next retention pass.
- Errors: 1 OFFSET_OUT_OF_RANGE beyond the high watermark or below 0, 44 POLICY_VIOLATION for a topic that is only compacted, 3
  UNKNOWN_TOPIC_OR_PARTITION, 6 NOT_LEADER_OR_FOLLOWER, 17 INVALID_TOPIC_EXCEPTION for an internal topic, 56 KAFKA_STORAGE_ERROR.
  With an error the low watermark is -1.
"""

from __future__ import annotations

from ottla.log.errors import LogError
from ottla.server.base.errors import code_of
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.metadata.names import INTERNAL_TOPICS
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TRAITS = Traits(Inside(Need(Operation.DELETE, Resource.TOPIC)))

NO_OFFSET = -1


def handle(body: DeleteRecordsRequest, request: Request) -> DeleteRecordsResponse | Promise[DeleteRecordsResponse]:
    return take_steps(_delete(body, request), request.broker.clock)


def _delete(body: DeleteRecordsRequest, request: Request) -> Steps[DeleteRecordsResponse]:
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in body.topics:
        if topic.partitions:
            wanted.setdefault(topic.name, {}).update({partition.partition_index: partition for partition in topic.partitions})
    topics = []
    for name, partitions in wanted.items():
        results = []
        for partition in partitions.values():
            results.append(_partition(name, partition, request))
            yield None
        topics.append(DeleteRecordsTopicResult(name, results))
    return DeleteRecordsResponse(topics=topics)


def _partition(topic: str, partition: DeleteRecordsPartition, request: Request) -> DeleteRecordsPartitionResult:
    """Moves the start of one partition; returns its result."""
    index = partition.partition_index
    replica = request.broker.replicas.get(topic, index)
    if replica is None:
        code = request.broker.replicas.why_missing(topic, index)
    elif topic in INTERNAL_TOPICS:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif not replica.is_leader:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        try:
            return DeleteRecordsPartitionResult(index, replica.delete_records_before(partition.offset))
        except LogError as error:
            code = code_of(error)
    return DeleteRecordsPartitionResult(index, NO_OFFSET, code)
