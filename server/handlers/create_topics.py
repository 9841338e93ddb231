"""CreateTopics v2-7: new topics, each with an answer of its own.

- Partitions and replicas: given, or -1 for `num.partitions` and `default.replication.factor` (all versions; clients send it
  since v4), or assigned by hand. With `validate_only` everything is checked and nothing made.
- v5 (KIP-525) answers partition count, replicas and all settings with their sources; v7 the topic id.
- A client over its quota of changes (controller_mutation_rate) is told how long to be quiet; since v6 (KIP-599) topics that it
  may not make now are 89 THROTTLING_QUOTA_EXCEEDED.
- The topic can be used when the answer is there. `timeout_ms` of 0 or less: nothing is done. Otherwise it does not matter to a
  lone controller, which is never away.
- Errors of the whole request, for every topic in it: 7 REQUEST_TIMED_OUT (no time), 44 POLICY_VIOLATION (over 10,000 partitions).
- Errors: 17 INVALID_TOPIC_EXCEPTION (name, or a name that collides in '.' and '_'), 36 TOPIC_ALREADY_EXISTS, 40 INVALID_CONFIG,
  37 INVALID_PARTITIONS, 38 INVALID_REPLICATION_FACTOR, 39 INVALID_REPLICA_ASSIGNMENT, 42 INVALID_REQUEST (named twice; both
  counts and an assignment), 44 (over 10,000 partitions and settings), 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from typing import Final

from ottla.log.errors import StorageError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Throttling, Traits
from ottla.server.security.rights import Either, Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

TRAITS = Traits(
    Inside(
        Either(Need(Operation.CREATE, Resource.CLUSTER), Need(Operation.CREATE, Resource.TOPIC)),
        Need(Operation.DESCRIBE_CONFIGS, Resource.TOPIC),
    ),
    throttling=Throttling.CONTROLLER_MUTATION,
)

STRICT_SINCE: Final = 6


async def handle(body: CreateTopicsRequest, request: Request) -> CreateTopicsResponse:
    permits = request.permits(STRICT_SINCE)
    try:
        response = await request.broker.controller.create_topics(body, permits)
    except StorageError as error:
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(topic.name, error_code=code, error_message=str(error)) for topic in body.topics]
        )
    response.throttle_time_ms = permits.throttle_time_ms
    return response
