"""AlterPartitionReassignments v0-1 says which brokers are to hold a partition (KIP-455, KIP-860). The controller answers it.

On a broker that is the whole cluster its own id is the only possible target and nothing ever has to move
(metadata/reassignments.py): a partition that is already here is answered with success, as by Kafka. `kafka-reassign-partitions`
sends this request before it moves a partition between log directories (AlterReplicaLogDirs). There:

- Null `replicas` cancel a reassignment: there is none, so the answer is 85 NO_REASSIGNMENT_IN_PROGRESS.
- 39 INVALID_REPLICA_ASSIGNMENT: no replicas, a broker named twice, or a broker that does not exist. 3 UNKNOWN_TOPIC_OR_PARTITION.
- A partition that came with the data directory of a larger cluster and has replicas elsewhere stays as it is: 39
  INVALID_REPLICA_ASSIGNMENT, with a message.
- A `timeout_ms` of 0 or less is answered 7 REQUEST_TIMED_OUT for everything. Any other value has no effect, since the answer
  never waits. Neither has the permission in v1 to change the number of replicas.

56 KAFKA_STORAGE_ERROR for everything: no controller answered.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.log.errors import StorageError
from ottla.server.base.turns import promise_if_long
from ottla.server.metadata.operation import Refused
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


def handle(
    body: AlterPartitionReassignmentsRequest, request: Request
) -> Awaitable[AlterPartitionReassignmentsResponse] | AlterPartitionReassignmentsResponse:
    return promise_if_long(_alter(body, request), sum(len(topic.partitions) for topic in body.topics), request.broker.clock)


async def _alter(body: AlterPartitionReassignmentsRequest, request: Request) -> AlterPartitionReassignmentsResponse:
    try:
        return await request.broker.controller.alter_partition_reassignments(body, request.caller())
    except Refused as refused:
        return _refuse(body, refused.code, refused.message)
    except StorageError as error:
        return _refuse(body, ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _refuse(
    body: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
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
