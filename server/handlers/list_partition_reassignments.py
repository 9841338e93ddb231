"""ListPartitionReassignments v0 lists the partitions that are moving to other replicas (KIP-455).

A broker whose controllers are others passes it on to them; an answer that does not come is 56 KAFKA_STORAGE_ERROR. The rest is
about a broker that is its own controller.

- Null `topics` ask for all. Topics and partitions that are not moving, or do not exist, are left out without an error.
- A partition is moving while its metadata names replicas to add or to remove; `replicas` are those that it has meanwhile.
- A partition that only this broker holds never moves; partitions of a data directory that came from a larger cluster may.
- `timeout_ms` has no effect, since the answer never waits.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.log.errors import StorageError
from ottla.server.metadata.image import TopicImage
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

TRAITS = Traits(Whole(Need(Operation.DESCRIBE, Resource.CLUSTER)))


def handle(
    body: ListPartitionReassignmentsRequest, request: Request
) -> ListPartitionReassignmentsResponse | Awaitable[ListPartitionReassignmentsResponse]:
    if request.broker.config.follows_controllers:
        return _forward(body, request)
    topics = request.broker.metadata.topics
    if body.topics is None:
        wanted = [(topic, list(topic.partitions)) for topic in topics.values()]
    else:
        wanted = [(topics[topic.name], topic.partition_indexes) for topic in body.topics if topic.name in topics]
    ongoing = [(topic.name, _ongoing(topic, indexes)) for topic, indexes in wanted]
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[OngoingTopicReassignment(name, partitions) for name, partitions in ongoing if partitions],
    )


async def _forward(body: ListPartitionReassignmentsRequest, request: Request) -> ListPartitionReassignmentsResponse:
    try:
        answer: ListPartitionReassignmentsResponse = await request.broker.controller.forward(body, request.caller())
    except StorageError as error:
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(error))
    return answer


def _ongoing(topic: TopicImage, indexes: list[int]) -> list[OngoingPartitionReassignment]:
    found = ((index, topic.partitions[index]) for index in indexes if index in topic.partitions)
    return [
        OngoingPartitionReassignment(index, list(image.replicas), list(image.adding_replicas), list(image.removing_replicas))
        for index, image in found
        if image.adding_replicas or image.removing_replicas
    ]
