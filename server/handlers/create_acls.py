"""CreateAcls v1-3 adds access rules. There is no authorizer yet, so every rule is refused with 54 SECURITY_DISABLED.

A rule with an unknown (0) resource type, pattern type, operation or permission closes the connection, as in Kafka.

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
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


def handle(body: CreateAclsRequest, request: Request) -> CreateAclsResponse | Awaitable[CreateAclsResponse]:
    for rule in body.creations:
        check_elements(rule.resource_type, rule.resource_pattern_type, rule.operation, rule.permission_type)
    if request.broker.config.follows_controllers:
        return _forward(body, request)
    return CreateAclsResponse(results=[AclCreationResult(ErrorCode.SECURITY_DISABLED, DISABLED) for _ in body.creations])


async def _forward(body: CreateAclsRequest, request: Request) -> CreateAclsResponse:
    try:
        answer: CreateAclsResponse = await request.broker.controller.forward(body, request.caller())
    except StorageError as error:
        return CreateAclsResponse(results=[AclCreationResult(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) for _ in body.creations])
    return answer
