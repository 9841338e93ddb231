"""DescribeAcls v1-3 lists the access rules that match a filter. There is no authorizer yet, so the answer is 54
SECURITY_DISABLED.

A filter with an unknown (0) resource type, pattern type, operation or permission closes the connection, as in Kafka.
"""

from __future__ import annotations

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.acls import DISABLED, check_elements
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

TRAITS = Traits(Whole(Need(Operation.DESCRIBE, Resource.CLUSTER)))


def handle(body: DescribeAclsRequest, request: Request) -> DescribeAclsResponse:
    check_elements(body.resource_type_filter, body.pattern_type_filter, body.operation, body.permission_type)
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=DISABLED)
