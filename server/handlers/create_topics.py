"""CreateTopics v2-7 creates topics; each gets its own answer.

- The numbers of partitions and replicas are given; or -1, which stands for `num.partitions` and `default.replication.factor` in
  every version, although clients send it only since v4; or they follow from an assignment in the request. With `validate_only`
  everything is checked and nothing is created.
- v5 (KIP-525) adds the partition count, the replicas and all settings with their sources to the answer; v7 adds the topic id.
- A client over its quota of changes (controller_mutation_rate) is told how long to wait. Since v6 (KIP-599) topics that it may
  not create now are answered 89 THROTTLING_QUOTA_EXCEEDED.
- The topic can be used as soon as the answer is there, unless there is no room for it on disk: its partitions answer 56
  KAFKA_STORAGE_ERROR until there is. In a cluster, where other brokers have most of it, the answer waits two seconds for this
  one's part at most, and a leader answers 6 NOT_LEADER_OR_FOLLOWER until it has its own. If `timeout_ms` is 0 or less nothing is
  done; any other value has no effect, because the only controller is always there.
- Errors of the whole request, given for each topic: 7 REQUEST_TIMED_OUT (no time), 44 POLICY_VIOLATION (more than 10,000
  partitions).
- Errors of a topic: 17 INVALID_TOPIC_EXCEPTION (the name is illegal, or equals another but for '.' and '_'), 36
  TOPIC_ALREADY_EXISTS, 40 INVALID_CONFIG, 37 INVALID_PARTITIONS, 38 INVALID_REPLICATION_FACTOR, 39 INVALID_REPLICA_ASSIGNMENT, 42
  INVALID_REQUEST (the topic is named twice, or has both counts and an assignment), 44 POLICY_VIOLATION (more than 10,000
  partitions and settings, or the broker would hold more partitions than `ottla.max.partitions`), 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from ottla.log.errors import StorageError
from ottla.server.base.answers import wait_for
from ottla.server.base.promise import Promise
from ottla.server.base.turns import take_steps, wait_in_steps
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Either, Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

TRAITS = Traits(
    Inside(
        Either(Need(Operation.CREATE, Resource.CLUSTER), Need(Operation.CREATE, Resource.TOPIC)),
        Need(Operation.DESCRIBE_CONFIGS, Resource.TOPIC),
    ),
)

STRICT_SINCE: Final = 6
TOPICS_AT_ONCE: Final = 100
"""The answer about so many topics is encoded in about a turn, because it has all settings of each."""


def handle(
    body: CreateTopicsRequest, request: Request
) -> Coroutine[Any, Any, CreateTopicsResponse] | CreateTopicsResponse | Promise[CreateTopicsResponse]:
    answer = _create(body, request)
    if len(body.topics) <= TOPICS_AT_ONCE:
        return answer
    return take_steps(wait_in_steps(answer), request.broker.clock)


async def _create(body: CreateTopicsRequest, request: Request) -> CreateTopicsResponse:
    permits = request.permits(STRICT_SINCE)
    try:
        response = await request.broker.controller.create_topics(body, request.caller(), permits)
    except StorageError as error:
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(topic.name, error_code=code, error_message=str(error)) for topic in body.topics]
        )
    if not body.validate_only:
        await wait_for(request.broker.replicas.settled_soon())
    response.throttle_time_ms = permits.throttle_time_ms
    return response
