"""DeleteRecords v0-2 moves the log start offset of partitions up (KIP-107).

- Offset -1 stands for the high watermark. An offset at or below the log start offset changes nothing, and the answer is the
  current one.
- A partition that is named twice is answered once, and the later offset counts. A topic without partitions is not answered.
- Records below the new start are out of range at once; the files are deleted with the next retention pass.
- Where a partition has followers, the answer waits until their logs begin at the offset, too, as far as they are alive: so what a
  client was told is gone is on no replica that may be elected. What is not gone everywhere within `timeout_ms` is answered 7
  REQUEST_TIMED_OUT; this broker's own log has been cut all the same.
- Errors: 1 OFFSET_OUT_OF_RANGE beyond the high watermark or below 0, 44 POLICY_VIOLATION for a topic that is only compacted, 3
  UNKNOWN_TOPIC_OR_PARTITION, 6 NOT_LEADER_OR_FOLLOWER, 17 INVALID_TOPIC_EXCEPTION for an internal topic, 56 KAFKA_STORAGE_ERROR.
  With an error the low watermark is -1.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.log.errors import LogError
from ottla.server.base.errors import code_of
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.metadata.names import INTERNAL_TOPICS
from ottla.server.partitions.replica import HIGH_WATERMARK, Replica
from ottla.server.partitions.roles import Leader
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
    pending: list[_Deletion] = []
    for name, partitions in wanted.items():
        results = []
        for partition in partitions.values():
            results.append(_partition(name, partition, request, pending))
            yield None
        topics.append(DeleteRecordsTopicResult(name, results))
    if pending:
        waiting = _Followers(pending, request)
        if waiting.attempt(body.timeout_ms <= 0) is None:
            replicas = [deletion.replica for deletion in pending]
            yield request.broker.purgatory.watch(replicas, body.timeout_ms, waiting.attempt)
    return DeleteRecordsResponse(topics=topics)


def _partition(
    topic: str, partition: DeleteRecordsPartition, request: Request, pending: list[_Deletion]
) -> DeleteRecordsPartitionResult:
    """Moves the start of one partition; returns its result, and adds to `pending` what followers still have to do."""
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
            offset = replica.log.high_watermark if partition.offset == HIGH_WATERMARK else partition.offset
            result = DeleteRecordsPartitionResult(index, replica.delete_records_before(offset))
        except LogError as error:
            code = code_of(error)
        else:
            if isinstance(replica.role, Leader) and replica.role.high_watermark is not None:
                pending.append(_Deletion(replica, offset, result))
            return result
    return DeleteRecordsPartitionResult(index, NO_OFFSET, code)


class _Deletion(NamedTuple):
    """A deletion that the followers have to follow: they do when their logs begin at `offset` or behind it."""

    replica: Replica
    offset: int
    result: DeleteRecordsPartitionResult


class _Followers:
    """Waits for the followers of the partitions of one request, and puts into the results what comes of it."""

    def __init__(self, pending: list[_Deletion], request: Request) -> None:
        self._pending = pending
        self._request = request

    def attempt(self, last: bool) -> bool | None:
        """Settles what can be settled, with `last` everything; returns whether that is all, or None if there is more."""
        brokers = self._request.broker.metadata.brokers.values()
        alive = {broker.broker_id for broker in brokers if not broker.fenced}
        self._pending = [deletion for deletion in self._pending if not self._settle(deletion, alive, last)]
        return None if self._pending else True

    @staticmethod
    def _settle(deletion: _Deletion, alive: set[int], last: bool) -> bool:
        role, result = deletion.replica.role, deletion.result
        if not isinstance(role, Leader):
            result.low_watermark, result.error_code = NO_OFFSET, ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        log = deletion.replica.log
        low = role.high_watermark.low_watermark(alive) if role.high_watermark is not None else log.log_start_offset
        if low >= deletion.offset:
            result.low_watermark = low
            return True
        if last:
            result.low_watermark, result.error_code = NO_OFFSET, ErrorCode.REQUEST_TIMED_OUT
        return last
