"""CreatePartitions v0-3: more partitions for topics that exist, each with an answer of its own.

- `count` is the new total. Records that are there stay where they are: keys may map to other partitions from now on.
- Replicas as the topic's others, placed by the controller or assigned by hand. `validate_only` checks and changes nothing.
- Errors: 3 UNKNOWN_TOPIC_OR_PARTITION, 37 INVALID_PARTITIONS (no increase), 38 INVALID_REPLICATION_FACTOR, 39
  INVALID_REPLICA_ASSIGNMENT, 42 INVALID_REQUEST (named twice), 56 KAFKA_STORAGE_ERROR. Of the whole request, for all
  its topics: 7 REQUEST_TIMED_OUT (`timeout_ms` of 0 or less: nothing is done), 44 POLICY_VIOLATION (over 10,000 new partitions).
"""

from __future__ import annotations

from ottla.log.errors import StorageError
from ottla.server.context import RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(request: CreatePartitionsRequest, ctx: RequestContext) -> CreatePartitionsResponse:
    try:
        return await ctx.broker.controller.create_partitions(request)
    except StorageError as error:
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(topic.name, code, str(error)) for topic in request.topics]
        )
