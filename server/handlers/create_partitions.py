"""CreatePartitions v0-3: more partitions for topics that exist, each with an answer of its own.

- `count` is the new total. Records that are there stay where they are: keys may map to other partitions from now on.
- Replicas as the topic's others, placed by the controller or assigned by hand. `validate_only` checks and changes nothing.
- A client over its quota of changes (controller_mutation_rate) is told how long to be quiet; since v3 (KIP-599) topics that may
  get no partitions now are 89 THROTTLING_QUOTA_EXCEEDED.
- Errors: 3 UNKNOWN_TOPIC_OR_PARTITION, 37 INVALID_PARTITIONS (no increase), 38 INVALID_REPLICATION_FACTOR, 39
  INVALID_REPLICA_ASSIGNMENT, 42 INVALID_REQUEST (named twice), 56 KAFKA_STORAGE_ERROR. Of the whole request, for all
  its topics: 7 REQUEST_TIMED_OUT (`timeout_ms` of 0 or less: nothing is done), 44 POLICY_VIOLATION (over 10,000 new partitions).
"""

from __future__ import annotations

from typing import Final

from ottla.log.errors import StorageError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Throttling, Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

TRAITS = Traits(Inside(Need(Operation.ALTER, Resource.TOPIC)), throttling=Throttling.CONTROLLER_MUTATION)

STRICT_SINCE: Final = 3


async def handle(body: CreatePartitionsRequest, request: Request) -> CreatePartitionsResponse:
    permits = request.permits(STRICT_SINCE)
    try:
        response = await request.broker.controller.create_partitions(body, permits)
    except StorageError as error:
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(topic.name, code, str(error)) for topic in body.topics]
        )
    response.throttle_time_ms = permits.throttle_time_ms
    return response
