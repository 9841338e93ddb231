"""AlterPartitionReassignments v0-1 says which brokers are to hold a partition (KIP-455, KIP-860).

A broker whose controllers are others passes it on to them. All else here is about a broker that is the whole cluster, so its own
id is the only possible target and nothing ever has to move: a partition that is already here is answered with success, as by
Kafka. `kafka-reassign-partitions` sends this request before it moves a partition between log directories (AlterReplicaLogDirs).

- Null `replicas` cancel a reassignment: there is none, so the answer is 85 NO_REASSIGNMENT_IN_PROGRESS.
- 39 INVALID_REPLICA_ASSIGNMENT: no replicas, a broker named twice, or a broker that does not exist. 3 UNKNOWN_TOPIC_OR_PARTITION.
- A partition that came with the data directory of a larger cluster and has replicas elsewhere stays as it is: 39
  INVALID_REPLICA_ASSIGNMENT, with a message.
- A `timeout_ms` of 0 or less is answered 7 REQUEST_TIMED_OUT for everything. Any other value has no effect, since the answer
  never waits. Neither has the permission in v1 to change the number of replicas.
- 56 KAFKA_STORAGE_ERROR for everything: no controller answered.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.log.errors import StorageError
from ottla.server.metadata.names import MAX_LENGTH
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


def handle(
    body: AlterPartitionReassignmentsRequest, request: Request
) -> AlterPartitionReassignmentsResponse | Awaitable[AlterPartitionReassignmentsResponse]:
    if request.broker.config.follows_controllers:
        return _forward(body, request)
    if body.timeout_ms <= 0 and body.topics:
        return _refuse(body, ErrorCode.REQUEST_TIMED_OUT)
    responses = []
    for topic in body.topics:
        answers = [_alter(topic.name, partition, request) for partition in topic.partitions]
        responses.append(ReassignableTopicResponse(topic.name, answers))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_message=None if responses else "",  # as in Kafka, which answers "" if there are no partitions
        responses=responses,
    )


async def _forward(body: AlterPartitionReassignmentsRequest, request: Request) -> AlterPartitionReassignmentsResponse:
    try:
        answer: AlterPartitionReassignmentsResponse = await request.broker.controller.forward(body, request.caller())
    except StorageError as error:
        return _refuse(body, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return answer


def _refuse(
    body: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None = None
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                topic.name, [ReassignablePartitionResponse(each.partition_index, code, None) for each in topic.partitions]
            )
            for topic in body.topics
        ],
    )


def _alter(topic: str, partition: ReassignablePartition, request: Request) -> ReassignablePartitionResponse:
    index, replicas = partition.partition_index, partition.replicas
    image = request.broker.metadata.partition(topic, index)
    code, text = ErrorCode.NONE, None
    if image is None:
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {index} of topic '{topic[:MAX_LENGTH]}'."
    elif replicas is None:
        code, text = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    elif (wrong := _find_fault(replicas, request)) is not None:
        code, text = ErrorCode.INVALID_REPLICA_ASSIGNMENT, wrong
    elif sorted(image.replicas) != sorted(replicas):
        code, text = ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The replicas on {list(image.replicas)} cannot be moved from here."
    return ReassignablePartitionResponse(index, code, text)


def _find_fault(replicas: list[int], request: Request) -> str | None:
    if not replicas:
        return "A partition needs a replica."
    if len(set(replicas)) != len(replicas):
        return f"{replicas} names a broker twice."
    unknown = [broker for broker in replicas if broker not in request.broker.metadata.brokers]
    return f"There are no brokers {unknown}." if unknown else None
