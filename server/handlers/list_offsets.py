"""ListOffsets v1-11 finds offsets by timestamp, and the special ones such as the latest (KIP-79, KIP-734, KIP-405).

- -1 (latest) is the high watermark or, for read_committed, the last stable offset. -2 (earliest) and -4 (earliest local) are the
  log start offset. -3 (v7) is the first record with the greatest timestamp. -5 (v9, latest tiered) and -6 (v11, earliest pending
  upload) are offsets of tiered storage, which does not exist here: the answer is -1.
- A special timestamp that came with a later version, and any other negative one, is answered 35 UNSUPPORTED_VERSION.
- Any other timestamp asks for the first record with at least this timestamp, as far as the client may read; the answer is -1
  without an error if there is none.
- As long as the high watermark is below the offset at which the leader's epoch began, the latest offset is not answered: it would
  go back. The same holds for a timestamp that no readable record has. The error is 78 OFFSET_NOT_AVAILABLE since v5 and 5
  LEADER_NOT_AVAILABLE before (KIP-207).
- Replicas (replica id 0 or more) may know all offsets up to the log's end. Any broker with a replica answers a debugging consumer
  (-2); everybody else is answered by the leader.
- v4 checks the leader epoch (74, 75) and answers that of the record. A partition that is named twice is answered once, with 42
  INVALID_REQUEST. A topic is answered once, and not at all if no partition of it was asked for.
- Errors: 3 UNKNOWN_TOPIC_OR_PARTITION, 6 NOT_LEADER_OR_FOLLOWER, 56 KAFKA_STORAGE_ERROR.

A search by time that takes long is done in turns, and in large batches in threads (server/base/turns.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from ottla.log.errors import LogError
from ottla.log.timestamps import TimestampOffset, search_max_timestamp, search_timestamp
from ottla.server.base.errors import code_of
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, Workers, in_threads, take_steps
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.roles import Leader
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.isolation import READ_COMMITTED
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

TRAITS = Traits(Inside(Need(Operation.DESCRIBE, Resource.TOPIC)))

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

SINCE_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NEVER: Final = 1 << 15
NOT_AVAILABLE_SINCE: Final = 5
CONSUMER: Final = -1
DEBUGGING: Final = -2


def handle(body: ListOffsetsRequest, request: Request) -> ListOffsetsResponse | Promise[ListOffsetsResponse]:
    return take_steps(_answer(body, request), request.broker.clock)


def _answer(body: ListOffsetsRequest, request: Request) -> Steps[ListOffsetsResponse]:
    """Answers for one partition after the other."""
    asked = Counter((topic.name, partition.partition_index) for topic in body.topics for partition in topic.partitions)
    committed_only = body.isolation_level == READ_COMMITTED
    answers: dict[str, list[ListOffsetsPartitionResponse]] = {}
    once = {(topic.name, partition.partition_index): partition for topic in body.topics for partition in topic.partitions}
    for key, partition in once.items():
        if asked[key] > 1:
            answer = _refusal(partition, ErrorCode.INVALID_REQUEST)
        else:
            answer = yield from _answer_for(key[0], partition, committed_only, body.replica_id, request)
        answers.setdefault(key[0], []).append(answer)
        yield None
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(topic, partitions) for topic, partitions in answers.items()])


def _refusal(partition: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=code)


def _answer_for(
    topic: str, partition: ListOffsetsPartition, committed_only: bool, replica_id: int, request: Request
) -> Steps[ListOffsetsPartitionResponse]:
    if partition.timestamp < 0 and request.api_version < SINCE_VERSION.get(partition.timestamp, _NEVER):
        return _refusal(partition, ErrorCode.UNSUPPORTED_VERSION)
    replica = request.broker.replicas.get(topic, partition.partition_index)
    if replica is None:
        return _refusal(partition, request.broker.replicas.why_missing(topic, partition.partition_index))
    if not replica.is_leader and replica_id != DEBUGGING:
        return _refusal(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log = replica.log
    readable = log.last_stable_offset if committed_only else log.high_watermark
    end = readable if replica_id == CONSUMER else log.log_end_offset
    try:
        replica.check_epoch(partition.current_leader_epoch)
        found = yield from _find(replica, partition.timestamp, end, request.broker.workers)
        if replica_id == CONSUMER and _may_go_back(replica, partition.timestamp, found):
            is_known = request.api_version >= NOT_AVAILABLE_SINCE
            return _refusal(partition, ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE)
    except (LogError, OSError) as error:
        return _refusal(partition, code_of(error))
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=partition.partition_index)
    return ListOffsetsPartitionResponse(
        partition_index=partition.partition_index,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _find(replica: Replica, timestamp: int, end: int, workers: Callable[[], Workers]) -> Steps[TimestampOffset | None]:
    """Finds the offset for a timestamp below `end`; None if no record fits. Raises LogError and OSError."""
    log = replica.log
    if timestamp == LATEST:
        return TimestampOffset(-1, end, log.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampOffset(-1, log.log_start_offset, log.epochs.epoch_for(log.log_start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    search = search_max_timestamp(log) if timestamp == MAX_TIMESTAMP else search_timestamp(log, timestamp)
    found = yield from in_threads(search, workers)
    return found if found is not None and found.offset < end else None


def _may_go_back(replica: Replica, timestamp: int, found: TimestampOffset | None) -> bool:
    """Returns whether what was found may be less than what an earlier leader answered, whose high watermark this leader does not
    know yet. The start of the log, and records that were found, are what they are."""
    role = replica.role
    if not isinstance(role, Leader) or role.high_watermark is None or role.epoch_start <= replica.log.high_watermark:
        return False
    if timestamp in (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return False
    return timestamp == LATEST or found is None
