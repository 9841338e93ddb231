"""CreatePartitions v0-3 adds partitions to existing topics; each topic gets its own answer.

- `count` is the new total. Existing records stay where they are, so a key may map to another partition from now on.
- The new partitions have as many replicas as the topic's others, placed by the controller or assigned in the request.
  `validate_only` makes all checks and changes nothing. In a cluster the answer waits two seconds at most for this broker's part
  of them.
- A client over its quota of changes (controller_mutation_rate) is told how long to wait. Since v3 (KIP-599) topics that may not
  get partitions now are answered 89 THROTTLING_QUOTA_EXCEEDED.
- Errors of a topic: 3 UNKNOWN_TOPIC_OR_PARTITION, 37 INVALID_PARTITIONS (`count` is no increase), 38 INVALID_REPLICATION_FACTOR,
  39 INVALID_REPLICA_ASSIGNMENT, 42 INVALID_REQUEST (the topic is named twice), 44 POLICY_VIOLATION (the broker would hold more
  partitions than `ottla.max.partitions`), 56 KAFKA_STORAGE_ERROR.
- Errors of the whole request, given for each topic: 7 REQUEST_TIMED_OUT (`timeout_ms` is 0 or less, and nothing is done), 44
  POLICY_VIOLATION (more than 10,000 new partitions).
"""

from __future__ import annotations

from typing import Final

from ottla.log.errors import StorageError
from ottla.server.base.answers import wait_for
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

TRAITS = Traits(Inside(Need(Operation.ALTER, Resource.TOPIC)))

STRICT_SINCE: Final = 3


async def handle(body: CreatePartitionsRequest, request: Request) -> CreatePartitionsResponse:
    permits = request.permits(STRICT_SINCE)
    try:
        response = await request.broker.controller.create_partitions(body, request.caller(), permits)
    except StorageError as error:
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(topic.name, code, str(error)) for topic in body.topics]
        )
    if not body.validate_only:
        await wait_for(request.broker.replicas.settled_soon())
    response.throttle_time_ms = permits.throttle_time_ms
    return response
