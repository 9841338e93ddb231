"""DeleteAcls v1-3 removes the access rules that match filters. There is no authorizer yet, so every filter is answered 54
SECURITY_DISABLED.

A filter with an unknown (0) resource type, pattern type, operation or permission closes the connection, as in Kafka.

A broker whose controllers are others passes the request on: they have an authorizer or not. An answer that does not come is 56
KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.log.errors import StorageError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.acls import DISABLED, check_elements
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


def handle(body: DeleteAclsRequest, request: Request) -> DeleteAclsResponse | Awaitable[DeleteAclsResponse]:
    for each in body.filters:
        check_elements(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
    if request.broker.config.follows_controllers:
        return _forward(body, request)
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, DISABLED) for _ in body.filters]
    )


async def _forward(body: DeleteAclsRequest, request: Request) -> DeleteAclsResponse:
    try:
        answer: DeleteAclsResponse = await request.broker.controller.forward(body, request.caller())
    except StorageError as error:
        return DeleteAclsResponse(
            filter_results=[DeleteAclsFilterResult(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) for _ in body.filters]
        )
    return answer
