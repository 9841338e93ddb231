"""CreateAcls v1-3 adds access rules; metadata/access.py says which there can be.

- Each rule succeeds or fails on its own, and is in force when the answer goes out. A rule that exists already succeeds.
- A rule with an unknown (0) resource type, pattern type, operation or permission closes the connection, as in Kafka.
- Errors of a rule: 42 INVALID_REQUEST; -1 UNKNOWN_SERVER_ERROR for all rules if one has a number that no rule can have; 44
  POLICY_VIOLATION (more than 10,000 new rules), 54 SECURITY_DISABLED without an authorizer, 56 KAFKA_STORAGE_ERROR.
- A broker whose controllers are others passes the request on; whether there is an authorizer is theirs to say.
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
    broker = request.broker
    if broker.authorizer is None and not broker.config.follows_controllers:
        return _refusal(body, ErrorCode.SECURITY_DISABLED, DISABLED)
    return _create(body, request)


async def _create(body: CreateAclsRequest, request: Request) -> CreateAclsResponse:
    try:
        return await request.broker.controller.create_acls(body, request.caller())
    except StorageError as error:
        return _refusal(body, ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _refusal(body: CreateAclsRequest, code: ErrorCode, text: str) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(code, text) for _ in body.creations])
