"""DeleteTopics v1-6 deletes topics and all their records.

- Topics are named; since v6 (KIP-516) by name or by id. v5 adds a message to errors. The files of the logs are deleted after
  `file.delete.delay.ms`.
- A client over its quota of changes (controller_mutation_rate) is told how long to wait. Since v5 (KIP-599) topics that may not
  be deleted now are answered 89 THROTTLING_QUOTA_EXCEEDED.
- Errors: 3 UNKNOWN_TOPIC_OR_PARTITION; 100 UNKNOWN_TOPIC_ID; 42 INVALID_REQUEST (the topic is named twice, by both name and id,
  or by neither); 7 REQUEST_TIMED_OUT for every topic of the request (`timeout_ms` is 0 or less, and nothing is done); 73
  TOPIC_DELETION_DISABLED if `delete.topic.enable` is false (42 before v3, which did not know 73); 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from typing import Final

from ottla.log.errors import StorageError
from ottla.server.base.answers import wait_for
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

TRAITS = Traits(
    Inside(Need(Operation.DELETE, Resource.TOPIC), Need(Operation.DESCRIBE, Resource.TOPIC)),
)

STRICT_SINCE: Final = 5


async def handle(body: DeleteTopicsRequest, request: Request) -> DeleteTopicsResponse:
    topics = [*body.topics, *(DeleteTopicState(name) for name in body.topic_names)]
    if not request.broker.config.values["delete.topic.enable"]:
        disabled = ErrorCode.TOPIC_DELETION_DISABLED if request.api_version >= 3 else ErrorCode.INVALID_REQUEST
        return _failure(topics, disabled, "Topics cannot be deleted: delete.topic.enable is false.")
    permits = request.permits(STRICT_SINCE)
    try:
        response = await request.broker.controller.delete_topics(
            DeleteTopicsRequest(topics, timeout_ms=body.timeout_ms), request.caller(), permits
        )
    except StorageError as error:
        return _failure(topics, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    await wait_for(request.broker.replicas.deleted())
    response.throttle_time_ms = permits.throttle_time_ms
    return response


def _failure(topics: list[DeleteTopicState], code: ErrorCode, message: str) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[DeletableTopicResult(topic.name, topic.topic_id, code, message) for topic in topics])
