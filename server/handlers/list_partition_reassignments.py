"""ListPartitionReassignments v0 lists the partitions that are moving to other replicas (KIP-455). The controller answers it; what
one says whose cluster is this broker alone is in metadata/reassignments.py.

- Null `topics` ask for all. Topics and partitions that are not moving, or do not exist, are left out without an error.
- A partition is moving while its metadata names replicas to add or to remove; `replicas` are those that it has meanwhile.
- A partition that only this broker holds never moves; partitions of a data directory that came from a larger cluster may.
- `timeout_ms` has no effect on a broker that is its own controller, since the answer never waits there.
- 56 KAFKA_STORAGE_ERROR: no controller answered.
"""

from __future__ import annotations

from ottla.log.errors import StorageError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse

TRAITS = Traits(Whole(Need(Operation.DESCRIBE, Resource.CLUSTER)))


async def handle(body: ListPartitionReassignmentsRequest, request: Request) -> ListPartitionReassignmentsResponse:
    try:
        return await request.broker.controller.list_partition_reassignments(body, request.caller())
    except StorageError as error:
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(error))
