"""DeleteAcls v1-3 removes the access rules that match filters; metadata/access.py says which match.

- The rules are out of force when the answer goes out. A rule that several filters match is named by all of them.
- A filter with an unknown (0) resource type, pattern type, operation or permission closes the connection, as in Kafka.
- Errors of a filter: 44 POLICY_VIOLATION (the request would remove more than 10,000 rules, or compare too much), 54
  SECURITY_DISABLED without an authorizer, 56 KAFKA_STORAGE_ERROR.
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
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


def handle(body: DeleteAclsRequest, request: Request) -> DeleteAclsResponse | Awaitable[DeleteAclsResponse]:
    for each in body.filters:
        check_elements(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
    broker = request.broker
    if broker.authorizer is None and not broker.config.follows_controllers:
        return _refusal(body, ErrorCode.SECURITY_DISABLED, DISABLED)
    return _delete(body, request)


async def _delete(body: DeleteAclsRequest, request: Request) -> DeleteAclsResponse:
    try:
        return await request.broker.controller.delete_acls(body, request.caller())
    except StorageError as error:
        return _refusal(body, ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _refusal(body: DeleteAclsRequest, code: ErrorCode, text: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code, text) for _ in body.filters])
