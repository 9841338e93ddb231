"""ListOffsets v1-11 finds offsets by timestamp, and the special ones such as the latest (KIP-79, KIP-734, KIP-405).

- -1 (latest) is the high watermark or, for read_committed, the last stable offset. -2 (earliest) and -4 (earliest local) are the
  log start offset. -3 (v7) is the first record with the greatest timestamp. -5 (v9, latest tiered) and -6 (v11, earliest pending
  upload) are offsets of tiered storage, which does not exist here: the answer is -1.
- A special timestamp that came with a later version, and any other negative one, is answered 35 UNSUPPORTED_VERSION.
- Any other timestamp asks for the first record with at least this timestamp, as far as the client may read; the answer is -1
  without an error if there is none.
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
            answer = yield from _answer_for(key[0], partition, committed_only, request)
        answers.setdefault(key[0], []).append(answer)
        yield None
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(topic, partitions) for topic, partitions in answers.items()])


def _refusal(partition: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=code)


def _answer_for(
    topic: str, partition: ListOffsetsPartition, committed_only: bool, request: Request
) -> Steps[ListOffsetsPartitionResponse]:
    if partition.timestamp < 0 and request.api_version < SINCE_VERSION.get(partition.timestamp, _NEVER):
        return _refusal(partition, ErrorCode.UNSUPPORTED_VERSION)
    replica = request.broker.replicas.get(topic, partition.partition_index)
    if replica is None:
        return _refusal(partition, request.broker.replicas.why_missing(topic, partition.partition_index))
    if not replica.is_leader:
        return _refusal(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    try:
        replica.check_epoch(partition.current_leader_epoch)
        found = yield from _find(replica, partition.timestamp, committed_only, request.broker.workers)
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


def _find(
    replica: Replica, timestamp: int, committed_only: bool, workers: Callable[[], Workers]
) -> Steps[TimestampOffset | None]:
    """Finds the offset for a timestamp; None if no record fits. Raises LogError and OSError."""
    log = replica.log
    end = log.last_stable_offset if committed_only else log.high_watermark
    if timestamp == LATEST:
        return TimestampOffset(-1, end, log.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampOffset(-1, log.log_start_offset, log.epochs.epoch_for(log.log_start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    search = search_max_timestamp(log) if timestamp == MAX_TIMESTAMP else search_timestamp(log, timestamp)
    found = yield from in_threads(search, workers)
    return found if found is not None and found.offset < end else None
